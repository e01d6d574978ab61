"""pair_totals: count(*) per query over a band join, from ranks, beside the same with pairs formed.

Rows of R come and leave after 100 ms of event time, past 10,000 rows in S. Each query takes as
many partners of a row as the curve says. Both plans get the same batches, which are small so that
the pairs of a batch fit into memory, and their answers are compared. A third line shows totals in
batches of 500 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.chart import chart
from benchmarks.pipeline import SECOND, Cost, Result, at_least, plain, take_turns, timed

S_ROWS, DOMAIN, RATE, BATCHES = 10_000, 10**15, 10_000, 6
PAIRS = 500_000  # pairs of a row, a partner and a query in a batch, about
MOST_ROWS = 500
LARGE = "totals, large batches"
PARTNERS, QUERIES = (10, 100, 1_000), (10, 100, 1_000)
AT = 1_000, 100  # partners and queries of the target
SQL = (
    f"SELECT count(*) AS n FROM r [RANGE {SECOND // 10}] JOIN s [RANGE {3_600 * SECOND}] "
    "ON s.b - r.b BETWEEN $low AND $high"
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many partners of a row a query takes, of how many, and how many queries there are."""

    partners: int
    queries: int
    s_rows: int

    def params(self) -> pa.Table:
        """Bands of one width around points of a few groups."""
        rng = np.random.default_rng(self.queries)
        width = DOMAIN * self.partners // self.s_rows
        low = rng.integers(-5, 5, self.queries) * (DOMAIN // 100) - rng.integers(
            0, width, self.queries
        )
        return pa.table({"low": low, "high": low + width})

    @property
    def batch(self) -> int:
        """Rows of R in a batch."""
        return min(max(PAIRS // (self.partners * self.queries), 10), MOST_ROWS)


def rows(stream: str, count: int, second: int, rate: int) -> pa.Table:
    """Values all over the domain; those of R keep away from its ends."""
    rng = np.random.default_rng(ord(stream))
    ends = (DOMAIN // 4, 3 * DOMAIN // 4) if stream == "r" else (0, DOMAIN)
    times = second * SECOND + np.arange(count) * SECOND // rate
    return pa.table({"b": rng.integers(*ends, count), "ts": times})


def passed(size: Size, off: str | frozenset[str], batch: int) -> tuple[int, Cost]:
    """The sum of all answers after each batch, and the cost of a row after the first two."""
    ps = penstock.connect(runner="inprocess", optimizer_off=off)
    for name in "rs":
        ps.sql(f"CREATE STREAM {name} (b BIGINT, ts BIGINT) TIMESTAMP BY ts")
    many = ps.query_many(SQL, size.params())
    ps.push("s", rows("s", size.s_rows, 0, size.s_rows))
    table, total, answers = rows("r", batch * BATCHES, 1, RATE), Cost(0.0, 0.0), 0
    for number in range(BATCHES):
        some = table.slice(number * batch, batch)
        with timed() as cost:
            ps.push("r", some)
            ps.advance("s", some["ts"][-1].as_py())
            changes = many.changes()
        if number >= 2:
            total.cpu, total.wall = total.cpu + cost.cpu, total.wall + cost.wall
        answers += int(np.sum(many.view()["n"].to_numpy())) + changes.num_rows
    ps.close()
    measured = batch * (BATCHES - 2)
    return answers, Cost(total.cpu / measured, total.wall / measured)


def compared(size: Size) -> dict[str, Cost]:
    """The cost of a row by each plan, and of totals in large batches."""
    ways: dict[str, Callable[[], tuple[int, Cost]]] = {
        "totals": partial(passed, size, frozenset(), size.batch),
        "pairs": partial(passed, size, "total_pairs", size.batch),
        LARGE: partial(passed, size, frozenset(), MOST_ROWS),
    }
    found = take_turns(ways, times=2)
    if found["totals"][0] != found["pairs"][0]:
        raise AssertionError("the two plans give different answers")
    return {name: cost for name, (_, cost) in found.items()}


def _lines(title: str, x: str, found: dict[int, dict[str, Cost]]) -> Result:
    names = ("totals", LARGE, "pairs")
    rates = {name: [1 / costs[name].cpu for costs in found.values()] for name in names}
    return {title: chart(title, x, "rows/s", list(found), rates, log=True)}


def run(scale: float = 1.0) -> Result:
    s_rows = max(int(S_ROWS * scale), 200)
    out: Result = {"rows in S": s_rows}
    partners = {n: Size(max(int(n * s_rows / S_ROWS), 1), AT[1], s_rows) for n in PARTNERS}
    queries = {n: Size(partners[AT[0]].partners, n, s_rows) for n in QUERIES}
    costs = {
        size: compared(size) for size in dict.fromkeys([*partners.values(), *queries.values()])
    }
    for size, found in costs.items():
        what = f"{size.partners:,} partners, {size.queries:,} queries"
        for name, cost in found.items():
            out[f"{what}: {name}"] = plain(1 / cost.cpu, 1 / cost.wall, "rows/s")
        ratio = found["pairs"].cpu / found["totals"].cpu, found["pairs"].wall / found["totals"].wall
        is_judged = size == partners[AT[0]]
        out[f"{what}: over pairs formed"] = (
            at_least(*ratio, 50, "×") if is_judged else plain(*ratio, "×")
        )
    by_partners = {n: costs[size] for n, size in partners.items()}
    by_queries = {n: costs[size] for n, size in queries.items()}
    return (
        out
        | _lines("By partners", "partners", by_partners)
        | _lines("By queries", "queries", by_queries)
    )
