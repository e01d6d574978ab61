"""cacq_fig12: quotes above a price with their articles, 1 to 200 queries (CACQ §5, figure 12).

One update of 2,250 quotes and as many articles; every query has its own least price. CACQ is a
session as it is, PushDown and PullUp are the plans of NiagaraCQ (`benchmarks/cacq_niagara.py`).
Most of an update is what all plans do: Arrow to rows, strings, changelogs. Plans differ in the
engine's steps, which are shown by themselves too; with few queries these are some milliseconds,
so that there are many turns.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.cacq_niagara import Delivery, Plan, compare
from benchmarks.cacq_workloads import STOCKS, price_queries, update
from benchmarks.chart import chart
from benchmarks.pipeline import Cost, Result, at_most, plain, scaled
from penstock.session import Query, Session

PLANS: tuple[Plan, ...] = ("CACQ", "PushDown", "PullUp")
COUNTS = (1, 10, 25, 50, 100, 150, 200)
FEW = (1, 10, 25)
TURNS_OF_FEW, TURNS_OF_MANY = 30, 2
TARGET_OF_FEW = 1.0  # the paper: faster than PullUp for few queries
TARGET = 1.2  # and slightly slower for many


def _registers(queries: list[str]) -> Callable[[Session], list[Query]]:
    def register(ps: Session) -> list[Query]:
        return [ps.query(text) for text in queries]

    return register


def run(scale: float = 1.0) -> Result:
    stocks = max(10, int(STOCKS * scale))
    rows = update(stocks, 1, 1)
    counts, few = scaled(COUNTS, scale), scaled(FEW, scale)
    costs: dict[int, dict[Plan, Delivery]] = {}
    for count in counts:
        turns = TURNS_OF_FEW if count in few else TURNS_OF_MANY
        costs[count] = compare(PLANS, _registers(price_queries(count, 2)), rows, turns)
    out: Result = {"quotes": stocks}
    for count in few:
        out |= _few(count, costs[count])
    out |= _many(counts[-1], costs[counts[-1]])
    lines = {plan: [1e3 * costs[n][plan].cpu for n in counts] for plan in PLANS}
    steps = {plan: [1e3 * costs[n][plan].steps.cpu for n in counts] for plan in PLANS}
    title, y = "Quotes above a price with their articles", "ms per update"
    out["figure 12"] = chart(title, "queries", y, counts, lines)
    out["figure 12, steps"] = chart(f"{title}: the engine's steps", "queries", y, counts, steps)
    return out


def _few(count: int, costs: dict[Plan, Delivery]) -> Result:
    """Judged by the steps alone: what all plans do is most of the total."""
    ours, up = costs["CACQ"], costs["PullUp"]
    what = f"{count} {'query' if count == 1 else 'queries'}, CACQ : PullUp"
    return {
        what: plain(*_ratio(ours, up), "×"),
        f"{what}, steps": at_most(*_ratio(ours.steps, up.steps), TARGET_OF_FEW),
    }


def _many(count: int, costs: dict[Plan, Delivery]) -> Result:
    ours, up, down = costs["CACQ"], costs["PullUp"], costs["PushDown"]
    return {
        f"{count} queries": plain(1e3 * ours.cpu, 1e3 * ours.wall, "ms"),
        f"{count} queries, CACQ : PullUp": at_most(*_ratio(ours, up), TARGET),
        f"{count} queries, CACQ : PullUp, steps": plain(*_ratio(ours.steps, up.steps), "×"),
        f"{count} queries, CACQ : PushDown": at_most(*_ratio(ours, down), 1.0),
    }


def _ratio(ours: Cost, other: Cost) -> tuple[float, float]:
    return ours.cpu / other.cpu, ours.wall / other.wall
