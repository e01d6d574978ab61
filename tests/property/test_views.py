"""Views over views, and windows over subqueries that count rows."""

from __future__ import annotations

from random import Random

import pytest

import penstock
from oracle.fold import Fold, bag, changes_of, rows_of, same
from oracle.oracle import Oracle
from oracle.scenario import Advance, Push, follow
from oracle.windows import Window, intervals, point
from property.cases import FACTOR, tally
from property.data import session

BASES = (
    "SELECT k, count(*) AS n, sum(a) AS total FROM r [RANGE 4] GROUP BY k",
    "SELECT DISTINCT k, a AS n, a AS total FROM r [RANGE 3]",
    "SELECT x.k, x.a AS n, y.b AS total FROM r [RANGE 4] x JOIN s [RANGE 3] y ON x.k = y.k",
    "SELECT k, a AS n, a AS total FROM r [ROWS 4] EXCEPT ALL SELECT k, b, b FROM s [RANGE 3]",
)
UPPERS = (
    "SELECT max(n) AS best, count(*) AS ks FROM base",
    "SELECT x.k, y.k AS k2 FROM base x JOIN base y ON x.n = y.n",
    "SELECT k FROM base EXCEPT SELECT k FROM s [RANGE 2]",
    "SELECT b.k, s.b FROM base b LEFT JOIN s [RANGE 4] s ON b.k = s.k WHERE b.n > 0",
    "SELECT total, count(*) AS c FROM base GROUP BY total HAVING count(*) > 1",
)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("upper", UPPERS)
def test_view_over_view(base: str, upper: str) -> None:
    for seed in range(max(1, round(2 * FACTOR))):
        scenario = session(Random(seed), {"r", "s"}, set(), 24)
        world = scenario.world()
        ps = penstock.connect(runner="inprocess")
        for text in scenario.ddl():
            ps.sql(text)
        ps.sql(f"CREATE MATERIALIZED VIEW base AS {base}")
        ps.sql(f"CREATE MATERIALIZED VIEW upper AS {upper}")
        steps = []
        for action in scenario.actions:
            follow(world, action)
            match action:
                case Push(stream, rows):
                    ps.push(stream, scenario.dicts(stream, rows))
                case Advance(stream, ts):
                    ps.advance(stream, ts)
            steps.append((world.step, changes_of(ps["upper"].changes()), ps["upper"].view()))
        oracle = Oracle(upper, world, views={"base": base})
        fold = Fold()
        for step, changes, view in steps:
            wanted = oracle.at(point(oracle.clock(step), step))
            fold.apply(changes)
            assert same(bag(rows_of(view)), wanted), scenario.script([base, upper])
            assert same(fold.held, wanted), scenario.script([base, upper])
        ps.close()
        tally["view over view"] += 1


@pytest.mark.parametrize("partition", ["", "PARTITION BY k "])
def test_counting_window_over_a_filter(partition: str) -> None:
    """The window counts what passes the filter, not what came."""
    for seed in range(max(1, round(10 * FACTOR))):
        scenario = session(Random(seed), {"r"}, set(), 24)
        world = scenario.world()
        sql = f"SELECT x.k, x.a FROM (SELECT k, a, ts FROM r WHERE a > 1) [{partition}ROWS 2] x"
        ps = penstock.connect(runner="inprocess")
        ps.sql(scenario.ddl()[0])
        query = ps.query(sql)
        for action in scenario.actions:
            follow(world, action)
            match action:
                case Push(stream, rows):
                    ps.push(stream, scenario.dicts(stream, rows))
                case Advance(stream, ts):
                    ps.advance(stream, ts)
            passing = [r for r in world.rows["r"] if r.values[1] is not None and r.values[1] > 1]
            window = Window("rows", 2, 0, ("k",) if partition else ())
            at = point(world.clock(frozenset("r")), world.step)
            lives = intervals(passing, window, ("k", "a", "ts"))
            pairs = zip(passing, lives, strict=True)
            wanted = bag(r.values[:2] for r, (start, end) in pairs if start <= at < end)
            assert same(bag(rows_of(query.view())), wanted), scenario.script([sql])
        ps.close()
        tally["counting window"] += 1
