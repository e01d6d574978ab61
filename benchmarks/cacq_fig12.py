"""cacq_fig12: quotes above a price with their articles, 1 to 200 queries (CACQ §5, figure 12).

One update of 2,250 quotes and as many articles; every query has its own least price. CACQ is a
session as it is, PushDown and PullUp are the plans of NiagaraCQ (`benchmarks/cacq_niagara.py`).
"""

from __future__ import annotations

from benchmarks.cacq_niagara import Plan, compare
from benchmarks.cacq_workloads import STOCKS, price_queries, update
from benchmarks.chart import chart
from benchmarks.pipeline import Cost, Result, at_most, plain, scaled
from penstock.session import Query, Session

PLANS: tuple[Plan, ...] = ("CACQ", "PushDown", "PullUp")
COUNTS = (1, 10, 25, 50, 100, 150, 200)
TARGET = 1.2  # the paper: slightly slower than PullUp for many queries


def run(scale: float = 1.0) -> Result:
    stocks = max(10, int(STOCKS * scale))
    rows = update(stocks, 1, 1)
    counts = scaled(COUNTS, scale)
    costs: dict[int, dict[Plan, Cost]] = {}
    for count in counts:
        queries = price_queries(count, 2)

        def register(ps: Session, queries: list[str] = queries) -> list[Query]:
            return [ps.query(text) for text in queries]

        costs[count] = compare(PLANS, register, rows, times=2)
    last = costs[counts[-1]]
    ours, up, down = last["CACQ"], last["PullUp"], last["PushDown"]
    lines = {plan: [1e3 * costs[count][plan].cpu for count in counts] for plan in PLANS}
    title = "Quotes above a price with their articles"
    return {
        "quotes": stocks,
        f"{counts[-1]} queries": plain(1e3 * ours.cpu, 1e3 * ours.wall, "ms"),
        f"{counts[-1]} queries, CACQ : PullUp": at_most(
            ours.cpu / up.cpu, ours.wall / up.wall, TARGET
        ),
        f"{counts[-1]} queries, CACQ : PushDown": at_most(
            ours.cpu / down.cpu, ours.wall / down.wall, 1.0
        ),
        "figure 12": chart(title, "queries", "ms per update", counts, lines),
    }
