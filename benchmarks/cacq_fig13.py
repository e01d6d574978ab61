"""cacq_fig13: quotes selected by a user's function, with their articles (CACQ §5, figure 13).

A call takes 10 to 500 µs. CACQ calls before the join, once per user and quote; NiagaraCQ's PullUp
calls after it, once per user, quote and article.
"""

from __future__ import annotations

from benchmarks.cacq_niagara import Delivery, Plan, compare
from benchmarks.cacq_workloads import JUDGED, Judge, update
from benchmarks.chart import chart
from benchmarks.pipeline import Result, at_least, scaled
from penstock.session import Query, Session

PLANS: tuple[Plan, ...] = ("CACQ", "PullUp")
QUOTES, USERS = 2, 100
ARTICLES = (1, 10, 100)
TARGET = 10.0


def _register(ps: Session) -> list[Query]:
    Judge(1).register(ps)
    return list(ps.query_many(JUDGED, [{"user": user} for user in range(USERS)]))


def run(scale: float = 1.0) -> Result:
    places = scaled(ARTICLES, scale)
    costs: list[dict[Plan, Delivery]] = [
        compare(PLANS, _register, update(QUOTES, articles, 1), times=1) for articles in places
    ]
    last = costs[-1]
    times = [last["PullUp"].cpu / last["CACQ"].cpu, last["PullUp"].wall / last["CACQ"].wall]
    lines = {plan: [cost[plan].cpu for cost in costs] for plan in PLANS}
    title = f"{USERS} functions of 10–500 µs over {QUOTES} quotes"
    return {
        "quotes": QUOTES,
        f"{places[-1]} articles each: CACQ over PullUp": at_least(*times, TARGET, "×"),
        "figure 13": chart(title, "articles per quote", "s per update", places, lines, log=True),
    }
