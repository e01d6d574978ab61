"""Planning random queries: pure, and every edge has the pattern that the rules give its node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from penstock.delta import Emission
from penstock.engine import blocks as b
from penstock.engine.build import spec_of
from penstock.errors import PlanError, UnsupportedError
from penstock.optimizer.distribution import undivided
from penstock.optimizer.emit import choose_emits
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import pattern_of
from penstock.physical.draft import PlanSpec
from penstock.session.compile import compile_select, optimise
from penstock.session.placement import Deployed, place
from penstock.sql.catalog import MemoryCatalog, stream_def, table_def
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import CreateStream, CreateTable, Select
from penstock.state.arena import Arena
from property.data import STREAMS, TABLES
from property.plans import Plans

EMISSIONS = [Emission(*flags) for flags in product((False, True), repeat=2)]
QUERIES = (
    "SELECT r.a FROM r [UNBOUNDED] JOIN s [UNBOUNDED] ON r.k = s.k",
    "SELECT k, a FROM r [RANGE $w]",
    "SELECT k, a FROM r [RANGE $w] WHERE a > $a",
    "SELECT r.a FROM r [RANGE $w] JOIN s [RANGE 5] ON r.k = s.k WHERE r.a > $a",
    "SELECT k FROM r [RANGE 6 SLIDE 3] UNION ALL SELECT k FROM s [RANGE 6 SLIDE 3]",
    "SELECT k FROM r [NOW] UNION ALL SELECT k FROM s [RANGE 1]",
    "SELECT k FROM r [RANGE 6] UNION ALL SELECT k FROM s [RANGE 6]",
    "SELECT k FROM r [UNBOUNDED] UNION ALL SELECT k FROM s [RANGE 6]",
    "SELECT r.a, g.n FROM r [RANGE 5] "
    "JOIN (SELECT k, count(*) AS n FROM t GROUP BY k) g ON r.k = g.k",
    "SELECT count(*) AS n FROM r [RANGE 5] WHERE a > $a",
)


def catalog() -> MemoryCatalog:
    found = MemoryCatalog()
    script = "; ".join(d.ddl() for d in (*STREAMS.values(), *TABLES.values()))
    for statement in parse_script(script):
        if isinstance(statement, CreateStream):
            found.add(stream_def(statement))
        else:
            assert isinstance(statement, CreateTable)
            found.add(table_def(statement))
    return found


def blocks(count: int) -> Iterator[tuple[str, b.AddTemplate]]:
    """Templates of chosen and of random queries, with every way to emit."""
    known = catalog()
    rng = Random(17)
    texts = [*QUERIES, *(Plans(rng).query(rng.choice((0, 1, 2, 2, 3))) for _ in range(count))]
    for key, text in enumerate(texts):
        select = parse_statement(text)
        assert isinstance(select, Select)
        try:
            compiled = compile_select(select, known)
            node = optimise(compiled.template, Stats(), frozenset())
        except (PlanError, UnsupportedError):
            continue
        emits = tuple(choose_emits(node, Stats()).items())
        emission = EMISSIONS[key % len(EMISSIONS)]
        yield text, b.AddTemplate(key, undivided(node), compiled.params, emission, emits)


def disagreements(plan: PlanSpec) -> list[str]:
    """Specs whose pattern is another than the rule's."""
    pairs = [(s, pattern_of(s.node)) for s in plan.specs if s.node is not None]
    return [
        f"{s.name} {s.detail()}: {s.edge.pattern}, {p}" for s, p in pairs if s.edge.pattern is not p
    ]


def test_edges_have_the_pattern_of_the_rules() -> None:
    seen: Counter[Pattern] = Counter()
    for text, block in blocks(400):
        plan = spec_of(block)
        assert not disagreements(plan), text
        assert plan.view is not None
        assert plan.view.edge.pattern is pattern_of(block.plan.view), text
        seen[plan.view.edge.pattern] += 1
    assert set(seen) == set(Pattern)
    assert sum(seen.values()) >= 300


def test_a_plan_depends_on_its_block_alone_and_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = list(blocks(60))
    kinds: Counter[str] = Counter()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("planning touched an arena")

    monkeypatch.setattr(Arena, "__init__", refuse)
    for text, block in found:
        plan = spec_of(block)
        assert plan == spec_of(block), text
        assert [spec.at for spec in plan.specs] == list(range(len(plan.specs)))
        assert all(below.at < spec.at for spec in plan.specs for below in spec.inputs), text
        place(block, 3, Deployed())
        kinds.update(type(spec).__name__ for spec in plan.specs)
    assert len(kinds) > 15
