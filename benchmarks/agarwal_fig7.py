"""agarwal_fig7: select joins by number of queries and of stabbing groups (Agarwal §5.1, figure 7).

100,000 rows in S, of which a row of R joins 1,000. In (a) there are about 30 groups, and 10 % of
the queries select a row; in (b) 100,000 queries, of which 0.25 % do.
"""

from __future__ import annotations

from benchmarks.agarwal_workloads import QUERIES, SJ, Lines, built, check, rates, select_joins
from benchmarks.pipeline import Result, plain, scaled

STRATEGIES = ("vanilla", "data_outer", "select_first", "ssi")
COUNTS = (100, 1_000, 10_000, 100_000, 1_000_000)
GROUPS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
SELECTED = 0.0025
AT = 3  # the place in COUNTS of the comparison


def run(scale: float = 1.0) -> Result:
    s_rows, joined = int(QUERIES * scale), max(int(1_000 * scale), 1)
    counts, out = scaled(COUNTS, max(scale, 0.05)), Result()
    by_count, by_groups = Lines(), Lines()
    for n in counts:
        case = select_joins(n, joined=joined, s_rows=s_rows)
        strategies = built(STRATEGIES, case)
        out[f"{n:,} queries: groups"] = strategies["ssi"].members.groups.points.shape[0]
        out[f"{n:,} queries: affected by a row"] = round(check(strategies, case), 1)
        by_count.add(n, rates(strategies, case))
        out[f"{n:,} queries: SJ-SSI"] = plain(*by_count.rate("ssi"), "rows/s")
    for groups in GROUPS:
        case = select_joins(
            int(QUERIES * scale), groups=groups, selected=SELECTED, joined=joined, s_rows=s_rows
        )
        strategies = built(STRATEGIES, case)
        check(strategies, case)
        by_groups.add(strategies["ssi"].members.groups.points.shape[0], rates(strategies, case))
    at = min(AT, len(counts) - 1)
    times = by_count.times("ssi", "data_outer", at)
    out[f"{counts[at]:,} queries: SJ-SSI over SJ-JoinFirst"] = plain(*times, "×")
    kept = by_count.kept("ssi", at)
    out[f"{counts[at]:,} queries: SJ-SSI, of the throughput at {counts[0]}"] = plain(*kept, "%")
    return out | {
        "figure 7a": by_count.chart("Select joins, about 30 groups", "queries", SJ),
        "figure 7b": by_groups.chart(f"{int(QUERIES * scale):,} select joins", "groups", SJ),
    }
