"""agarwal_fig2: queries in the largest of 5,000 stabbing groups (Agarwal §2.2, figure 2).

Sizes of groups follow Zipf's law; β is 1.0, 1.1 or 1.2. What is shown is the share of queries that
the k largest groups have by the law, and the share that the engine puts into hotspots when they
are those groups: α is such that the k-th group is hot and the next is not.
"""

from __future__ import annotations

import numpy as np

from benchmarks.chart import chart
from benchmarks.pipeline import Result, at_most, plain, timed
from penstock.arrays import I64
from penstock.indexes.pairs.hotspots import Hotspots

GROUPS, QUERIES = 5_000, 500_000
BETAS = (1.0, 1.1, 1.2)
LARGEST = (50, 100, 200, 300, 400, 500)
APART = 1_000  # from the point of a group to that of the next
TARGET = 1.0


def group_sizes(beta: float, groups: int, queries: int) -> I64:
    """Sizes of groups by Zipf's law, the largest first; each has a query."""
    shares = np.arange(1, groups + 1) ** -beta
    return np.maximum(queries * shares / shares.sum(), 1).astype(np.int64)


def intervals(sizes: I64, seed: int) -> tuple[I64, I64]:
    """Intervals around points that are far apart, so many for each."""
    rng = np.random.default_rng(seed)
    points = np.repeat(APART * rng.permutation(sizes.shape[0]), sizes)
    reach = rng.integers(0, APART // 2, (2, points.shape[0]))
    return points - reach[0], points + reach[1]


def run(scale: float = 1.0) -> Result:
    groups, queries = int(GROUPS * scale), int(QUERIES * scale)
    places = [max(1, int(k * scale)) for k in LARGEST]
    out: Result = {"stabbing groups": groups, "queries": queries}
    lines, worst = {}, 0.0
    for beta in BETAS:
        sizes = group_sizes(beta, groups, queries)
        lows, highs = intervals(sizes, seed=1)
        by_law = [100 * float(sizes[:k].sum() / sizes.sum()) for k in places]
        hot = []
        for k in places:
            hotspots = Hotspots(alpha=float(sizes[k - 1] / sizes.sum()))
            with timed() as cost:
                hotspots.add(np.arange(lows.shape[0]), lows, highs)
            hot.append(100 * hotspots.coverage)
        worst = max(worst, *(abs(h - law) for h, law in zip(hot, by_law, strict=True)))
        lines |= {f"β = {beta}, by Zipf's law": by_law, f"β = {beta}, in hotspots": hot}
        out[f"β = {beta}: {places[-1]} largest groups"] = plain(by_law[-1], None, "% of queries")
        out[f"β = {beta}: finding hotspots"] = plain(
            queries / cost.cpu / 1e6, queries / cost.wall / 1e6, "M queries/s"
        )
    out["hotspots from Zipf's law, at most"] = at_most(max(worst, 1e-9), None, TARGET, "% points")
    title = f"Zipf's law, {groups:,} groups"
    return out | {"figure 2": chart(title, "largest groups", "% of queries", places, lines)}
