"""Every type as key, value and aggregate argument, with its awkward values (DESIGN §3)."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random

import pytest

from oracle.check import check
from oracle.scenario import Action, Advance, Push, Scenario
from oracle.world import StreamDef, Values
from property.cases import FACTOR, tally

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1)
DOMAINS: dict[str, tuple[object, ...]] = {
    "BOOLEAN": (True, False, None),
    "INT": (0, -1, 2**31 - 1, -(2**31), None),
    "BIGINT": (0, 1, 2**62, -(2**62), 2**63 - 1, -(2**63), None),
    "FLOAT": (0.0, -0.0, 0.5, -1.25, float("nan"), None),
    "DOUBLE": (0.0, -0.0, 0.1, 1e300, -1e-300, float("nan"), float("inf"), float("-inf"), None),
    "DECIMAL(10,2)": (Decimal("0.00"), Decimal("-1.25"), Decimal("99999999.99"), None),
    "STRING": ("", "a", "A", "ä", "日本", "a\x00b", "it's", None),
    "DATE": (DAY, datetime.date(1969, 12, 31), DAY + datetime.timedelta(1), None),
    "TIMESTAMP": (NOON, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None),
}
QUERIES = (
    "SELECT v, w FROM r [RANGE 4] x",
    "SELECT DISTINCT v FROM r [RANGE 3] x",
    "SELECT v, count(*) AS n, count(w) AS m FROM r [RANGE 4] x GROUP BY v",
    "SELECT min(v) AS lo, max(v) AS hi, count(DISTINCT v) AS d FROM r [RANGE 4] x",
    "SELECT k, min(v) AS lo, max(v) AS hi FROM r [ROWS 5] x GROUP BY k",
    "SELECT x.v, y.v AS v2 FROM r [RANGE 3] x JOIN s [RANGE 3] y ON x.v = y.v",
    "SELECT x.v FROM r [RANGE 3] x JOIN s [RANGE 3] y ON x.k = y.k AND x.v < y.v",
    "SELECT x.v, y.w FROM r [RANGE 3] x FULL JOIN s [RANGE 3] y ON x.v = y.v",
    "SELECT v FROM r [RANGE 4] x EXCEPT ALL SELECT v FROM s [RANGE 2] y",
    "SELECT v FROM r [RANGE 4] x INTERSECT SELECT v FROM s [RANGE 4] y",
    "SELECT v FROM r [RANGE 4] x UNION SELECT v FROM s [RANGE 4] y",
    "SELECT k FROM r [RANGE 4] x WHERE v NOT IN (SELECT v FROM s [RANGE 2] y)",
    "SELECT k FROM r [RANGE 4] x WHERE EXISTS (SELECT 1 FROM s [RANGE 2] y WHERE y.v = x.v)",
    "SELECT k, v FROM r [PARTITION BY v ROWS 1] x",
    "SELECT k, coalesce(v, w) AS c FROM r [RANGE 4] x WHERE v IS DISTINCT FROM w",
    "SELECT k FROM r [RANGE 4] x WHERE v >= w",
    "SELECT k, CASE WHEN v = w THEN v END AS c FROM r [RANGE 4] x",
)


def scenario(rng: Random, type_: str) -> Scenario:
    """Two streams with two columns of the type."""
    columns = (("k", "INT"), ("v", type_), ("w", type_), ("ts", "BIGINT"))
    streams = tuple(StreamDef(name, columns) for name in "rs")
    actions: list[Action] = []
    ts = 0
    for _ in range(5):
        for name in "rs":
            rows: list[Values] = []
            for _ in range(rng.randint(1, 5)):
                domain = DOMAINS[type_]
                rows.append((rng.randrange(3), rng.choice(domain), rng.choice(domain), ts))
                ts += rng.choice((0, 0, 1))
            actions.append(Push(name, tuple(rows)))
    actions.append(Advance(None, ts + 3))
    return Scenario(streams, (), tuple(actions))


@pytest.mark.parametrize("type_", DOMAINS)
def test_every_type(type_: str) -> None:
    for seed in range(max(1, round(2 * FACTOR))):
        check(list(QUERIES), scenario(Random(seed), type_))
        tally["types"] += len(QUERIES)


SUMS = (
    "SELECT k, sum(v) AS s, avg(v) AS m FROM r [RANGE 4] x GROUP BY k",
    "SELECT sum(v) AS s, count(v) AS n FROM r [RANGE 2 SLIDE 2] x",
    "SELECT k, sum(v) FILTER (WHERE w IS NOT NULL) AS s FROM r [ROWS 4] x GROUP BY k",
)


@pytest.mark.parametrize("type_", ["INT", "FLOAT", "DOUBLE", "DECIMAL(10,2)"])
def test_what_leaves_a_window_leaves_the_sum(type_: str) -> None:
    for seed in range(max(1, round(3 * FACTOR))):
        check(list(SUMS), scenario(Random(seed), type_))
        tally["types"] += len(SUMS)


def test_order_statistics_and_deviation_of_doubles() -> None:
    queries = [
        "SELECT k, median(v) AS m FROM r [RANGE 4] x GROUP BY k",
        "SELECT stddev(v) AS d FROM r [RANGE 4] x",
    ]
    rng = Random(1)
    values = (0.1, 0.2, 1e3, -7.5, None)
    rows = [(rng.randrange(2), rng.choice(values), None, t // 2) for t in range(40)]
    columns = (("k", "INT"), ("v", "DOUBLE"), ("w", "DOUBLE"), ("ts", "BIGINT"))
    pushes = tuple(Push("r", tuple(rows[i : i + 7])) for i in range(0, 40, 7))
    check(queries, Scenario((StreamDef("r", columns),), (), (*pushes, Advance(None, 40))))
