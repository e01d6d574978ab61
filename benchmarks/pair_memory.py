"""pair_memory: a million joins with ranges on either stream: memory, and adding 1,000 more.

The million comes as one table, and rows of both streams meet it, until structures are built. By
how much the process has grown, and by how much at most meanwhile, is seen from outside. Then 1,000
more come before each of some pushes. The longest of these pushes is what the stream waits.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import SECOND, Cost, Result, at_most, plain, timed
from benchmarks.query_many import resident
from penstock.session import Session

QUERIES, MORE, ADDS = 1_000_000, 1_000, 20
ROWS, PUSHES = 2_000, 10
KEYS, DOMAIN, GROUPS, TAKEN = 1_000, 10**9, 30, 10
MOST_MB, MOST_SECONDS = 512, 1.0
WINDOW = 20 * SECOND
SQL = (
    f"SELECT r.a, r.c, s.c AS d FROM r [RANGE {WINDOW}] JOIN s [RANGE {WINDOW}] ON r.a = s.a "
    "WHERE r.c BETWEEN $c0 AND $c1 AND s.c BETWEEN $d0 AND $d1"
)


def params(queries: int, of: int, seed: int) -> pa.Table:
    """Ranges of r.c such that `TAKEN` of so many queries select a row, and of s.c in groups."""
    rng = np.random.default_rng(seed)
    point = (2 * rng.integers(0, GROUPS, queries) + 1) * (DOMAIN // GROUPS // 2)
    reach = rng.integers(0, DOMAIN // 1_000, (2, queries))
    first = rng.integers(0, DOMAIN, queries)
    last = first + rng.integers(0, 2 * DOMAIN * TAKEN // of, queries)
    return pa.table({"c0": first, "c1": last, "d0": point - reach[0], "d1": point + reach[1]})


def rows(second: int, stream: str) -> pa.Table:
    """Rows of one second."""
    rng = np.random.default_rng([second, ord(stream)])
    values = {"a": rng.integers(0, KEYS, ROWS), "c": rng.integers(0, DOMAIN, ROWS)}
    return pa.table({**values, "ts": np.full(ROWS, second * SECOND)})


def run(scale: float = 1.0) -> Result:
    queries, more = int(QUERIES * scale), max(int(MORE * scale), 1)
    _pass(_connect(), queries // 100, more, queries)  # compiled
    given, ps = params(queries, queries, 1), _connect()
    before = resident()
    _forget_peak()
    with timed() as registering:
        ps.query_many(SQL, given)
    pushing = _push(ps, range(PUSHES))
    # a process that had enough free memory before has not grown
    grown, most = (max(now - before, 1.0) for now in (resident(), _peak()))
    parts, state = ps.stats()["pairs"][0], ps.stats()["bytes"]
    adds, nexts = _add(ps, more, queries)
    return {
        "queries": queries,
        "growth of the process": at_most(grown, None, MOST_MB * scale, "MB"),
        "growth at most": at_most(most, None, MOST_MB * scale, "MB"),
        "state, with Q and the books": f"{state / 2**20:,.0f} MB",
        "index over pairs": f"{parts['bytes'] / 2**20:,.0f} MB",
        **_structures(parts),
        "registering": plain(registering.cpu, registering.wall, "s"),
        "longest push while structures are built": plain(pushing.cpu, pushing.wall, "s"),
        f"adding {more:,}, and the next push": at_most(
            adds.cpu + nexts.cpu, adds.wall + nexts.wall, MOST_SECONDS, "s"
        ),
        f"longest push of {ADDS}": plain(nexts.cpu, nexts.wall, "s"),
    }


def _structures(parts: dict[str, object]) -> Result:
    """What is built for rows of each stream."""
    sides, streams = parts["sides"], parts["streams"]
    assert isinstance(sides, list)
    assert isinstance(streams, list)
    return {
        f"structures for rows of {stream}": f"{', '.join(side['structures'])} by {side['axis']}"
        for stream, side in zip(streams, sides, strict=True)
    }


def _connect() -> Session:
    ps = penstock.connect(runner="inprocess")
    for name in "rs":
        ps.sql(f"CREATE STREAM {name} (a BIGINT, c BIGINT, ts BIGINT) TIMESTAMP BY ts")
    return ps


def _pass(ps: Session, queries: int, more: int, of: int) -> None:
    ps.query_many(SQL, params(queries, of, 1))
    _push(ps, range(PUSHES))
    _add(ps, more, of)


def _push(ps: Session, seconds: range) -> Cost:
    """Push rows of both streams, either first in turn; the cost of the longest push."""
    longest = Cost(0.0, 0.0)
    for second in seconds:
        for stream in ("rs", "sr")[second % 2]:
            given = rows(second, stream)
            cpu, wall = time.process_time(), time.perf_counter()
            ps.push(stream, given)
            longest.cpu = max(longest.cpu, time.process_time() - cpu)
            longest.wall = max(longest.wall, time.perf_counter() - wall)
    return longest


def _add(ps: Session, more: int, of: int) -> tuple[Cost, Cost]:
    """Add queries and push, again and again: the cost of the longest call of each."""
    adds, pushes = Cost(0.0, 0.0), Cost(0.0, 0.0)
    for at in range(ADDS):
        given = params(more, of, 100 + at)
        with timed() as adding:
            ps.query_many(SQL, given)
        pushing = _push(ps, range(PUSHES + at, PUSHES + at + 1))
        for longest, cost in ((adds, adding), (pushes, pushing)):
            longest.cpu, longest.wall = max(longest.cpu, cost.cpu), max(longest.wall, cost.wall)
    return adds, pushes


# ---- memory as the system sees it ----------------------------------------------------
def _forget_peak() -> None:
    """Let the most that the process has used begin anew, where the system can do that."""
    control = Path("/proc/self/clear_refs")
    if control.exists():
        control.write_text("5")


def _peak() -> float:
    """The most megabytes that the process has used; nothing where the system does not tell."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) / 1024 if found else float("nan")
