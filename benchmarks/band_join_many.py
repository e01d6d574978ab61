"""band_join_many: rows of R past 50 to 500,000 band joins of their own bounds, output constant.

100,000 rows in S, 30 stabbing groups, five results per row. Beside it BJ-MJ, which sweeps all
queries along all of S, finds the same results for 100,000 queries, over fewer rows.

Then 100,000 queries of which each pair has about 1,700: a row of R brings 3,000 results. Beside it
the same with all queries of a pair listed from the index on, instead of coded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.joins_of_many import (
    BATCH,
    GROUPS,
    S_ROWS,
    TAKEN,
    WINDOWS,
    Pace,
    Workload,
    lines_of,
    listed_sets,
    measure,
    pace,
)
from benchmarks.pipeline import Result, at_least, plain

COUNTS = (50, 500, 5_000, 50_000, 100_000, 500_000)
COMPARED = 100_000
RESULTS = 3_000  # of a row of R, where output is large
TURNS = 3
DOMAIN = 10**18
REACH = TAKEN * DOMAIN // S_ROWS // (2 * GROUPS)  # of the widest of a group, to either side
SQL = (
    f"SELECT r.b, s.b AS t FROM {WINDOWS} ON s.b - r.b BETWEEN $low AND $high EMIT CHANGES PER ROW"
)


def params(queries: int) -> pa.Table:
    """Bands around the points of groups: a few wide ones in each, and narrow ones.

    The widest take a row about `TAKEN` times, whatever their number; the others take it as often,
    all together.
    """
    rng = np.random.default_rng(queries)
    point = (rng.integers(0, GROUPS, queries) - GROUPS // 2) * (DOMAIN // 1_000)
    reach = REACH * np.minimum((GROUPS / queries / rng.random((2, queries))) ** 2, 1.0)
    left, right = reach.astype(np.int64)
    return pa.table({"low": point - left, "high": point + right})


def wide_params(queries: int) -> pa.Table:
    """Bands of like width around the points of groups: a row of R brings `RESULTS`."""
    rng = np.random.default_rng(queries)
    point = (rng.integers(0, GROUPS, queries) - GROUPS // 2) * (DOMAIN // 1_000)
    mean = RESULTS * DOMAIN // S_ROWS // COMPARED // 2
    left, right = (2 * mean * rng.random((2, queries))).astype(np.int64)
    return pa.table({"low": point - left, "high": point + right})


def columns(stream: str, rows: int) -> dict[str, np.ndarray]:
    """Values all over the domain."""
    rng = np.random.default_rng(ord(stream))
    return {"b": rng.integers(0, DOMAIN, rows)}


def large_output(scale: float) -> Result:
    """Sets of thousands of queries, coded and listed in turns."""
    workload, coded, listed = Workload(SQL, wide_params, columns), list[Pace](), list[Pace]()
    queries, s_rows = max(int(COMPARED * scale), 20), int(S_ROWS * scale)
    batch = max(int(BATCH * scale), 10)
    for _ in range(TURNS):
        coded.append(pace(workload, queries, s_rows, batch))
        with listed_sets():
            listed.append(pace(workload, queries, s_rows, batch))
    cpu, wall = (min(getattr(p.row, kind) for p in coded) for kind in ("cpu", "wall"))
    beside = [min(getattr(p.row, kind) for p in listed) for kind in ("cpu", "wall")]
    title = f"{queries:,} queries, {RESULTS * scale * scale:,.0f} results a row"
    return {
        f"{title}: changes per row": round(coded[0].changes, 2),
        f"{title}: listed": plain(1 / beside[0], 1 / beside[1], "rows/s"),
        f"{title}: coded": at_least(1 / cpu, 1 / wall, 20_000, "rows/s"),
        f"{title}: coded over listed": at_least(beside[0] / cpu, beside[1] / wall, 5, "×"),
    }


def run(scale: float = 1.0) -> Result:
    out, paces, other = measure(Workload(SQL, params, columns), COUNTS, "merge", COMPARED, scale)
    (first, *_, at, last), found = paces, list(paces.values())
    row, begin, end = paces[at].row, found[0].row, found[-1].row
    return out | {
        f"{at:,} queries, with a target": at_least(1 / row.cpu, 1 / row.wall, 20_000, "rows/s"),
        f"{at:,} queries: over BJ-MJ": at_least(
            other.row.cpu / row.cpu, other.row.wall / row.wall, 100, "×"
        ),
        f"{last:,} queries: of the throughput at {first}": at_least(
            100 * begin.cpu / end.cpu, 100 * begin.wall / end.wall, 33, "%"
        ),
    } | large_output(scale) | lines_of("Band joins, 100,000 rows in S", paces)  # fmt: skip
