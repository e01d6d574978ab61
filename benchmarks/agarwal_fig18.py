"""agarwal_fig18: select joins routed by cost, by selection rate (Agarwal, figures 18 to 20).

500,000 queries and 500,000 rows of S; 0.1 to 30 % of the queries select a row of R on average.
Figure 18 has the throughput, 19 the shares of strategies, 20 how many choices were the fastest.
"""

from __future__ import annotations

from benchmarks.agarwal_routing import mixed_joins, report, route
from benchmarks.pipeline import Result

SIZE = 500_000
SELECTED = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)


def run(scale: float = 1.0) -> Result:
    size, joined = int(SIZE * scale), max(1_000 * scale, 1)
    found = [route(mixed_joins(size, size, joined=joined, selected=rate)) for rate in SELECTED]
    return report(
        [100 * rate for rate in SELECTED],
        found,
        ("figure 18", "figure 19", "figure 20"),
        f"{size:,} queries and rows in S",
        "% selected",
    )
