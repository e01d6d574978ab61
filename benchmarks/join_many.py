"""Many window joins of two streams: shared SteMs, beside joins that keep their own rows.

Joins on a key, joins by a band, and joins of filtered windows below a UNION with a third stream.
Queries have windows of different lengths, each with two choices of columns.
Nothing differs but where a join finds its rows; both go through the same session, over the same
batches. State is all that the engine holds when the windows are full.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
    without_flows,
)

ROWS, KEYS, SECONDS = 60_000, 20_000, 60  # of each of the two streams
COLUMNS = ("r.k, r.a, s.a AS b", "s.a AS b, r.k, r.a")
THIRD = "UNION ALL SELECT k, a, ts AS b FROM u [RANGE 1]"  # it brings clocks and no rows
KINDS = {
    "key": ("r.k = s.k", "", (1, 10, 50)),
    "band": ("s.a - r.a BETWEEN -20 AND 20", "", (1, 10)),
    "filtered": ("r.k = s.k", f"WHERE r.a > 500000 {THIRD}", (1, 10)),
}
TARGETS = {"key": 1.1, "band": 1.3, "filtered": 1.3}  # times the private joins, in time and bytes


def queries(kind: str, n: int) -> list[str]:
    """`n` joins, no two alike."""
    on, rest, _ = KINDS[kind]
    return [
        f"SELECT {COLUMNS[i % 2]} FROM r [RANGE {(20 + i // 2) * SECOND}] "
        f"JOIN s [RANGE {(45 - i // 2) * SECOND}] ON {on} {rest}"
        for i in range(n)
    ]


@contextmanager
def own_rows() -> Iterator[None]:
    """Joins that are planned meanwhile keep their own rows."""
    with without_flows(), patch("penstock.physical.planner.joined_windows", lambda node: None):
        yield


def measure(
    kind: str, n: int, batches: Batches, shared: bool, sizes: dict[bool, int]
) -> tuple[int, Cost]:
    """Changes and cost of one pass; the bytes held at its end go to `sizes`."""
    ps = connect("r", "s", "u")
    with nullcontext() if shared else own_rows():
        standing = [ps.query(sql) for sql in queries(kind, n)]
    changes = 0
    with timed() as cost:
        for name, table in batches:
            ps.push(name, table)
            if name == "s":
                ps.advance("u", table["ts"][-1].as_py())
            changes += sum(query.changes().num_rows for query in standing)
    sizes[shared] = ps.stats()["bytes"]
    return changes, cost


def run(scale: float = 1.0) -> Result:
    streams = {n: stream(int(ROWS * scale), KEYS, SECONDS, s) for s, n in enumerate("rs")}
    batches, rows = cut(streams, 2_000), 2 * int(ROWS * scale)
    out: Result = {"rows in": rows}
    for kind, (_, _, counts) in KINDS.items():
        for n in scaled(counts, max(scale, 0.1)):
            out |= compare(kind, n, batches, rows)
    return out


def compare(kind: str, n: int, batches: Batches, rows: int) -> Result:
    """Costs and bytes of `n` joins of a kind, both ways."""
    sizes: dict[bool, int] = {}
    ways = {"shared": True, "private": False}
    runs = take_turns(
        {name: partial(measure, kind, n, batches, way, sizes) for name, way in ways.items()},
        times=2,
    )
    if runs["shared"][0] != runs["private"][0]:
        raise AssertionError(f"{kind}: {runs['shared'][0]} changes, not {runs['private'][0]}")
    shared, private = runs["shared"][1], runs["private"][1]
    title, target, out = f"{kind}, {n} joins", TARGETS[kind], Result()
    for name, cost in (("shared", shared), ("private", private)):
        each = 1e6 / rows
        out[f"{title}, {name}"] = plain(cost.cpu * each, cost.wall * each, "µs/row")
        out[f"{title}, {name}, state"] = plain(sizes[ways[name]] / 1e6, None, "MB")
    ratio = at_most(shared.cpu / private.cpu, shared.wall / private.wall, target)
    out[f"{title}, shared / private"] = ratio
    out[f"{title}, state"] = at_most(sizes[True] / sizes[False], None, target)
    return out
