"""agarwal_fig10: band joins by number of queries and of stabbing groups (Agarwal §5.2, figure 10).

100,000 rows in S. In (a) queries are 50 to 500,000 in about 10 to 60 groups, in (b) 100,000. Every
partner of BJ-DOuter finds its queries anew; it is measured on 1 % of S, and its time multiplied.
"""

from __future__ import annotations

from benchmarks.agarwal_workloads import (
    B_DOMAIN,
    BJ,
    QUERIES,
    Lines,
    band_joins,
    built,
    check,
    rates,
)
from benchmarks.pipeline import Result, plain, scaled

STRATEGIES = ("vanilla", "data_outer", "merge", "ssi", "hotspot")
FEWER = ("data_outer", "merge", "ssi")
COUNTS = (50, 500, 5_000, 50_000, 100_000, 500_000)
GROUPS = (10, 30, 100, 300, 1_000, 3_000, 6_000)
AT = 4  # the place in COUNTS of the comparison


def run(scale: float = 1.0) -> Result:
    s_rows = int(QUERIES * scale)
    counts, out = scaled(COUNTS, max(scale, 0.05)), Result()
    by_count, by_groups = Lines(), Lines()
    for n in counts:
        case = band_joins(n, s_rows=s_rows)
        strategies = built(STRATEGIES, case)
        out[f"{n:,} queries: groups"] = strategies["ssi"].members.groups.points.shape[0]
        check(strategies, case)
        by_count.add(n, rates(strategies, case))
        out[f"{n:,} queries: BJ-SSI"] = plain(*by_count.rate("ssi"), "rows/s")
    for groups in GROUPS:
        mean = B_DOMAIN / groups
        case = band_joins(int(QUERIES * scale), mean=mean, deviation=mean / 20, s_rows=s_rows)
        strategies = built(FEWER, case)
        check(strategies, case)
        by_groups.add(strategies["ssi"].members.groups.points.shape[0], rates(strategies, case))
    at = min(AT, len(counts) - 1)
    return out | {
        f"{counts[at]:,} queries: BJ-SSI over BJ-MJ": plain(
            *by_count.times("ssi", "merge", at), "×"
        ),
        f"{counts[-1]:,} queries: BJ-SSI, of the throughput at {counts[0]}": plain(
            *by_count.kept("ssi"), "%"
        ),
        "figure 10a": by_count.chart("Band joins", "queries", BJ),
        "figure 10b": by_groups.chart(f"{int(QUERIES * scale):,} band joins", "groups", BJ),
    }
