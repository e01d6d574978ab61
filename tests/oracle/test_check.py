"""The checker itself: a good run passes, and every way of tampering with it is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oracle.check import Mismatch, check, compare
from oracle.driver import Observation, Trace, run
from oracle.fold import Change
from oracle.scenario import Advance, Drop, Insert, Push, Register, Restore, Scenario, Update
from oracle.world import StreamDef, TableDef

R = StreamDef("r", (("k", "INT"), ("a", "INT"), ("ts", "BIGINT")))
S = StreamDef("s", (("k", "INT"), ("b", "INT"), ("ts", "BIGINT")), delay=2)
T = TableDef("t", (("k", "INT"), ("name", "STRING")))
SCENARIO = Scenario(
    (R, S),
    (T,),
    (
        Insert("t", ((1, "one"), (2, "two"))),
        Push("r", ((1, 10, 1), (2, 20, 2), (None, 30, 2))),
        Push("s", ((1, 5, 3), (2, 6, 1), (1, 7, 4))),
        Update("t", 1, "uno"),
        Restore(),
        Push("r", ((1, 40, 4),)),
        Push("s", ((1, 8, 1), (2, 9, 6))),
        Advance(None, 12),
    ),
)
COUNT = "SELECT x.k, count(*) AS n FROM r [RANGE 4] x JOIN s [RANGE 5] y ON x.k = y.k GROUP BY x.k"
NAMES = "SELECT t.name, x.a FROM r [RANGE 5] x JOIN t ON x.k = t.k"


@pytest.fixture(scope="module")
def good() -> Trace:
    return run([COUNT, NAMES], SCENARIO)


def test_a_good_run_passes(good: Trace) -> None:
    assert compare(good) > 20


def test_late_rows_are_counted(good: Trace) -> None:
    assert good.late == {"r": 0, "s": 1}
    with pytest.raises(Mismatch, match="late rows"):
        compare(replace(good, late={"r": 0, "s": 0}))


def _tamper(trace: Trace, change: Callable[[Observation], Observation]) -> Trace:
    """The run with the first step that shows changes of the second query altered."""
    seen = list(trace.seen[1])
    at = next(i for i, o in enumerate(seen) if o.changes)
    seen[at] = change(seen[at])
    return replace(trace, seen=[trace.seen[0], seen])


def _first(o: Observation, change: Change) -> Observation:
    return replace(o, changes=[change, *o.changes[1:]])


@pytest.mark.parametrize(
    "change",
    [
        lambda o: replace(o, changes=o.changes[1:]),
        lambda o: replace(o, changes=[*o.changes, o.changes[-1]]),
        lambda o: replace(o, changes=[*o.changes, replace(o.changes[-1], key=(99, 9))]),
        lambda o: replace(o, view=o.view[1:]),
        lambda o: replace(o, view=None),
        lambda o: _first(o, replace(o.changes[0], time=o.changes[0].time - 1)),
        lambda o: _first(o, replace(o.changes[0], row=("one", 11))),
        lambda o: _first(o, replace(o.changes[0], sign=-1)),
    ],
    ids=[
        "lost",
        "key twice",
        "doubled",
        "short view",
        "no view",
        "early",
        "wrong value",
        "wrong sign",
    ],
)
def test_tampering_is_noticed(good: Trace, change: Callable[[Observation], Observation]) -> None:
    with pytest.raises(Mismatch):
        compare(_tamper(good, change))


def test_register_and_drop() -> None:
    actions = SCENARIO.actions
    come_and_go = (*actions[:3], Register(0), *actions[5:6], Drop(0), *actions[6:])
    check(NAMES, replace(SCENARIO, actions=come_and_go))


def test_a_failure_comes_with_a_script(good: Trace) -> None:
    with pytest.raises(Mismatch, match=r"ps\.push\('r', \[\{'k': 1, 'a': 10, 'ts': 1\}"):
        compare(_tamper(good, lambda o: replace(o, view=[])))
