"""Along which column rows look for partners: chosen, chosen again, shared; answers stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.indexes.pairs import axes
from penstock.session import Session

STREAMS = """
CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, c BIGINT, d BIGINT, ts BIGINT) TIMESTAMP BY ts;
"""
WINDOWS = "r [RANGE 9] JOIN s [RANGE 9] ON r.k = s.k"
RANGES = "s.c BETWEEN $c AND $e AND s.d BETWEEN $d AND $f"
SELECT = f"SELECT r.a, s.c, s.d FROM {WINDOWS} WHERE {RANGES}"
BAND = f"SELECT r.a, s.c FROM {WINDOWS} WHERE s.d BETWEEN $d AND $f AND s.c - r.a BETWEEN $c AND $e"
DOMAIN = 1_000


def params(n: int, narrow: str, seed: int = 1) -> pa.Table:
    """Ranges of c and d: those of one column are short, those of the other long."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, DOMAIN, (2, n))
    reach = rng.integers(0, 3, n), rng.integers(300, 600, n)
    of_c, of_d = reach if narrow == "c" else reach[::-1]
    return pa.table({"c": low[0], "e": low[0] + of_c, "d": low[1], "f": low[1] + of_d})


def rows(stream: str, ts: int, n: int = 40) -> pa.Table:
    rng = np.random.default_rng([ts, ord(stream)])
    columns = {"k": rng.integers(0, 4, n)}
    for name in "a" if stream == "r" else "cd":
        columns[name] = rng.integers(0, DOMAIN, n)
    return pa.table({**columns, "ts": np.full(n, ts)})


def connect(**options: Any) -> Session:
    ps = penstock.connect(runner="inprocess", **options)
    ps.sql(STREAMS)
    return ps


def push(ps: Session, *times: int) -> None:
    for ts in times:
        for stream in "rs":
            ps.push(stream, rows(stream, ts))


def axes_of(ps: Session) -> list[str]:
    (index,) = ps.stats()["pairs"]
    return [side["axis"] for side in index["sides"]]


@pytest.mark.parametrize(("narrow", "axis"), [("c", "s.c"), ("d", "s.d")])
def test_the_axis_is_the_one_on_which_few_partners_are_inside(narrow: str, axis: str) -> None:
    ps = connect()
    many = ps.query_many(SELECT, params(1_500, narrow))
    push(ps, 1, 2, 3)
    assert axes_of(ps)[0] == axis
    assert f"partners by {axis}" in many[0].explain()


@pytest.mark.parametrize(("narrow", "axis"), [("c", "s.c - r.a"), ("d", "s.d")])
def test_a_range_can_be_better_than_a_band(narrow: str, axis: str) -> None:
    ps = connect()
    ps.query_many(BAND, params(1_500, narrow))
    push(ps, 1, 2, 3)
    assert axes_of(ps)[0] == axis
    assert axes_of(ps)[1] == "s.c - r.a"  # rows of s have no range to look along


@pytest.mark.parametrize("text", [SELECT, BAND])
def test_the_axis_is_chosen_again_and_answers_stay(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that keeps the first axis tells the same."""
    told = []
    for keeps in (False, True):
        if keeps:
            monkeypatch.setattr(axes.AxisChoice, "is_due", lambda choice, rows: False)
        ps = connect()
        first = ps.query_many(text, params(1_500, "c"))
        push(ps, 1, 2, 3)
        then = ps.query_many(text, params(1_200, "d", seed=2))
        first.drop()
        push(ps, 4, 5, 6)
        told.append(then.changes().drop_columns("_batch"))
        (index,) = ps.stats()["pairs"]
        changes = [side["axis_changes"] for side in index["sides"]]
        assert changes == ([0, 0] if keeps else [1, 0])
        assert (axes_of(ps)[0] == "s.d") is not keeps
        stems = {tuple(stem["columns"]) for stem in ps.stats()["stems"] if stem["stream"] == "s"}
        assert (("k", "c") in stems) is keeps  # it is freed with its last reader
        then.drop()
        assert ps.stats()["stems"] == []
    assert told[0].num_rows > 100
    assert told[0].equals(told[1])


def test_a_restored_session_keeps_no_stem_that_is_not_read() -> None:
    ps = connect()
    ps.query_many(SELECT, params(1_200, "c"))
    push(ps, 1, 2, 3)
    again = penstock.connect(runner="inprocess", snapshot=ps.snapshot())
    again.query_many(SELECT, params(6_000, "d", seed=2))
    again["q1"].siblings.drop()
    push(again, 4, 5)
    assert axes_of(again)[0] == "s.d"
    names = again._books.engine.arena.names_in("stems")
    assert {name.rsplit("/", 1)[0] for name in names if "keyed" in name} == {
        "stems/r/keyed-0-0", "stems/s/keyed-0-2",
    }  # fmt: skip


def test_templates_over_the_same_join_share_a_stem() -> None:
    ps = connect()
    one = ps.query_many(SELECT, params(1_200, "d"))
    other = ps.query_many(f"SELECT r.k, s.d FROM {WINDOWS} WHERE {RANGES}", params(1_200, "d"))
    band = ps.query_many(BAND, params(1_200, "d"))
    push(ps, 1, 2, 3)
    readers = {
        tuple(stem["columns"]): stem["readers"]
        for stem in ps.stats()["stems"]
        if stem["stream"] == "s" and stem["kind"] == "keyed"
    }
    assert readers == {("k", "d"): 3}
    band.drop()
    other.drop()
    assert [s["readers"] for s in ps.stats()["stems"] if s["columns"] == ["k", "d"]] == [1]
    assert one.changes().num_rows > 100


def near(c: int, d: int) -> pa.Table:
    """Ranges of these lengths."""
    low = np.random.default_rng(3).integers(0, DOMAIN, (2, 1_200))
    return pa.table({"c": low[0], "e": low[0] + c, "d": low[1], "f": low[1] + d})


def test_a_template_prefers_a_stem_that_is_there() -> None:
    """Its own axis would be a little better, but costs a SteM."""
    text = f"SELECT r.k, s.d FROM {WINDOWS} WHERE {RANGES}"
    for beside, axis in ((False, "s.d"), (True, "s.c")):
        ps = connect()
        if beside:
            ps.query_many(SELECT, near(90, 120))
            push(ps, 1)
            assert axes_of(ps)[0] == "s.c"
        ps.query_many(text, near(120, 90))
        push(ps, 2, 3)
        assert ps.stats()["pairs"][-1]["sides"][0]["axis"] == axis
