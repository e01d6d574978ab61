"""cacq_fig10: tickets of each filter while queries are added (CACQ §4.2, table 4, figure 10).

Readings come at a fixed rate of stream time; a query is added every five seconds. Four seconds
later all filters should have the shares of tickets that they would keep: what is judged is how
far any share is then from its mean in a session that has had the same queries for long. These
means have the shape of the paper's figure: in workload 3 the filters on a, b and c are level and
those on d and e below them.
"""

from __future__ import annotations

import penstock
from benchmarks.cacq_workloads import FIELDS, TABLE_4, create_sensors, readings
from benchmarks.chart import chart
from benchmarks.pipeline import Result, at_most, cut
from penstock.session import Session

RATE = 4_000  # rows per second of stream time
BATCHES = 4  # per second
APART, SETTLED = 5, 4  # seconds from query to query, and until its share has settled
LONG = 10  # seconds after which a session has settled by all means
TARGET = 0.1
LEVEL = ("a", "b", "c")  # in workload 3
MOST_APART = 1.4
Shares = dict[str, float]


def _shares(ps: Session) -> Shares:
    """The share of tickets by field."""
    (flow,) = ps.stats()["flows"]
    found = {m["module"]: m["share"] for m in flow["eddies"][0]["modules"]}
    return {field: found.get(f"filter {field}", 0.0) for field in FIELDS}


def _watch(queries: list[str], rate: int, apart: int, seconds: int) -> list[Shares]:
    """The shares after every batch; a query is added every `apart` seconds, or all at once."""
    ps = penstock.connect(runner="inprocess")
    create_sensors(ps, "s")
    waiting, found = list(queries), []
    for number, (name, rows) in enumerate(
        cut({"s": readings(rate * seconds, seconds)}, rate // BATCHES)
    ):
        while waiting and number >= (len(queries) - len(waiting)) * apart * BATCHES:
            ps.query(waiting.pop(0))
        ps.push(name, rows)
        found.append(_shares(ps))
    return found


def _mean(shares: list[Shares]) -> Shares:
    return {field: sum(s[field] for s in shares) / len(shares) for field in FIELDS}


def _unsettled(shares: list[Shares], settled: list[Shares]) -> float:
    """The furthest that a share is, when it should have settled, from where it stays."""
    return max(
        abs(shares[(n * APART + SETTLED) * BATCHES - 1][field] - after[field])
        for n, after in enumerate(settled)
        for field in FIELDS
    )


def _shape(settled: Shares) -> Result:
    """Workload 3: how far apart the filters are that are level, and how near the others come."""
    level = [settled[field] for field in LEVEL]
    below = max(share for field, share in settled.items() if field not in LEVEL)
    return {
        "workload 3, S.a, S.b, S.c: most : least": at_most(
            max(level) / min(level), None, MOST_APART
        ),
        "workload 3, S.d, S.e: most : least of these": at_most(below / min(level), None, 1.0),
    }


def run(scale: float = 1.0) -> Result:
    rate = max(BATCHES, int(RATE * scale))
    out: Result = {"rows/s of stream time": rate}
    charts: Result = {}
    for number, queries in TABLE_4.items():
        shares = _watch(queries, rate, APART, APART * len(queries))
        settled = [
            _mean(_watch(queries[:n], rate, 0, 2 * LONG)[LONG * BATCHES :])
            for n in range(1, len(queries) + 1)
        ]
        final = settled[-1]
        order = sorted(FIELDS, key=lambda field: -final[field])
        ranks = " ".join(f"{field} {final[field]:.2f}" for field in order)
        out[f"workload {number}, most tickets first"] = ranks
        moving = at_most(_unsettled(shares, settled), None, TARGET, "")
        out[f"workload {number}, share from final after {SETTLED} s"] = moving
        if number == 3:
            out |= _shape(final)
        at = [(i + 1) / BATCHES for i in range(len(shares))]
        lines = {f"S.{field}": [s[field] for s in shares] for field in FIELDS}
        title = f"Workload {number}"
        charts[f"figure 10, {number}"] = chart(title, "seconds", "share of tickets", at, lines)
    return out | charts
