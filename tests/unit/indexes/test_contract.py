"""Every index keeps the contract; a new kind needs nothing but a line in the factory's table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.arrays import I64, Bool
from penstock.delta import Lineage, Sets
from penstock.eddy import index_policy
from penstock.eddy.filter_steps import FilterStep
from penstock.eddy.lineage_batch import Entrants, LineageBatch
from penstock.eddy.lineage_group import LineageGroup
from penstock.errors import PlanError
from penstock.expressions.context import Context, Failures
from penstock.indexes import factory
from penstock.indexes.bitmap.bitmap_index import BitmapIndex
from penstock.indexes.call_index import CallIndex
from penstock.indexes.contract import (
    AttributeRows,
    IndexKind,
    PredicateIndex,
    QueryRows,
    SlotIndex,
    SlotPredicate,
    SlotRows,
    TemplateQueryIndex,
)
from penstock.indexes.template.alternative_index import AlternativeIndex
from penstock.indexes.template.cluster_index import ClusterIndex
from penstock.indexes.template.entries import AlternativeEntries
from penstock.indexes.template.template_index import TemplateIndex, TemplateQueries
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import full
from penstock.kernels.match import EQ, match_queries
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.predicates.clauses import Attribute, Conjunct
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.stems.log_view import LogView
from penstock.types import BIGINT, BOOLEAN

K, A = Column(BIGINT, 0, "k"), Column(BIGINT, 1, "a")
P = Param(BIGINT, 0)
EQUAL = np.array([[EQ, 0, 0, 0]])


def call(fn: str, *args: Expr) -> Expr:
    return Call(BOOLEAN, fn, args)


def new_context() -> Context:
    return Context(StringTable(Arena().scope("strings")), {}, Failures())


def new_table() -> QueryTable:
    return QueryTable(Arena().scope("Q"), 1)


def _entries() -> AlternativeEntries:
    return AlternativeEntries(EQUAL, (), (Attribute(K),), (), None)


INDEXES: list[Callable[[], PredicateIndex[Any, Any]]] = [
    lambda: BitmapIndex(0, Attribute(K), new_context()),
    lambda: CallIndex(0, call("eq", K, P), new_context()),
    lambda: TemplateIndex(new_table(), EQUAL, by_cohort=False),
    lambda: AlternativeIndex(new_table(), _entries(), by_cohort=False),
    lambda: ClusterIndex(new_table(), _entries(), by_cohort=False),
]


@pytest.mark.parametrize("make", INDEXES)
def test_every_index_keeps_the_contract(make: Callable[[], PredicateIndex[Any, Any]]) -> None:
    index = make()
    assert isinstance(index, PredicateIndex)
    assert index.inputs == (0,)
    assert index.nbytes >= 0
    assert index.explain()
    index.add(QueryRows(np.empty(0, np.int64), np.empty((0, 2), np.int64), _wanted("eq", K)))
    index.remove(np.empty(0, np.int64))


def _wanted(fn: str, value: Expr) -> SlotPredicate:
    return SlotPredicate.whole(Conjunct.of(0, call(fn, value, P)))


# ---- what the factory picks ----------------------------------------------------------
def chosen(predicate: Expr) -> list[str]:
    return [choice.kind.name for choice in factory.slot_indexes(Conjunct.of(0, predicate))]


def test_the_factory_picks_by_the_shape_of_the_predicate() -> None:
    assert chosen(call("gt", K, P)) == ["bitmap"]
    assert chosen(call("in", K, P, Literal(BIGINT, 3))) == ["bitmap"]
    assert chosen(call("or", call("eq", K, P), call("lt", A, P))) == ["bitmap", "bitmap"]
    assert chosen(call("lt", K, A)) == ["bitmap"]  # a boolean value of the row
    assert chosen(call("gt", Call(BIGINT, "add", (K, P)), A)) == ["call"]
    assert factory.verifying_index(Conjunct.of(0, call("gt", K, P))).kind.name == "call"


def test_predicates_on_one_value_share_an_index_whatever_they_compare() -> None:
    one, other, third = (
        factory.slot_indexes(Conjunct.of(alias, call(fn, K, P)))[0].key
        for alias, fn in ((0, "gt"), (0, "eq"), (1, "eq"))
    )
    assert one == other
    assert other != third


def test_a_predicate_that_no_kind_decides_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "SLOT_INDEXES", [])
    with pytest.raises(PlanError, match="no kind of index"):
        factory.slot_indexes(Conjunct.of(0, call("gt", K, P)))


# ---- a kind from elsewhere -----------------------------------------------------------
class DictIndex:
    """Toy: ``column = parameter`` of a lineage group, by a dictionary."""

    is_costly = hides = False

    def __init__(self, alias: int, column: int) -> None:
        self.inputs: tuple[int, ...] = (alias,)
        self._column = column
        self._words = 1
        self._rows: list[tuple[int, int, int]] = []  # constant, slot, clause
        self.asked = 0

    @property
    def uses(self) -> U64:
        return full(np.array([s for _, s, _ in self._rows], np.int64), self._words)

    @property
    def predicates(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return 24 * len(self._rows)

    def exact(self, queries: QueryRows) -> Bool:
        return np.ones(queries.ids.shape[0], np.bool_)

    def widen(self, words: int) -> None:
        self._words = words

    def add(self, queries: QueryRows) -> None:
        clauses = np.full_like(queries.ids, -1) if queries.clauses is None else queries.clauses
        for i, slot in enumerate(queries.ids.tolist()):
            self._rows.append((int(queries.params[i, 1 + self._param(queries)]), slot, clauses[i]))

    @staticmethod
    def _param(queries: QueryRows) -> int:
        assert queries.predicate is not None
        condition = queries.predicate.condition
        assert isinstance(condition, Call)
        assert isinstance(condition.args[1], Param)
        return condition.args[1].index

    def remove(self, ids: I64) -> None:
        self._rows = [row for row in self._rows if row[1] not in ids]

    def match(self, batch: SlotRows) -> U64:
        columns = batch.columns(self.inputs[0], batch.rows, np.array([self._column]))
        wanted = defaultdict(list)
        for row, value in zip(batch.rows.tolist(), columns[1 + self._column].tolist(), strict=True):
            wanted[value].append(row)
        for constant, slot, clause in self._rows:
            hit = np.zeros(len(batch.bits), np.bool_)
            hit[wanted[constant]] = True
            if clause < 0:
                batch.bits[~hit, slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))
            else:
                batch.satisfied[hit, clause >> 6] |= np.uint64(1) << np.uint64(clause & 63)
        return batch.bits

    def explain(self) -> str:
        return f"dictionary of column {self._column}"


def _equals_parameter(wanted: SlotPredicate) -> float | None:
    match wanted.condition:
        case Call(fn="eq", args=(Column(), Param())):
            return 1.0
    return None


def _make_dict(wanted: SlotPredicate, ctx: Context) -> DictIndex:
    assert isinstance(wanted.condition, Call)
    assert isinstance(wanted.condition.args[0], Column)
    return DictIndex(wanted.inputs[0], wanted.condition.args[0].index)


DICT: IndexKind[SlotPredicate, SlotIndex] = IndexKind(
    "dictionary",
    _equals_parameter,
    _make_dict,
    lambda wanted: (wanted.inputs, wanted.term and wanted.term.attribute),
)
QUERIES = (
    "SELECT k, a FROM r [RANGE 9] WHERE k = 1",
    "SELECT k, a FROM r [RANGE 9] WHERE k = 2 AND a > 3",
    "SELECT k FROM r [RANGE 9] WHERE k = 1 OR a = 4",
    "SELECT r.a, s.a AS b FROM r [RANGE 9], s [RANGE 9] WHERE r.k = s.k AND s.a = 2 AND r.k = 3",
)


def answers(drop: int) -> tuple[list[list[Any]], list[str]]:
    """The views of queries, before and after one is dropped, and their EXPLAIN."""
    ps = penstock.connect(runner="inprocess")
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    queries = [ps.query(text) for text in QUERIES]
    found = []
    for ts in range(2):
        for name in ("r", "s"):
            ps.push(name, [{"k": i % 5, "a": i % 6, "ts": ts} for i in range(60)])
        if ts:
            queries.pop(drop).drop()
        found += [sorted(map(str, q.view().to_pylist())) for q in queries]
    told = [query.explain() for query in queries]
    ps.close()
    return found, told


def test_a_new_kind_of_index_is_used_once_it_is_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, plain = answers(drop=1)
    assert all(rows for rows in expected)
    monkeypatch.setattr(factory, "SLOT_INDEXES", [*factory.SLOT_INDEXES, DICT])
    found, told = answers(drop=1)
    assert found == expected
    assert "dictionary of column 0" in told[0]
    assert "dictionary of column 1" in told[1]
    assert not any("dictionary" in text for text in plain)


# ---- an index over pairs -------------------------------------------------------------
class SumIndex(DictIndex):
    """Toy over two inputs: the sum of a column of each is the parameter."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.inputs = (0, 1)
        self.sums: list[int] = []

    def match(self, batch: SlotRows) -> U64:
        one, other = (batch.columns(alias, batch.rows, np.array([0]))[1] for alias in (0, 1))
        for row, total in zip(batch.rows, (one + other).tolist(), strict=True):
            self.sums.append(total)
            for constant, slot, _ in self._rows:
                if constant != total:
                    batch.bits[row, slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))
        return batch.bits


class EverythingStem:
    """Joins each row with all rows of alias 1."""

    alias, name = 1, "all of s"

    def ready(self, present: frozenset[int]) -> bool:
        return self.alias not in present

    def probe(self, batch: LineageBatch) -> LineageBatch:
        there = batch.entry.views[1].ts.shape[0]
        joined = batch.take(np.repeat(np.arange(len(batch)), there))
        joined.positions[1] = np.tile(np.arange(there), len(batch))
        return joined


@pytest.mark.parametrize("costly", [False, True])
def test_an_index_over_pairs_is_visited_when_both_rows_are_there(costly: bool) -> None:
    group = LineageGroup(2, new_context(), "fixed")
    windows: list[int | I64] = [10, 10]
    params = np.array([[0, 3], [0, 4]])
    slots = group.add(7, np.array([0, 1]), params, np.zeros(2, np.int64), windows, ())
    pairs = SumIndex()
    pairs.is_costly = costly
    predicate = SlotPredicate((0, 1), call("eq", K, P), None)
    pairs.add(QueryRows(slots, params, predicate))
    group.steps[5] = FilterStep(pairs, lambda *hidden: None)
    rows, zeros = np.array([[0, 1], [0, 2], [0, 3]]), np.zeros(3, np.int64)
    view = LogView(np.asfortranarray(rows), zeros, zeros, 0)
    limits = [np.full(3, 3)] * 2
    entry = Entrants(0, np.arange(3), zeros, limits, [0, 0], [view, view])
    stems = [EverythingStem(), EverythingStem()]
    (batch,) = group.route(entry, stems, group.mask)  # type: ignore[arg-type]
    found = [
        (int(rows[a, 1]), int(rows[b, 1]), int(bits[0]))
        for a, b, bits in zip(batch.positions[0], batch.positions[1], batch.bits, strict=True)
    ]
    assert sorted(found) == [(1, 2, 1), (1, 3, 2), (2, 1, 1), (2, 2, 2), (3, 1, 2)]
    assert len(pairs.sums) == 9


# ---- an index of a template from elsewhere -------------------------------------------
class ScanIndex(TemplateIndex):
    """Toy: all pairs are compared."""

    def match(self, batch: AttributeRows, method: object = None) -> Sets:
        table, n = self.table, batch.lin.shape[0]
        rows, qids, _ = match_queries(
            batch.lin, np.ones(n, np.int8), False, False, batch.values, self.preds,
            table.matrix(), self.queries(), table.since(Lineage.QUERY), table.cohort(),
        )  # fmt: skip
        return Sets.group(rows, qids, n)

    @staticmethod
    def pays(rows: int, queries: int) -> bool:
        return True

    def explain(self) -> str:
        return "all pairs"


def _scan_cost(wanted: TemplateQueries) -> float | None:
    plain = wanted.predicates.alternatives == ((),)
    return 1.0 if plain else None


def _make_scan(wanted: TemplateQueries, ctx: Context) -> ScanIndex:
    return ScanIndex(wanted.table, wanted.predicates.preds, wanted.by_cohort)


SCAN: IndexKind[TemplateQueries, TemplateQueryIndex] = IndexKind("scan", _scan_cost, _make_scan)


def test_a_template_gets_the_cheapest_index_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_policy, "MOST_IN_GROUPS", 0)
    monkeypatch.setattr(factory, "TEMPLATE_INDEXES", [*factory.TEMPLATE_INDEXES, SCAN])
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
    equal = ps.query_many("SELECT k FROM r [RANGE 9] WHERE k = $x", [{"x": i} for i in range(9)])
    listed = ps.query_many(
        "SELECT k FROM r [RANGE 9] WHERE k IN ($x, $x + 1)", [{"x": i} for i in range(9)]
    )
    ps.push("r", [{"k": i % 4, "ts": 1} for i in range(40)])
    assert "(all pairs)" in equal[0].explain()
    assert "(grouped filter" in listed[0].explain()
    assert [q.view().num_rows for q in equal] == [10] * 4 + [0] * 5
    assert [q.view().num_rows for q in listed] == [20, 20, 20, 10, *[0] * 5]
    ps.close()
