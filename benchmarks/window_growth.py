"""A window 100 times as long: cost per row, and state of DISTINCT.

Both windows run over the same stream and are timed over the same rows, after the longer one has
filled. A row does not bring as many changes under both, so these are shown too. State is measured
on DISTINCT alone (what it keeps when nothing above needs its rows, Golab & Özsu §5.3.1): it should
follow the distinct values and not the rows.
"""

from __future__ import annotations

from functools import partial

from benchmarks.pipeline import (
    SECOND,
    Batches,
    Cost,
    Result,
    at_most,
    connect,
    cut,
    plain,
    push,
    stream,
    take_turns,
    timed,
)

RATE, TIMED = 1_000, 300_000  # rows/s, rows
SHORT, LONG = 6, 600  # seconds
TARGET = 1.3
DISTINCT = "SELECT DISTINCT k FROM r [RANGE {}]"
GROUP_BY = "SELECT k, count(*) AS n, sum(a) AS total, max(a) AS top FROM r [RANGE {}] GROUP BY k"
JOIN = "SELECT r.k, r.a, s.a AS b FROM r [RANGE {0}] JOIN r [RANGE {0}] s ON r.k = s.k"
QUERIES = {  # the last of each kind has a state that grows with the window
    "DISTINCT, 10,000 values": (10_000, DISTINCT, TARGET),
    "DISTINCT, 10,000,000 values": (10_000_000, DISTINCT, TARGET),
    "GROUP BY, 1,000 keys": (1_000, GROUP_BY, TARGET),
    "GROUP BY, 100,000 keys": (100_000, GROUP_BY, TARGET),
    "JOIN, 10,000,000 keys": (10_000_000, JOIN, 2.0),
}


def after_filling(sql: str, filling: Batches, rest: Batches) -> tuple[int, Cost]:
    """Changes and cost of the rest."""
    ps = connect("r")
    query = ps.query(sql)
    push(ps, query, filling)
    with timed() as cost:
        changes = push(ps, query, rest)
    return changes, cost


def growth(values: int, sql: str, target: float, scale: float) -> Result:
    """Nanoseconds per row under both windows, and their ratio."""
    fill, counted = int(RATE * LONG * scale), int(TIMED * scale)
    seconds = LONG * (fill + counted) // fill
    whole = stream(fill + counted, values, seconds, seed=1)
    filling, rest = cut({"r": whole.slice(0, fill)}), cut({"r": whole.slice(fill)})
    runs = take_turns(
        {
            f"{length} s": partial(after_filling, sql.format(length * SECOND), filling, rest)
            for length in (SHORT, LONG)
        },
        times=3,
    )
    out: Result = {
        name: plain(cost.cpu / counted * 1e9, cost.wall / counted * 1e9, "ns/row")
        for name, (_, cost) in runs.items()
    }
    for name, (changes, _) in runs.items():
        out[f"{name}, changes per row"] = round(changes / counted, 2)
    short, long = (cost for _, cost in runs.values())
    out["growth"] = at_most(long.cpu / short.cpu, long.wall / short.wall, target)
    return out


def state(rows: int, values: int) -> tuple[int, int]:
    """Rows and bytes kept by DISTINCT over `rows` live rows."""
    ps = connect("r")
    ps.query(f"SELECT DISTINCT k FROM r [RANGE {LONG * SECOND}]")
    for name, table in cut({"r": stream(rows, values, LONG, seed=2)}):
        ps.push(name, table)
    kept = ps.stats()["operators"]
    return sum(o["rows"] for o in kept), sum(o["bytes"] for o in kept)


def run(scale: float = 1.0) -> Result:
    out: Result = {}
    for name, query in QUERIES.items():
        for part, measure in growth(*query, scale).items():
            out[f"{name}: {part}"] = measure
    rows, values = int(RATE * LONG * scale), int(10_000 * scale)
    few, many = state(rows // 10, values), state(rows, values)
    wide = state(rows, 10 * values)
    out |= {
        f"state of {n:,} live rows, {v:,} values": f"{kept:,} rows, {size:,} bytes"
        for n, v, (kept, size) in (
            (rows // 10, values, few), (rows, values, many), (rows, 10 * values, wide)
        )
    }  # fmt: skip
    out["δ* bytes, 10 × the rows"] = at_most(many[1] / few[1], None, TARGET)
    out["δ* bytes, 10 × the values"] = plain(wide[1] / many[1], None, "×")
    return out
