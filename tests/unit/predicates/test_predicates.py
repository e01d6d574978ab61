"""Conditions on one value as intervals of it, clauses, and the filters of a pool."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.expressions.context import Context, Failures
from penstock.indexes.bitmap.regions import CONJUNCT, RegionBitmaps
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.predicates.clauses import clause_of, clauses_of
from penstock.predicates.interval_sets import IntervalSets
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DOUBLE, STRING

LEAST, MOST = -(2**63), 2**63 - 1
A, B = Column(BIGINT, 0, "a"), Column(BIGINT, 1, "b")
X, NAME = Column(DOUBLE, 2, "x"), Column(STRING, 3, "name")
P, Q = Param(BIGINT, 0, "p"), Param(BIGINT, 1, "q")


def call(fn: str, *args: Expr) -> Call:
    return Call(BOOLEAN, fn, args)


def text(value: str) -> Literal:
    return Literal(STRING, value)


def new_context() -> Context:
    return Context(StringTable(Arena().scope("strings")), {}, Failures())


def interval_sets(condition: Expr, *params: int | None, ctx: Context | None = None) -> IntervalSets:
    """What one query takes."""
    terms = clause_of(condition)
    assert terms is not None
    (term,) = terms
    nulls = sum(1 << i for i, p in enumerate(params) if p is None)
    row = np.array([[nulls, *(p or 0 for p in params)]])
    return term.intervals(row, ctx or new_context())


def intervals(found: IntervalSets) -> list[tuple[int, int]]:
    return list(zip(found.lows.tolist(), found.highs.tolist(), strict=True))


def test_a_list_is_one_interval_per_value_and_neighbours_are_joined() -> None:
    in_list = call("or", call("or", call("eq", A, P), call("eq", A, Q)), call("eq", A, P))
    assert intervals(interval_sets(in_list, 7, 3)) == [(3, 3), (7, 7)]
    assert intervals(interval_sets(in_list, 4, 3)) == [(3, 4)]
    assert intervals(interval_sets(in_list, 4, None)) == [(4, 4)]


def test_not_in_a_list_with_null_takes_nothing() -> None:
    not_in = call("not", call("or", call("eq", A, P), call("eq", A, Q)))
    assert intervals(interval_sets(not_in, 1, 5)) == [(LEAST, 0), (2, 4), (6, MOST)]
    assert intervals(interval_sets(not_in, 1, None)) == []
    assert intervals(interval_sets(not_in, LEAST, MOST)) == [(LEAST + 1, MOST - 1)]


def test_null_is_taken_only_by_who_asks_for_it() -> None:
    either = call("or", call("is_null", A), call("gt", A, P))
    assert interval_sets(either, 5).null.tolist() == [True]
    assert interval_sets(call("not", either), 5).null.tolist() == [False]
    assert intervals(interval_sets(call("not", either), 5)) == [(LEAST, 5)]
    optional = call("or", call("is_null", P), call("ge", A, P))
    assert (intervals(interval_sets(optional, None)), interval_sets(optional, None).null[0]) == (
        [(LEAST, MOST)], True,
    )  # fmt: skip
    assert (intervals(interval_sets(optional, 2)), interval_sets(optional, 2).null[0]) == (
        [(2, MOST)],
        False,
    )
    same = call("coalesce", call("eq", A, P), Literal(BOOLEAN, False))
    assert interval_sets(call("not", same), None).null[0]


def test_strict_bounds_at_the_ends_of_the_integers() -> None:
    assert intervals(interval_sets(call("lt", A, P), LEAST)) == []
    assert intervals(interval_sets(call("gt", A, P), MOST)) == []
    assert intervals(interval_sets(call("ne", A, P), MOST)) == [(LEAST, MOST - 1)]


def test_a_text_of_up_to_seven_bytes_is_exact() -> None:
    for condition, exact in [
        (call("like", NAME, text("abcdefg%")), True),
        (call("like", NAME, text("abcdefgh%")), False),
        (call("like", NAME, text("abc")), True),
        (call("like", NAME, text("a_c%")), False),
        (call("like", NAME, text("%")), True),
        (call("lt", NAME, text("abcdefg")), True),
        (call("le", NAME, text("éclairs")), False),
        (call("in", NAME, text("a"), text("abcdefgh")), False),
    ]:
        assert interval_sets(condition).exact.tolist() == [exact], str(condition)


def test_texts_keep_their_order_with_nul_bytes_and_beyond_seven() -> None:
    ctx = new_context()
    texts = sorted(["", "\0", "a", "a\0", "a\0\0", "ab", "abcdefg", "abcdefg\0", "abcdefgz", "é"],
                   key=str.encode)  # fmt: skip
    rows = np.zeros((5, len(texts)), np.int64)
    rows[4] = [ctx.strings.code(t) for t in texts]
    (term,) = clause_of(call("like", NAME, text("a\0%"))) or ()
    values, _ = term.values(rows, ctx)
    assert (np.diff(values) >= 0).all()
    assert len(set(values.tolist())) == len(texts) - 1  # two long ones begin alike
    found = term.intervals(np.zeros((1, 1), np.int64), ctx)
    taken = (values >= found.lows[0]) & (values <= found.highs[0])
    assert [t for t, yes in zip(texts, taken, strict=True) if yes] == ["a\0", "a\0\0"]


def test_what_is_not_surely_true_may_be_untrue() -> None:
    long = call("like", NAME, text("abcdefgh%"))
    unknown = call("or", long, call("eq", NAME, Literal(STRING, None)))
    is_true = call("coalesce", unknown, Literal(BOOLEAN, False))
    found = interval_sets(call("not", is_true))  # takes 'abcdefgz', which has the key of 'abcdefgh'
    assert (intervals(found), found.exact.tolist()) == ([(LEAST, MOST)], [False])


def test_clauses() -> None:
    or_ = call("or", call("eq", A, P), call("lt", B, Q))
    terms = clause_of(or_)
    assert terms is not None
    assert [t.value for t in terms] == [A, B]
    assert clause_of(call("eq", Call(BIGINT, "add", (A, P)), Literal(BIGINT, 1))) is None
    assert clause_of(call("udf:f", A)) is None
    dnf = call(
        "or", call("and", call("eq", A, P), call("eq", B, Q)), call("gt", X, Literal(DOUBLE, 1.0))
    )
    assert [len(clause_of(c) or ()) for c in clauses_of(dnf)] == [2, 2]
    negated = call("not", call("and", call("eq", A, P), call("not", call("eq", B, Q))))
    assert [t.value for t in clause_of(negated) or ()] == [A, B]
    mixed = call("or", call("and", call("lt", A, B), call("udf:f", A, P)), call("eq", A, Q))
    assert [clause_of(c) is None for c in clauses_of(mixed)] == [False, True]


def bits_of(filter_: RegionBitmaps, *values: int | None) -> list[list[int]]:
    """The slots that take each value."""
    null = np.array([v is None for v in values])
    bits = np.full((len(values), filter_.words), 2**64 - 1, np.uint64)
    words = np.array([v or 0 for v in values])
    filter_.narrow(words, null, np.arange(len(values)), bits, np.zeros((len(values), 1), np.uint64))
    return [
        np.flatnonzero(np.unpackbits(b.view(np.uint8), bitorder="little")).tolist() for b in bits
    ]


def add(filter_: RegionBitmaps, condition: Expr, slots: list[int], params: list[int]) -> None:
    (term,) = clause_of(condition) or ()
    rows: I64 = np.array([[0, p] for p in params])
    conjuncts = np.full(len(slots), CONJUNCT)
    filter_.add(np.array(slots), term.intervals(rows, new_context()), conjuncts)


@pytest.mark.parametrize("far", [0, 2**40])
def test_slots_ask_twice_leave_and_come_again(far: int) -> None:
    filter_ = RegionBitmaps(1)
    add(filter_, call("ge", A, P), [3, 3, 5], [far, far + 2, -far])
    add(filter_, call("le", A, P), [3], [far + 4])
    others = [s for s in range(64) if s not in (3, 5)]
    both = sorted([*others, 3, 5])
    assert bits_of(filter_, far + 1, far + 2, far + 5) == [
        sorted([*others, 5]),
        both,
        sorted([*others, 5]),
    ]
    assert bits_of(filter_, None, -far - 1) == [others, others]
    assert filter_.predicates == 4
    assert filter_.uses.tolist() == [0b101000]
    filter_.remove(np.array([3]))
    assert bits_of(filter_, far + 1, -far - 1, None) == [
        both,
        sorted([*others, 3]),
        sorted([*others, 3]),
    ]
    add(filter_, call("eq", A, P), [3], [far + 9])
    assert bits_of(filter_, far + 9, far + 1) == [both, sorted([*others, 5])]


def test_regions_of_removed_queries_are_joined() -> None:
    filter_ = RegionBitmaps(64)
    slots = list(range(4000))
    add(filter_, call("eq", A, P), slots, [7 * s for s in slots])
    size, regions = filter_.nbytes, filter_.regions
    assert regions == 8001
    filter_.remove(np.array(slots[10:]))
    assert filter_.regions == 21
    assert filter_.nbytes < size // 100
    assert [b[:10] for b in bits_of(filter_, 14, 15)] == [[2, *range(10, 19)], [*range(10, 20)]]
