"""Sums of floats of any magnitude: at each instant the nearest double of what is in the window.

One process, shards, another order of arrival, history, EMIT ON COMMIT and a restored snapshot say
the same, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock
from penstock.session import Session

Row = tuple[int, int, float, float]
"""Time, key, DOUBLE, FLOAT."""
STREAM = "CREATE STREAM s (k INT, x DOUBLE, f FLOAT, ts BIGINT) TIMESTAMP BY ts DELAY 40 RETAIN 99"
WINDOW, END = 5, 30
WHOLE = f"SELECT sum(x) AS t, avg(x) AS a, sum(f) AS u, stddev(x) AS d FROM s [RANGE {WINDOW}]"
GROUPED = f"SELECT k, sum(x) AS t, avg(f) AS a, stddev(x) AS d FROM s [RANGE {WINDOW}] GROUP BY k"
SHARED = f"SELECT sum(x) AS t, avg(f) AS a FROM s [RANGE {WINDOW}]"  # of these, shards make parts
RUNNERS = {"one process": None, "two shards": 2, "four shards": 4}

DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0.0, -0.0, 5e-324, 1.7e308, -1.7e308, 1e32, -1e32, 1e16, 0.2, 7.0, 9.969209968386869e36,
         1e9, 0.1, 2.0**53, 1.0, 2.0**-53, 1e-308, math.inf, -math.inf, math.nan]
    ),
)  # fmt: skip
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), DOUBLES, FLOATS), max_size=20)
ISSUE = [
    (1, 0, 1e32, 0.5),
    (2, 0, 0.2, 0.5),
    (5, 0, 1e16, 0.5),
    (9, 0, 0.0, 0.5),
    (12, 0, 7.0, 0.5),
]


# ---- what must come out ----------------------------------------------------------------
def rounded(total: Fraction) -> float:
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def total(values: list[float]) -> float | None:
    """The sum as SQL says it."""
    odd = {str(v) for v in values if not math.isfinite(v)}
    if odd:
        return math.nan if len(odd) > 1 else float(odd.pop())
    return rounded(sum(map(Fraction, values), Fraction(0))) if values else None


def average(values: list[float]) -> float | None:
    found = total(values)
    return None if found is None else found / len(values)


def expected(rows: list[Row], key: int | None) -> dict[int, tuple[str, str, str]]:
    """Sum and average of x and sum of f at each instant, as text (`nan` equals `nan`)."""
    out = {}
    for now in range(END + 1):
        there = [r for r in rows if r[0] <= now < r[0] + WINDOW and key in (None, r[1])]
        x, f = [r[2] for r in there], [r[3] for r in there]
        out[now] = (repr(total(x)), repr(average(x)), repr(total(f)))
    return out


# ---- what comes out ----------------------------------------------------------------------
def push(ps: Session, rows: list[Row]) -> None:
    """In two batches."""
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        if part:
            ps.push("s", [{"k": k, "x": x, "f": f, "ts": ts} for ts, k, x, f in part])


def run(
    sqls: list[str], rows: list[Row], shards: int | None, cut: int | None = None
) -> list[list[dict[str, Any]]]:
    """The changes of queries over rows that are pushed in this order; a restart at `cut`."""
    options: dict[str, Any] = {} if shards is None else {"shards": shards}
    ps = penstock.connect(runner="inprocess", **options)
    ps.sql(STREAM)
    queries = [ps.query(sql) for sql in sqls]
    before: list[list[dict[str, Any]]] = [[] for _ in sqls]
    first, rest = rows[:cut], rows[cut:] if cut is not None else []
    push(ps, first)
    if cut is not None:
        ps.advance(ts=rest[0][0] - 1)
        before = [q.changes().to_pylist() for q in queries]
        names, image = [q.name for q in queries], ps.snapshot()
        ps.close()
        ps = penstock.connect(runner="inprocess", snapshot=image)
        queries = [ps[name] for name in names]
        push(ps, rest)
    with ps:
        ps.advance(ts=END)
        after = [q.changes().to_pylist() for q in queries]
    return [a + b for a, b in zip(before, after, strict=True)]


def at_each_instant(
    changes: list[dict[str, Any]], fields: str, nothing: tuple[str, ...]
) -> dict[int, tuple[str, ...]]:
    """The only row of an answer by time."""
    row, out, left = nothing, {}, list(changes)
    for now in range(END + 1):
        while left and (left[0]["_time"] is None or left[0]["_time"] <= now):
            change = left.pop(0)
            kept = change["_change_type"] in ("insert", "update_postimage")
            row = tuple(repr(change[c]) for c in fields) if kept else nothing
        out[now] = row
    assert not left
    return out


def bare(changes: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Changes without what numbers them."""
    names = ("_change_type", "_time", "t", "a", "u", "d", "k")
    return sorted(tuple(repr(c.get(name)) for name in names) for c in changes)


@settings(max_examples=25, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
@example(ISSUE, None)
@example([(1, 0, 1.7e308, 0.5), (2, 1, 1.7e308, 0.5), (4, 0, -1.7e308, 0.5)], None)
def test_every_instant_on_every_runner(rows: list[Row], rng: Any) -> None:
    found = {}
    for runner, shards in RUNNERS.items():
        order = rows if rng is None else rng.sample(rows, len(rows))
        found[runner] = run([WHOLE, GROUPED, SHARED], order, shards)
    whole, grouped, _ = found["one process"]
    none = ("None",) * 3
    assert at_each_instant(whole, "tau", none) == expected(rows, None)
    for key in (0, 1):
        of_key = [c for c in grouped if c["k"] == key]
        sums = {now: row[0] for now, row in at_each_instant(of_key, "t", ("None",)).items()}
        assert sums == {now: row[0] for now, row in expected(rows, key).items()}
    for changes in found.values():
        for mine, theirs in zip(changes, found["one process"], strict=True):
            assert bare(mine) == bare(theirs)


@settings(max_examples=25, deadline=None)
@given(ROWS.filter(bool), st.data())
def test_a_restored_snapshot_goes_on_exactly(rows: list[Row], data: Any) -> None:
    rows = sorted(((ts + 1, *rest) for ts, *rest in rows), key=lambda r: r[0])
    cut = data.draw(st.integers(0, len(rows) - 1))
    straight, broken = run([WHOLE, GROUPED], rows, None), run([WHOLE, GROUPED], rows, None, cut)
    assert [bare(c) for c in straight] == [bare(c) for c in broken]


def answer(ps: Session, sql: str, history: bool) -> Callable[[], str]:
    query = ps.query(sql, history=history)
    return lambda: repr(query.view().to_pylist())


@pytest.mark.parametrize("shards", RUNNERS.values(), ids=RUNNERS)
def test_history_and_commits_say_the_same(shards: int | None) -> None:
    options: dict[str, Any] = {} if shards is None else {"shards": shards}
    rows = [*ISSUE, (13, 1, -1.7e308, 1.5), (14, 1, 1e-300, 3e38), (14, 0, 0.1, 3e38)]
    with penstock.connect(runner="inprocess", **options) as ps:
        ps.sql(STREAM)
        reads = [answer(ps, f"{sql} EMIT ON COMMIT", False) for sql in (WHOLE, SHARED)]
        push(ps, rows)
        ps.advance(ts=12)
        reads += [answer(ps, sql, True) for sql in (WHOLE, SHARED)]
        for now in (12, 13, 14, 17, 18, 19):
            ps.advance(ts=now)
            inside = [r for r in rows if r[0] <= now < r[0] + WINDOW]
            wanted = total([r[2] for r in inside])
            for read in reads:
                assert f"'t': {wanted!r}," in read()
