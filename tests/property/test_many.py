"""One template, many parameter rows: `query_many` equals each query registered alone."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import penstock
from oracle.check import compare
from oracle.driver import Observation, Trace
from oracle.fold import changes_of, rows_of
from oracle.scenario import Advance, Push, Scenario, follow
from oracle.translate import bind
from property.cases import CHUNKS, seeds, tally
from property.data import params_of, session, streams_of

OWN_WINDOWS = (  # of each query's own length
    "SELECT k, a FROM r [RANGE $w] WHERE a BETWEEN $lo AND $hi",
    "SELECT k, count(*) AS n, max(a) AS m FROM r [RANGE $w] GROUP BY k",
    "SELECT DISTINCT a FROM r [RANGE $w] WHERE k < $hi UNION ALL SELECT k FROM u [RANGE $v]",
    "SELECT x.k, x.a, y.b FROM r [RANGE $w] x JOIN s [RANGE $v] y ON x.k = y.k WHERE x.a > $lo",
    "SELECT x.k, y.b FROM r [RANGE $w] x JOIN s [RANGE $v] y ON x.k = y.k",
    "SELECT x.a, y.b FROM r [RANGE $w] x JOIN s [RANGE 3] y ON y.b - x.a BETWEEN 0 AND 1",
    "SELECT x.a FROM r [RANGE $w] x WHERE NOT EXISTS "
    "(SELECT 1 FROM s [RANGE $v] y WHERE y.k = x.k AND y.b > $hi)",
    "SELECT k FROM r [RANGE $w] EXCEPT ALL SELECT k FROM s [RANGE 5] WHERE b = $hi",
    "SELECT x.a, y.b FROM r [RANGE $w] x LEFT JOIN s [RANGE $v] y ON x.k = y.k",
    "SELECT x.a, z.c FROM r [RANGE $w] x JOIN s [RANGE $v] y ON x.k = y.k "
    "JOIN u [RANGE 3] z ON x.a = z.k",
    "WITH c AS (SELECT k, a FROM r [RANGE $w] WHERE a >= $lo) "
    "SELECT p.k, q.a FROM c p JOIN c q ON p.k = q.a",
    "SELECT k FROM (SELECT k, a FROM r WHERE a > $lo) [RANGE $w] d WHERE d.a < $hi",
)
TEMPLATES = (
    "SELECT k, a FROM r [RANGE 4] WHERE a BETWEEN $lo AND $hi",
    "SELECT k, a FROM r [RANGE 4] WHERE k = $lo AND a > $hi",
    "SELECT k, a FROM r [ROWS 3] WHERE a <> $lo",
    "SELECT count(*) AS n, max(a) AS m FROM r [RANGE 5] WHERE k = $lo",
    "SELECT k, count(*) AS n FROM r [RANGE 5] WHERE a >= $lo GROUP BY k HAVING count(*) > $hi",
    "SELECT DISTINCT a FROM r [RANGE 3] WHERE k < $hi",
    "SELECT x.k, x.a, y.b FROM r [RANGE 5] x JOIN s [RANGE 4] y ON x.k = y.k "
    "WHERE x.a > $lo AND y.b < $hi",
    "SELECT x.a, y.b FROM r [RANGE 5] x JOIN s [RANGE 4] y ON y.b BETWEEN x.a + $lo AND x.a + $hi",
    "SELECT x.a FROM r [RANGE 5] x WHERE x.k = $lo AND NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 4] y WHERE y.k = x.k AND y.b > $hi)",
    "SELECT k FROM r [RANGE 5] WHERE a = $lo EXCEPT ALL SELECT k FROM s [RANGE 5] WHERE b = $hi",
    "SELECT x.a, y.b FROM r [RANGE 5] x LEFT JOIN s [RANGE 3] y ON x.k = y.k AND y.b > $lo "
    "WHERE x.a <= $hi",
    "SELECT k, sum(a) AS total FROM r [RANGE 6 SLIDE 2] WHERE k <> $lo GROUP BY k "
    "HAVING sum(a) >= $hi",
    "SELECT x.k FROM r [RANGE 5] x JOIN s [RANGE 4] y ON x.k = y.k WHERE x.a > $lo AND y.b < $hi "
    "EXCEPT ALL SELECT k FROM u [RANGE 3]",
    "SELECT x.k, count(*) AS n FROM r [RANGE 5] x JOIN s [RANGE 4] y ON y.b - x.a BETWEEN 0 AND 2 "
    "WHERE x.a > $lo AND NOT EXISTS (SELECT 1 FROM u [RANGE 3] z WHERE z.k = x.k) "
    "GROUP BY x.k HAVING count(*) >= $hi",
    "SELECT x.a FROM r [RANGE 5] x JOIN r [NOW] y ON x.k = y.k WHERE x.a BETWEEN $lo AND $hi "
    "UNION ALL SELECT k FROM u [RANGE 6] WHERE k <> $lo",
    *OWN_WINDOWS,
)


def together(template: str, params: list[dict[str, object]], scenario: Scenario) -> Trace:
    """Run one template with all its parameter rows in one session."""
    world = scenario.world()
    sqls = [bind(template, p) for p in params]
    seen: list[list[Observation]] = [[] for _ in sqls]
    trace = Trace(scenario, sqls, world, seen, [0] * len(sqls), [0] * len(sqls))
    ps = penstock.connect(runner="inprocess")
    for text in scenario.ddl():
        ps.sql(text)
    queries = ps.query_many(template, pa.Table.from_pylist(params))
    assert len(queries) == len(params)
    for action in scenario.actions:
        follow(world, action)
        match action:
            case Push(stream, rows):
                ps.push(stream, scenario.dicts(stream, rows))
            case Advance(stream, ts):
                ps.advance(stream, ts)
        ps.flush()
        for observations, query in zip(seen, queries, strict=True):
            changes = changes_of(query.changes())
            observations.append(Observation(world.step, changes, rows_of(query.view())))
    trace.late = {s.name: ps.late(s.name).num_rows for s in scenario.streams}
    ps.close()
    return trace


_AT_COMMIT = (
    "SELECT count(*) AS n FROM r [RANGE $w] WHERE a > $lo EMIT ON COMMIT",
    "SELECT count(*) AS n FROM r [RANGE 4] WHERE a > $lo EMIT ON COMMIT",
)


@pytest.mark.parametrize("template", [*TEMPLATES, *_AT_COMMIT])
def test_a_template_is_as_exact_as_its_queries(template: str) -> None:
    chunk = (*TEMPLATES, *_AT_COMMIT).index(template)
    for seed in seeds(10, chunk, 3 * CHUNKS):
        rng = Random(seed)
        params = [params_of(rng) for _ in range(12)]
        trace = together(template, params, session(rng, streams_of(template), set(), 20))
        compare(trace)
        tally["query_many"] += len(params)
