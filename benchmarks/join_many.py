"""Many window joins of two streams: SteMs that all share, beside joins that keep their own rows.

Queries are of different templates: windows of different lengths, each with two choices of columns.
Nothing differs but where a join finds its rows; both go through the same session, over the same
batches. State is all that the engine holds when the windows are full.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from unittest.mock import patch

from benchmarks.pipeline import (
    SECOND,
    Batches,
    Cost,
    Result,
    at_most,
    connect,
    cut,
    plain,
    scaled,
    stream,
    take_turns,
    timed,
)

ROWS, KEYS, SECONDS = 60_000, 20_000, 60  # of each of the two streams
TEMPLATES = (1, 10, 50)
COLUMNS = ("r.k, r.a, s.a AS b", "s.a AS b, r.k")
TARGET = 1.1  # times the private joins, in time and in bytes


def queries(n: int) -> list[str]:
    """Joins of `n` templates."""
    return [
        f"SELECT {COLUMNS[i % 2]} FROM r [RANGE {(20 + i // 2) * SECOND}] "
        f"JOIN s [RANGE {(45 - i // 2) * SECOND}] ON r.k = s.k"
        for i in range(n)
    ]


def measure(n: int, batches: Batches, shared: bool, sizes: dict[bool, int]) -> tuple[int, Cost]:
    """Changes and cost of one pass; the bytes held at its end go to `sizes`."""
    ps = connect("r", "s")
    private = patch("penstock.physical.planner.joined_windows", lambda node: None)
    with nullcontext() if shared else private:
        standing = [ps.query(sql) for sql in queries(n)]
    changes = 0
    with timed() as cost:
        for name, table in batches:
            ps.push(name, table)
            changes += sum(query.changes().num_rows for query in standing)
    sizes[shared] = ps.stats()["bytes"]
    return changes, cost


def run(scale: float = 1.0) -> Result:
    streams = {n: stream(int(ROWS * scale), KEYS, SECONDS, s) for s, n in enumerate("rs")}
    batches, rows = cut(streams, 2_000), 2 * int(ROWS * scale)
    out: Result = {"rows in": rows}
    for n in scaled(TEMPLATES, max(scale, 0.1)):
        sizes: dict[bool, int] = {}
        ways = {"shared": True, "private": False}
        runs = take_turns(
            {name: partial(measure, n, batches, way, sizes) for name, way in ways.items()}, times=2
        )
        shared, private = runs["shared"][1], runs["private"][1]
        for name, cost in (("shared", shared), ("private", private)):
            each = 1e6 / rows
            out[f"{n} templates, {name}"] = plain(cost.cpu * each, cost.wall * each, "µs/row")
            out[f"{n} templates, {name}, state"] = plain(sizes[ways[name]] / 1e6, None, "MB")
        ratio = at_most(shared.cpu / private.cpu, shared.wall / private.wall, TARGET)
        out[f"{n} templates, shared / private"] = ratio
        out[f"{n} templates, state"] = at_most(sizes[True] / sizes[False], None, TARGET)
    return out
