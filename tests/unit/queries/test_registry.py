"""Names, groups of queries, and who is found where."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.queries.names import Names, number_of
from penstock.queries.registry import Group, Registry


def group(names: Names, template: int = 1, qids: I64 | None = None) -> Group:
    rows = np.arange(len(names)) if qids is None else qids
    return Group(template, "SELECT 1", names, rows, 0, False)


def added(registry: Registry, names: Names, template: int = 1) -> Group:
    made = group(names, template)
    registry.add(made)
    return made


@pytest.mark.parametrize(
    ("name", "number"),
    [("q1", 1), ("q120", 120), ("q", None), ("q01", None), ("q0", None), ("x1", None),
     ("q1x", None), ("q²", None), ("q-1", None), ("qq1", None)],
)  # fmt: skip
def test_numbers_in_names(name: str, number: int | None) -> None:
    assert number_of(name) == number


def test_names_that_count_on_are_not_stored() -> None:
    names = Names(None, 9, 3)
    assert list(names) == names.arrow().to_pylist() == ["q9", "q10", "q11"]
    assert (names[-1], names[1:], names.at(np.array([2, 0]))) == (
        "q11",
        ["q10", "q11"],
        ["q11", "q9"],
    )
    with pytest.raises(IndexError):
        names[3]
    assert len(pickle.dumps(Names(None, 1, 1_000_000))) < 200


def test_fresh_names_pass_by_those_that_are_given() -> None:
    registry = Registry()
    added(registry, Names(["q3", "q7", "x"]))
    assert list(added(registry, registry.fresh_names(2)).names) == ["q1", "q2"]
    assert list(registry.fresh_names(2)) == list(registry.fresh_names(2)) == ["q4", "q5"]
    many = added(registry, registry.fresh_names(100, {"q20": None}))
    assert many.names[0] == "q21"
    assert list(registry.fresh_names(1)) == ["q121"]


def test_queries_are_found_by_name() -> None:
    registry = Registry()
    many = added(registry, registry.fresh_names(1000))
    one = added(registry, registry.fresh_names(1))
    given = added(registry, Names(["hot", "cold"]), template=2)
    for name, expected in {
        "q1": (many, 0), "q1000": (many, 999), "q1001": (one, 0), "cold": (given, 1),
    }.items():  # fmt: skip
        info = registry.find(name)
        assert info is not None
        assert ((info.group, info.at), info.name) == (expected, name)
    assert [registry.find(n) for n in ("q0", "q1002", "Q1", "warm", "q")] == [None] * 5
    assert (len(registry), registry.count(1), registry.count(2)) == (1003, 1001, 2)


def test_what_is_dropped_is_found_no_more_and_its_name_is_free() -> None:
    registry = Registry()
    many = added(registry, registry.fresh_names(3))
    registry.remove([(many, np.array([1]))])
    assert ("q1" in registry, "q2" in registry, len(registry)) == (True, False, 2)
    added(registry, Names(["q2"]))
    info = registry.find("q2")
    assert info is not None
    assert info.group is not many
    registry.remove([(many, np.array([0, 2]))])
    assert (many.number in registry.groups, registry.count(1)) == (False, 1)
    assert [g.names[0] for g in registry.of_template(1)] == ["q2"]


def test_members_of_rows_are_those_that_run() -> None:
    registry = Registry()
    first = group(Names(["a", "b", "c"]), qids=np.array([4, 5, 4]))
    second = group(Names(["d"]), qids=np.array([4]))
    for made in (first, second):
        registry.add(made)
    found = [(g, places.tolist()) for g, places in registry.members(1, np.array([4]))]
    assert found == [(first, [0, 2]), (second, [0])]
    registry.remove([(first, np.array([0]))])
    Registry.fail([(first, np.array([2]))], "no")
    assert [g for g, _ in registry.members(1, np.array([4]))] == [second]
    info = registry.find("c")
    assert info is not None
    assert info.failure == "no"
    assert registry.some_names(1, 2) == ["b", "c"]


def test_a_million_queries_are_small_and_come_back() -> None:
    registry = Registry()
    added(registry, registry.fresh_names(1_000_000))
    data = pickle.dumps(registry)
    assert len(data) < 11_000_000  # rows of Q, and whether they are dropped and gone
    again = pickle.loads(data)
    info = again.find("q777777")
    assert (info.at, again.next_name) == (777_776, 1_000_001)
