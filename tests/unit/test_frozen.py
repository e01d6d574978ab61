"""Frozen values: one hash, derived values made once, pickles of what is compared."""

from __future__ import annotations

import pickle
from dataclasses import field

from penstock.errors import Place
from penstock.frozen import Hashed, derived, frozen, record, shared
from penstock.logical.expr import Call, Column, Literal, Param, Written, columns_of, params_of
from penstock.types import BIGINT

made: list[int] = []


class _Room(Hashed):
    __slots__ = ("_double",)


@frozen
class Number(_Room):
    value: int
    note: str = field(default="", compare=False)

    @derived
    def double(self) -> int:
        """Twice the value."""
        made.append(self.value)
        return 2 * self.value


@record
class Nothing:
    pass


@shared
class Parcel:
    number: Number
    what: str


def test_equal_values_have_one_hash() -> None:
    assert Number(3, "a") == Number(3, "b") != Number(4, "a")
    assert hash(Number(3, "a")) == hash(Number(3, "b"))


def test_what_is_derived_is_made_once() -> None:
    made.clear()
    number = Number(21)
    assert (number.double, number.double, made) == (42, 42, [21])
    assert Number.double.__doc__ == "Twice the value."


def test_a_pickle_holds_what_is_compared() -> None:
    number = Number(3, "here")
    assert number.double == 6
    again = pickle.loads(pickle.dumps(number))
    assert (again, again.note, again.double) == (number, "", 6)
    assert pickle.loads(pickle.dumps(Nothing())) == Nothing()


def test_a_shared_value_is_decoded_once() -> None:
    parcel = Parcel(Number(8), "plan")
    one, two = (pickle.loads(pickle.dumps([parcel, 5])) for _ in range(2))
    assert one == two == [parcel, 5]
    assert one[0] is two[0] is not parcel
    assert pickle.loads(pickle.dumps(Parcel(Number(8), "another"))) != parcel


def test_a_constant_forgets_its_text_on_the_wire() -> None:
    constant = Literal(BIGINT, 5, Written(Place(1, 8)))
    again = pickle.loads(pickle.dumps(constant))
    assert again == constant
    assert again.at is None


def test_expressions_know_what_they_read() -> None:
    inner = Call(BIGINT, "add", (Column(BIGINT, 3), Param(BIGINT, 1)))
    outer = Call(BIGINT, "mul", (inner, Column(BIGINT, 0), Literal(BIGINT, 7)))
    assert (columns_of(outer), params_of(outer)) == ({0, 3}, {1})
    assert (columns_of(Literal(BIGINT, 7)), params_of(inner)) == (set(), {1})
