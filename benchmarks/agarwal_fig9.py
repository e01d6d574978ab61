"""agarwal_fig9: select joins whose queries are more and more in hotspots (Agarwal §5.1, figure 9).

500,000 queries, of which 10 to 100 % have ranges of C in 50 clusters; the others' ranges are short
and elsewhere. A hotspot has at least 0.1 % of all queries.
"""

from __future__ import annotations

import numpy as np

from benchmarks.agarwal_workloads import (
    A_DOMAIN,
    C_DOMAIN,
    R_ROWS,
    S_ROWS,
    SJ,
    Case,
    Lines,
    asking,
    built,
    check,
    hot,
    ranges,
    rates,
    select_case,
)
from benchmarks.pipeline import Result, plain

QUERIES = 500_000
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CLUSTERS, ALPHA = 50, 0.001
SELECTED = 0.01
STRATEGIES = ("select_first", "ssi", "hotspot")


def clustered_joins(
    queries: int, share: float, *, s_rows: int = S_ROWS, joined: int = 1_000,
    selected: float = SELECTED, rows: int = R_ROWS, seed: int = 0,
) -> Case:  # fmt: skip
    """Select joins of which about this share are in clusters, in the lower half of C's domain."""
    rng = np.random.default_rng(seed)
    clustered, half = int(queries * share), C_DOMAIN // 2
    centers = (rng.integers(0, CLUSTERS, clustered) + 0.5) * half / CLUSTERS
    near = ranges(rng, centers + rng.normal(0, 10, clustered), 100, 10)
    apart = ranges(rng, rng.uniform(half, C_DOMAIN, queries - clustered), 10, 3)
    low, high = np.hstack([near, apart])
    own = ranges(rng, rng.normal(A_DOMAIN / 2, A_DOMAIN / 5, queries), selected * A_DOMAIN)
    return select_case(asking(low, high, own), rng, joined, s_rows, rows)


def run(scale: float = 1.0) -> Result:
    queries, s_rows = int(QUERIES * scale), int(S_ROWS * scale)
    joined = max(s_rows // 100, 1)
    lines, out = Lines(), Result(queries=queries)
    for share in SHARES:
        case = clustered_joins(queries, share, s_rows=s_rows, joined=joined)
        strategies = built(STRATEGIES, case, ALPHA)
        check(strategies, case)
        found = 100 * float(np.mean(hot(case.queries, ALPHA).groups >= 0))
        lines.add(round(found, 1), rates(strategies, case, times=2))
    for name in STRATEGIES:
        kept = (k / 100 for k in lines.kept(name))
        out[f"{SJ[name]}: {lines.at[-1]:g} % in hotspots over {lines.at[0]:g} %"] = plain(
            *kept, "×"
        )
    title = f"{queries:,} select joins"
    return out | {"figure 9": lines.chart(title, "% of queries in hotspots", SJ)}
