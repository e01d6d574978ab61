"""All queries of a `query_many` at once tell what each of them would; row by row, the same."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.indexes.template.template_index import TemplateIndex
from property.cases import CHUNKS, seeds, tally
from property.crowds import Follower, Plan, seen
from property.test_many import TEMPLATES


def equal(one: Follower, two: Follower) -> None:
    """Both were told the same at every reading, and in all."""
    for at, (left, right) in enumerate(zip(one.read, two.read, strict=True)):
        assert left[0] == right[0], f"changes, reading {at} of {one.template} {one.plan.events}"
        assert left[1] == right[1], f"answers, reading {at} of {one.template} {one.plan.events}"
    for left, right in zip(one.heard, two.heard, strict=True):
        told = [sum(map(seen, tables), Counter()) for tables in (left, right)]
        assert told[0] == told[1], f"subscribers of {one.template} {one.plan.events}"


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("template", TEMPLATES)
def test_queries_tell_what_each_tells(template: str, shards: int | None) -> None:
    for seed in seeds(71, TEMPLATES.index(template), 4 * CHUNKS):
        plan = Plan.draw(seed, template)
        alone = Follower(template, plan, together=False, shards=shards).run()
        equal(Follower(template, plan, together=True, shards=shards).run(), alone)
        tally["queries at once"] += 1


ROWS = (
    "SELECT k, a FROM r [RANGE 4]",
    "SELECT k, a + 1 AS b FROM r [RANGE 4] WHERE a BETWEEN $lo AND $hi AND k <> 2",
    "SELECT k, a FROM r WHERE a >= $lo",
    "SELECT k, a FROM r [RANGE 6 SLIDE 2] WHERE a > $lo OR k = $hi",
    "SELECT k, a FROM r [RANGE 4] WHERE a > $lo UNION ALL "
    "SELECT k, b FROM s [RANGE 3] WHERE b < $hi",
    "SELECT k, a FROM r [RANGE 4] WHERE a > $lo UNION ALL SELECT k, b FROM s [RANGE 4]",
    "SELECT k, a FROM r [RANGE 4] WHERE a > $lo UNION ALL SELECT k, a FROM r [ROWS 3]",
    "SELECT k, a FROM r [ROWS 4] WHERE a > $lo",
    "SELECT k, a FROM r [UNBOUNDED] WHERE a > $lo UNION ALL SELECT k, a FROM r [ROWS 3]",
    "SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k HAVING count(*) BETWEEN $lo AND $hi",
    "SELECT k, n + 1 AS m FROM (SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k) AS g "
    "WHERE n > $lo",
    "SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k UNION ALL "
    "SELECT k, a FROM r [RANGE 4] WHERE a > $lo",
    "SELECT DISTINCT k FROM r [RANGE 5]",
    "SELECT x.k, t.name FROM r [RANGE 5] x JOIN t ON x.k = t.k WHERE x.a > $lo",
    "SELECT x.k, x.a, y.b FROM r [RANGE 5] x JOIN s [RANGE 4] y ON x.k = y.k",
    "SELECT x.k, x.a, y.b FROM r [RANGE 5] x JOIN s [RANGE 4 SLIDE 2] y "
    "ON y.b - x.a BETWEEN -1 AND 1",
    "SELECT x.k, x.a, y.b FROM r [RANGE 3] x JOIN s [NOW] y ON y.b < x.a",
    "SELECT k, a + $lo AS b FROM r [RANGE 4] WHERE a < $hi",
    "SELECT x.k, x.a FROM r [RANGE 5] x WHERE x.a > $lo AND NOT EXISTS "
    "(SELECT 1 FROM s [RANGE 4] y WHERE y.k = x.k)",
)
"""Templates whose rows reach the view in different ways; added to those of `test_many`."""


@pytest.fixture
def _indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selections leave the pools of their flow and ask the grouped filter, however few they are."""
    monkeypatch.setattr("penstock.eddy.index_policy.MOST_IN_GROUPS", 0)
    monkeypatch.setattr(TemplateIndex, "pays", staticmethod(lambda rows, queries: True))


@pytest.mark.parametrize("template", [*ROWS, *TEMPLATES])
def test_row_by_row_is_query_by_query(template: str) -> None:
    for seed in seeds(72, (*ROWS, *TEMPLATES).index(template), 4 * CHUNKS):
        _compare(template, seed)


@pytest.mark.usefixtures("_indexed")
@pytest.mark.parametrize("template", [t for t in ROWS if "$" in t])
def test_row_by_row_through_the_index(template: str) -> None:
    for seed in seeds(73, ROWS.index(template), 2 * CHUNKS):
        _compare(template, seed)


def _compare(template: str, seed: int) -> None:
    tables = frozenset({"t"}) if " t " in template else frozenset()
    plan = Plan.draw(seed, template, restores=seed % 3 == 0, tables=tables)
    shards = (None, 2, None, 1)[seed % 4]
    emit = ("EMIT CHANGES", "EMIT ON COMMIT")[seed // 2 % 2]
    plain = Follower(f"{template} {emit}", plan, together=True, shards=shards)
    by_row = Follower(f"{template} {emit} PER ROW", plan, together=True, shards=shards)
    equal(by_row.run(), plain.run())
    tally["row by row"] += 1
