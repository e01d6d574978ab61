"""How rows leave is decided in one place; another policy is another object there."""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from signed_streams import SHAPES, Row, Stub, batches, edge, from_delta, live, stream, to_delta

import penstock
from oracle.check import check
from penstock.arrays import NEVER
from penstock.delta import Clock
from penstock.engine import build
from penstock.logical.strategy import STRATEGIES
from penstock.physical.draft import Setting
from penstock.physical.expiry import Store
from penstock.physical.expiry_policy import decide
from penstock.physical.keep import KeepOp
from penstock.physical.specs import KeepSpec
from penstock.state.arena import Arena
from property.data import session

ROOT = Path(penstock.__file__).parent


# ---- one place -----------------------------------------------------------------------
FACTS = {"expiring", "negatives", "fifo"}
"""What an edge knows of rows that leave; the choices follow from it."""
EDGES = {"patterns/edges.py"}
DECIDES = {"physical/expiry.py", "physical/expiry_policy.py"}
PLANS = {"physical/draft.py", "physical/planner.py"}
PRINTS = {"session/plan_tree.py"}
KEEPS_ITS_ORDER = {"physical/union.py"}  # the order of `exp` that its own edge promises


def facts_read(text: str) -> Iterator[int]:
    """The lines that read such a fact of an edge."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in FACTS:
            yield node.lineno


def stores_made(text: str) -> Iterator[int]:
    """The lines that make a store of rows that leave."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="Fifo" | "Calendar" | "RowList")):
                yield node.lineno


def modules_with(found: Callable[[str], Iterator[int]]) -> set[str]:
    files = ROOT.rglob("*.py")
    return {str(path.relative_to(ROOT)) for path in files if any(found(path.read_text()))}


def test_only_the_planner_asks_an_edge_how_rows_leave() -> None:
    readers = modules_with(facts_read)
    assert readers == EDGES | DECIDES | PLANS | PRINTS | KEEPS_ITS_ORDER


def test_only_one_module_makes_the_stores() -> None:
    assert modules_with(stores_made) == {"physical/expiry_stores.py"}


def test_a_decision_in_an_operator_would_be_found() -> None:
    text = "def f(self, source):\n    return Fifo(s, 1) if source.edge.fifo else Calendar(s, 1)\n"
    assert list(facts_read(text)) == [2]
    assert list(stores_made(text)) == [2, 2]


# ---- EXPIRE --------------------------------------------------------------------------
def make_expire(arena: Arena, shape: str) -> KeepOp:
    source = Stub(edge(shape, 1))
    return KeepOp(decide(KeepSpec.of(source.spec), "explicit"), source, arena.scope("e"))


@pytest.mark.parametrize("shape", SHAPES)
def test_expire_says_by_rows_what_leaves(shape: str) -> None:
    for seed in range(10):
        rng = random.Random(seed)
        rows = stream(rng, shape, 1, 60, rng.choice((3, 10, 30)), rng.choice((1, 3)))
        end = max(t for r in rows for t in r[:2] if t < NEVER) + 1
        operator, out, seen = make_expire(Arena(), shape), list[Row](), list[Row]()
        for (part,), clock in batches(rng, [rows], end):
            out += from_delta(operator.step([to_delta(part, 1)], clock))
            seen += part
            assert all(exp == NEVER for _, exp, _, _, _ in out)
            assert [r[0] for r in out] == sorted(r[0] for r in out)
            for t in range(clock.before, clock.now + 1):
                assert live(out, t) == live(seen, t)
            held = from_delta(operator.contents(clock))
            assert live(held, clock.now) == live(seen, clock.now)
        if all(r[1] < NEVER for r in rows):
            assert operator.rows() == 0


def test_what_leaves_goes_before_what_comes() -> None:
    rows = [(0, 5, 1, 0, (7,)), (5, 5, 1, 0, (9,)), (5, 10, 1, 0, (8,))]
    out = from_delta(make_expire(Arena(), "wks").step([to_delta(rows, 1)], Clock(0, 6)))
    assert out == [(0, NEVER, 1, 0, (7,)), (5, NEVER, -1, 0, (7,)), (5, NEVER, 1, 0, (8,))]


def test_expire_is_a_keep_that_tells() -> None:
    source = Stub(edge("wks", 1)).spec
    keep, expire = decide(KeepSpec.of(source)), decide(KeepSpec.of(source), "explicit")
    assert (keep.name, keep.edge) == ("keep", source.edge)
    assert (expire.name, expire.edge.expiring, expire.edge.negatives) == ("expire", False, True)
    assert keep.expiry.inputs == expire.expiry.inputs
    assert keep.expiry.inputs[0].store is Store.FIFO


# ---- other strategies ----------------------------------------------------------------
PLANS_OF_ALL_KINDS = (
    "SELECT k, a FROM r [RANGE 4] WHERE a > 1",
    "SELECT k, a FROM r [RANGE 4 SLIDE 2]",
    "SELECT k, a FROM r [UNBOUNDED]",
    "SELECT k, count(*) AS n, sum(a) AS total, min(a) AS low FROM r [RANGE 6] GROUP BY k",
    "SELECT count(*) AS n, max(a) AS high FROM r [RANGE 5]",
    "SELECT DISTINCT a FROM r [RANGE 5]",
    "SELECT r.a, s.b FROM r [RANGE 5] JOIN s [RANGE 3] ON r.k = s.k",
    "SELECT r.a, s.b FROM r [RANGE 5] JOIN s [RANGE 3] ON r.k = s.k WHERE r.a < s.b",
    "SELECT r.k, count(*) AS n FROM r [RANGE 5] JOIN s [RANGE 3] ON r.k = s.k GROUP BY r.k",
    "SELECT d.a, s.b FROM (SELECT DISTINCT k, a FROM r [RANGE 6]) d JOIN s [RANGE 3] ON d.k = s.k",
    "SELECT k, a FROM r [RANGE 4] UNION ALL SELECT k, b FROM s [RANGE 7]",
    "SELECT k FROM r [RANGE 4] EXCEPT ALL SELECT k FROM s [RANGE 7]",
    "SELECT k FROM r [RANGE 4] INTERSECT SELECT k FROM s [RANGE 7]",
    "SELECT k, a FROM r [RANGE 6] WHERE NOT EXISTS "
    "(SELECT 1 AS one FROM s [RANGE 3] WHERE s.k = r.k)",
    "SELECT r.a, t.name FROM r [RANGE 5] JOIN t ON r.k = t.k",
    "SELECT r.a, n.w FROM r [RANGE 5] JOIN n ON r.k = n.k",
    "SELECT k, a FROM r [PARTITION BY k ROWS 2]",
)


def made_plans(monkeypatch: pytest.MonkeyPatch) -> list[build.PlanSpec]:
    """The plans that are made from now on."""
    made: list[build.PlanSpec] = []
    plain = build.plan

    def plan(root: object, setting: Setting) -> build.PlanSpec:
        made.append(plain(root, setting))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(build, "plan", plan)
    return made


def run_all(strategy: str, seeds: int) -> None:
    """Plans of all kinds of operators over random rows, against the oracle."""
    for seed in range(seeds):
        scenario = session(random.Random(seed), {"r", "s"}, {"t", "n"}, 25)
        for emission in ("", " EMIT ON COMMIT"):
            sqls = [sql + emission for sql in PLANS_OF_ALL_KINDS]
            check(sqls, scenario, strategy=strategy)


def stores_of(made: list[build.PlanSpec], *without: str) -> set[Store]:
    """The stores of inputs, but those of the last rows, which every strategy needs."""
    specs = [s for plan in made for s in plan.specs if s.name not in ("rows-window", *without)]
    return {kept.store for spec in specs for kept in spec.expiry.inputs}


def test_all_expirations_can_be_told_with_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator copes: it reads what it keeps from its spec and knows no strategy."""
    made = made_plans(monkeypatch)
    run_all("negative", 3)
    seen: Counter[str] = Counter(spec.name for plan in made for spec in plan.specs)
    assert seen["expire"] >= len(PLANS_OF_ALL_KINDS)
    for spec in (spec for plan in made for spec in plan.specs if spec.name != "expire"):
        assert not any(source.edge.expiring for source in spec.inputs), spec
        if spec.name != "rows-window":
            assert not {kept.store for kept in spec.expiry.inputs} & {Store.FIFO, Store.CALENDAR}


def test_direct_expiry_scans_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_plans(monkeypatch)
    run_all("direct", 1)
    stores = stores_of(made)
    assert Store.LIST in stores
    assert not stores & {Store.FIFO, Store.CALENDAR}
    assert "expire" not in {spec.name for plan in made for spec in plan.specs}


def test_re_evaluation_keeps_windows_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_plans(monkeypatch)
    run_all("reevaluate", 1)
    specs = [spec for plan in made for spec in plan.specs]
    assert sum(spec.name == "re-evaluate" for spec in specs) >= len(PLANS_OF_ALL_KINDS)
    above = {"group by", "distinct", "join", "semi join", "anti join", "except", "intersect"}
    assert not above & {spec.name for spec in specs}
    assert stores_of(made, "view") <= {Store.NONE, Store.LIST, Store.HASH, Store.STEM, Store.LOG}


def test_the_default_strategy_needs_no_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_plans(monkeypatch)
    check(list(PLANS_OF_ALL_KINDS), session(random.Random(1), {"r", "s"}, {"t", "n"}, 5))
    assert "expire" not in {spec.name for plan in made for spec in plan.specs}


def test_only_the_planner_knows_strategies_by_name() -> None:
    """In the engine, a name of a strategy is written where it gets its meaning."""
    names = {f'"{s.name}"' for s in STRATEGIES}
    engine = ("engine", "physical", "kernels", "state", "eddy", "stems", "shards", "spark")
    files = [path for part in engine for path in (ROOT / part).rglob("*.py")]
    written = {str(p.relative_to(ROOT)) for p in files if any(n in p.read_text() for n in names)}
    assert written == {"physical/strategies.py"}
