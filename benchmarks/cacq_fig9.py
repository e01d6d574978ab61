"""cacq_fig9: how many filters a row visits, by routing (CACQ §4.1, table 3, figure 9).

Five queries, the n-th with the first n of five predicates, the first the most selective. A row
that visits every filter visits five; the best order needs 1.14 (the paper has 1.15, of real
numbers). Every routing must deliver the same rows.
"""

from __future__ import annotations

import penstock
from benchmarks.cacq_workloads import FIELDS, TABLE_3, create_sensors, readings
from benchmarks.chart import chart
from benchmarks.pipeline import Batches, Result, at_most, cut, plain
from penstock.session import Session

ROWS, BATCH, POINTS = 200_000, 1_000, 20
TARGET = 1.35
ROUTINGS = ("random", "tickets", "optimal")


def visits(ps: Session) -> float:
    """Filters that a row has visited so far, on average."""
    (flow,) = ps.stats()["flows"]
    (eddy,) = flow["eddies"]
    return float(eddy["visits_per_row"])


def _route(routing: str, batches: Batches, every: int) -> tuple[int, list[float]]:
    """Rows delivered, and visits per row so far, every so many batches."""
    ps = penstock.connect(runner="inprocess", routing=routing)
    create_sensors(ps, "s")
    standing = [ps.query(text) for text in TABLE_3]
    so_far = []
    for number, (name, rows) in enumerate(batches, 1):
        ps.push(name, rows)
        if number % every == 0:
            so_far.append(visits(ps))
    return sum(query.changes().num_rows for query in standing), so_far


def run(scale: float = 1.0) -> Result:
    rows, batch = int(ROWS * scale), max(1, int(BATCH * scale))
    batches = cut({"s": readings(rows, 1)}, batch)
    every = len(batches) // POINTS
    runs = {routing: _route(routing, batches, every) for routing in ROUTINGS}
    if len({found for found, _ in runs.values()}) > 1:
        raise AssertionError(f"rows delivered: { {r: found for r, (found, _) in runs.items()} }")
    lines = {routing: so_far for routing, (_, so_far) in runs.items()}
    at = [every * batch * (i + 1) / 1e3 for i in range(POINTS)]
    worst = float(len(FIELDS))
    return {
        "rows": rows,
        "every filter": plain(worst, None, "visits per row"),
        "random": plain(lines["random"][-1], None, "visits per row"),
        "tickets": at_most(lines["tickets"][-1], None, TARGET, "visits per row"),
        "optimal": plain(lines["optimal"][-1], None, "visits per row"),
        "figure 9": chart(
            "Filters visited, queries of table 3", "1,000 rows", "visits per row so far", at,
            {"every filter": [worst] * POINTS, **lines},
        ),
    }  # fmt: skip
