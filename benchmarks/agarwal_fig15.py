"""agarwal_fig15: rows of select joins routed by cost, by join rate (Agarwal, figures 15 to 17).

500,000 queries and 500,000 rows of S; a row of R joins 100 to 10,000 of them on average. Figure 15
has the throughput, 16 the shares of strategies, 17 how many choices were the fastest strategy.
"""

from __future__ import annotations

from benchmarks.agarwal_routing import mixed_joins, report, route
from benchmarks.pipeline import Result

SIZE = 500_000
JOINED = (100, 300, 1_000, 3_000, 10_000)


def run(scale: float = 1.0) -> Result:
    size = int(SIZE * scale)
    places = [max(joined * scale, 1) for joined in JOINED]
    found = [route(mixed_joins(size, size, joined=joined)) for joined in places]
    return report(
        places,
        found,
        ("figure 15", "figure 16", "figure 17"),
        f"{size:,} queries and rows in S",
        "rows joined",
    )
