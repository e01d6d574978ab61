"""select_join_many: rows of R past 100 to a million select joins of their own ranges.

100,000 rows in S, of which a row of R joins 1,000; 30 stabbing groups, five results per row. Beside
it SJ-JoinFirst, which looks up every joined row among all queries, for 100,000 of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.joins_of_many import GROUPS, TAKEN, WINDOWS, Workload, lines_of, measure
from benchmarks.pipeline import Result, at_least

COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)
COMPARED = 100_000
KEYS = 100
A_DOMAIN, C_DOMAIN = 10**12, 10**9
REACH = C_DOMAIN // 1_000  # about one joined row is so near to a point
SQL = (
    f"SELECT r.a, s.c FROM {WINDOWS} ON r.b = s.b WHERE r.a BETWEEN $a0 AND $a1 "
    "AND s.c BETWEEN $c0 AND $c1 EMIT CHANGES PER ROW"
)


def params(queries: int) -> pa.Table:
    """Ranges of C around the points of groups, and of A such that `TAKEN` queries select a row."""
    rng = np.random.default_rng(queries)
    point = (2 * rng.integers(0, GROUPS, queries) + 1) * (C_DOMAIN // GROUPS // 2)
    reach, length = rng.integers(0, REACH, (2, queries)), A_DOMAIN * TAKEN // queries
    first = rng.integers(-length, A_DOMAIN, queries)
    return pa.table(
        {"a0": first, "a1": first + length, "c0": point - reach[0], "c1": point + reach[1]}
    )


def columns(stream: str, rows: int) -> dict[str, np.ndarray]:
    """Keys, and values all over the domain."""
    rng = np.random.default_rng(ord(stream))
    keys = {"b": rng.integers(0, KEYS, rows)}
    if stream == "r":
        return keys | {"a": rng.integers(0, A_DOMAIN, rows)}
    return keys | {"c": rng.integers(0, C_DOMAIN, rows)}


def run(scale: float = 1.0) -> Result:
    workload = Workload(SQL, params, columns)
    out, paces, other = measure(workload, COUNTS, "data_outer", COMPARED, scale)
    first, *_, at, last = paces
    row = paces[at].row
    for n, least in ((at, 60), (last, 40)):
        begin, end = paces[first].row, paces[n].row
        out[f"{n:,} queries: of the throughput at {first}"] = at_least(
            100 * begin.cpu / end.cpu, 100 * begin.wall / end.wall, least, "%"
        )
    out[f"{at:,} queries: over SJ-JoinFirst"] = at_least(
        other.row.cpu / row.cpu, other.row.wall / row.wall, 20, "×"
    )
    return out | lines_of("Select joins, 100,000 rows in S", paces)
