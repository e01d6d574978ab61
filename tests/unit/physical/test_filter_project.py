"""Filter, project and union: rows, pairs, failures and edges."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.errors import PlanError
from penstock.expressions.context import Context, Failures
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.logical.udf import Udf
from penstock.patterns.edge import Edge, Pattern
from penstock.patterns.edges import union_edge
from penstock.physical.filter import FilterOp, Params
from penstock.physical.operator import Operator
from penstock.physical.project import ProjectOp
from penstock.physical.specs import FilterSpec, ProjectSpec, Spec, UnionSpec
from penstock.physical.union import UnionOp
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, STRING

SCHEMA = Schema((Field("a", BIGINT), Field("b", BIGINT)))
EDGE = Edge(SCHEMA, Pattern.WK, Lineage.QUERY, expiring=False, negatives=True, keyed=True)
CLOCK = Clock(0, 100)
A, B = Column(BIGINT, 0, "a"), Column(BIGINT, 1, "b")
MAX = np.iinfo(np.int64).max


class Source(Operator):
    """Yields what it is told to."""

    def __init__(self, delta: Delta | None = None, edge: Edge = EDGE) -> None:
        super().__init__(Spec(edge=edge), (), Arena().scope("source"))
        self.delta = delta or Delta.empty(len(edge.schema))

    def contents(self, clock: Clock) -> Delta:
        return self.delta


def filtered(
    source: Source, predicate: Expr, ctx: Context, params: Params | None = None
) -> FilterOp:
    spec = FilterSpec.of(source.spec, predicate, params is not None)
    return FilterOp(spec, source, Arena().scope("f"), ctx, params)


@pytest.fixture
def ctx() -> Context:
    return Context(StringTable(Arena().scope("s")), {}, Failures())


def delta(rows: list[tuple[int, int, int, int, int]]) -> Delta:
    """Rows (ts, sign, lin, a, b)."""
    ts, sign, lin, a, b = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    matrix = np.stack([np.zeros_like(a), a, b])
    return Delta(matrix, ts, np.full(len(rows), NEVER), sign.astype(np.int8), lin)


def listed(d: Delta) -> list[tuple[int, ...]]:
    columns = [d.ts, d.sign, d.lin, *d.rows[1:]]
    return [tuple(int(v) for v in row) for row in zip(*columns, strict=True)]


def over(limit: int) -> Call:
    return Call(BOOLEAN, "gt", (A, Literal(BIGINT, limit)))


PAIRS = delta(
    [
        (1, 1, 7, 5, 0), (1, -2, 7, 5, 0), (1, 2, 7, 9, 0),  # both stay
        (2, -2, 7, 9, 0), (2, 2, 7, 1, 0),  # only the old one stays
        (3, -2, 8, 1, 0), (3, 2, 8, 9, 0),  # only the new one stays
        (4, -2, 8, 2, 0), (4, 2, 8, 3, 0),  # neither
        (5, -1, 8, 9, 0), (5, -2, 7, 6, 0), (5, 2, 7, 4, 1),
    ]
)  # fmt: skip


def test_filter_breaks_pairs_into_plain_rows(ctx: Context) -> None:
    op = filtered(Source(), over(4), ctx)
    assert op.edge is op.inputs[0].edge
    assert listed(op.step([PAIRS], CLOCK)) == [
        (1, 1, 7, 5, 0), (1, -2, 7, 5, 0), (1, 2, 7, 9, 0),
        (2, -1, 7, 9, 0),
        (3, 1, 8, 9, 0),
        (5, -1, 8, 9, 0), (5, -1, 7, 6, 0),
    ]  # fmt: skip
    assert op.spec.detail() == "(a > 4)"


@pytest.mark.parametrize("seed", range(5))
def test_filter_against_a_model(ctx: Context, seed: int) -> None:
    rng = random.Random(seed)
    rows: list[tuple[int, int, int, int, int]] = []
    want: list[tuple[int, ...]] = []
    for ts in range(200):
        lin = rng.randrange(3)
        group = [(ts, s, lin, rng.randrange(8), 0) for s in rng.choice([(1,), (-1,), (-2, 2)])]
        rows += group
        kept = [r for r in group if r[3] > 3]
        if len(kept) < len(group):
            kept = [(t, (s > 0) - (s < 0), q, a, b) for t, s, q, a, b in kept]
        want += kept
    op = filtered(Source(), over(3), ctx)
    assert listed(op.step([delta(rows)], CLOCK)) == want


def test_filter_keeps_everything_or_nothing(ctx: Context) -> None:
    everything = filtered(Source(), over(0), ctx).step([PAIRS], CLOCK)
    assert everything is PAIRS
    assert not len(filtered(Source(), over(99), ctx).step([PAIRS], CLOCK))
    nothing = Delta.empty(2)
    assert filtered(Source(), over(0), ctx).step([nothing], CLOCK) is nothing


def test_filter_with_parameters_per_query(ctx: Context) -> None:
    def params(lin: I64) -> I64:
        return np.stack([np.zeros_like(lin), np.where(lin == 7, 4, 8)])

    predicate = Call(BOOLEAN, "gt", (A, Param(BIGINT, 0, "low")))
    op = filtered(Source(PAIRS), predicate, ctx, params)
    got = listed(op.step([PAIRS], CLOCK))
    assert [(r[2], r[3]) for r in got] == [
        (7, 5), (7, 5), (7, 9), (7, 9), (8, 9), (8, 9), (7, 6),
    ]  # fmt: skip
    assert listed(op.contents(CLOCK)) == got


def test_filter_drops_and_reports_rows_that_fail(ctx: Context) -> None:
    rows = delta([(1, 1, 1, 3, 0), (2, -2, 2, 3, 0), (2, 2, 2, MAX, 0), (3, 1, 3, 4, 0)])
    grown = Call(BIGINT, "add", (A, Literal(BIGINT, 1)))
    predicate = Call(BOOLEAN, "gt", (grown, Literal(BIGINT, 0)))
    op = filtered(Source(), predicate, ctx)
    assert listed(op.step([rows], CLOCK)) == [(1, 1, 1, 3, 0), (2, -1, 2, 3, 0), (3, 1, 3, 4, 0)]
    ((level, lin, reason),) = ctx.failures.drain()
    assert (level, lin) == (Lineage.QUERY, 2)
    assert "overflow" in reason


def test_filter_where_all_rows_fail(ctx: Context) -> None:
    def broken(a: pa.Array) -> pa.Array:
        raise RuntimeError("out of order")

    ctx.udfs["broken"] = Udf("broken", broken, (BIGINT,), BOOLEAN)
    predicate = Call(BOOLEAN, "udf:broken", (A,))
    op = filtered(Source(), predicate, ctx)
    assert not len(op.step([PAIRS], CLOCK))
    assert [(lin, "out of order" in why) for _, lin, why in ctx.failures.drain()] == [
        (7, True), (8, True),
    ]  # fmt: skip


# ---- project ---------------------------------------------------------------------------
def project(ctx: Context, *exprs: Expr, source: Source | None = None) -> ProjectOp:
    schema = Schema(tuple(Field(f"c{i}", e.type) for i, e in enumerate(exprs)))
    source = source or Source()
    spec = ProjectSpec.of(source.spec, exprs, schema)
    return ProjectOp(spec, source, Arena().scope("p"), ctx)


def test_project_plain_columns(ctx: Context) -> None:
    op = project(ctx, B, A, A)
    assert op.edge == replace(EDGE, schema=op.edge.schema)
    rows = delta([(1, 1, 0, 5, 6), (2, -1, 0, 7, 0)])
    rows.rows[0, 1] = 0b10
    got = op.step([rows], CLOCK)
    assert got.rows.tolist() == [[0, 0b001], [6, 0], [5, 7], [5, 7]]
    assert len(op.step([Delta.empty(2)], CLOCK)) == 0
    assert op.step([Delta.empty(2)], CLOCK).width == 3


def test_project_computes(ctx: Context) -> None:
    text = Call(STRING, "cast", (A,))
    op = project(ctx, Call(BIGINT, "add", (A, B)), text, B, Literal(STRING, "k"))
    rows = delta([(1, 1, 0, 5, 6), (2, -1, 0, 7, 0)])
    rows.rows[0, 1] = 0b10
    got = op.step([rows], CLOCK)
    assert got.rows[0].tolist() == [0, 0b101]
    assert got.rows[1].tolist() == [11, 0]
    assert ctx.strings.decode(got.rows[2]).to_pylist() == ["5", "7"]
    assert ctx.strings.decode(got.rows[4]).to_pylist() == ["k", "k"]
    assert op.spec.detail() == "(a + b), CAST(a AS STRING), b, 'k'"


def test_project_drops_replacements_that_change_nothing(ctx: Context) -> None:
    rows = delta(
        [(1, -2, 0, 1, 5), (1, 2, 0, 2, 5), (1, -2, 0, 1, 5), (1, 2, 0, 1, 6), (2, 1, 0, 1, 1)]
    )
    assert listed(project(ctx, B).step([rows], CLOCK)) == [
        (1, -2, 0, 5), (1, 2, 0, 6), (2, 1, 0, 1),
    ]  # fmt: skip
    later = rows.with_(exp=np.array([10, 11, 10, 10, 10]))
    assert len(project(ctx, B).step([later], CLOCK)) == 5


def test_project_without_columns(ctx: Context) -> None:
    got = project(ctx).step([PAIRS], CLOCK)
    assert got.width == 0
    assert got.sign.tolist() == [1, -1]


def test_project_drops_and_reports_rows_that_fail(ctx: Context) -> None:
    rows = delta([(1, 1, 1, 3, 0), (2, -2, 2, 3, 0), (2, 2, 2, MAX, 0), (3, 1, 3, 4, MAX)])
    one = Literal(BIGINT, 1)
    op = project(ctx, Call(BIGINT, "add", (A, one)), Call(BIGINT, "add", (B, one)))
    assert listed(op.step([rows], CLOCK)) == [(1, 1, 1, 4, 1), (2, -1, 2, 4, 1)]
    assert [(level, lin) for level, lin, _ in ctx.failures.drain()] == [
        (Lineage.QUERY, 2), (Lineage.QUERY, 3),
    ]  # fmt: skip
    assert not len(op.step([delta([(1, 1, 1, MAX, 0)])], CLOCK))


def test_project_contents(ctx: Context) -> None:
    rows = delta([(1, 1, 0, 5, 6)])
    assert listed(project(ctx, B, source=Source(rows)).contents(CLOCK)) == [(1, 1, 0, 6)]


# ---- union -----------------------------------------------------------------------------
def test_union_merges_by_time_and_keeps_pairs() -> None:
    left = delta([(1, 1, 0, 1, 1), (2, -2, 0, 1, 1), (2, 2, 0, 2, 2), (5, 1, 0, 3, 3)])
    right = delta([(2, -2, 0, 8, 8), (2, 2, 0, 9, 9), (3, 1, 0, 7, 7)])
    sources = Source(left), Source(right)
    op = UnionOp(UnionSpec.of(*(s.spec for s in sources)), sources, Arena().scope("u"))
    got = op.step([left, right], CLOCK)
    assert [(r[0], r[1], r[3]) for r in listed(got)] == [
        (1, 1, 1), (2, -2, 1), (2, 2, 2), (2, -2, 8), (2, 2, 9), (3, 1, 7), (5, 1, 3),
    ]  # fmt: skip
    assert listed(op.contents(CLOCK)) == listed(got)
    assert op.step([left, Delta.empty(2)], CLOCK) is left
    assert len(op.step([Delta.empty(2), Delta.empty(2)], CLOCK)) == 0


def window(span: int | None, pattern: Pattern = Pattern.WKS) -> Edge:
    return Edge(
        SCHEMA, pattern, Lineage.EPOCH, expiring=True, negatives=False, fifo=True, span=span
    )


def test_union_edges() -> None:
    equal = union_edge(window(5), window(5))
    assert (equal.pattern, equal.fifo, equal.span) == (Pattern.WKS, True, 5)
    mixed = union_edge(window(5), window(6))
    assert (mixed.pattern, mixed.fifo, mixed.span) == (Pattern.WK, False, None)
    unknown = union_edge(window(None), window(None))
    assert not unknown.fifo
    endless = Edge(SCHEMA, Pattern.MON, Lineage.EPOCH, expiring=False, negatives=False)
    assert union_edge(endless, endless).pattern is Pattern.MON
    assert union_edge(endless, window(5)).pattern is Pattern.WK
    assert union_edge(endless, window(5)).expiring
    strict = replace(window(5), pattern=Pattern.STR, negatives=True, fifo=False)
    assert union_edge(strict, window(5)).pattern is Pattern.STR
    assert union_edge(window(5), strict).negatives
    assert union_edge(replace(window(5), keyed=True), window(5)).keyed
    with pytest.raises(PlanError):
        union_edge(window(5), EDGE)
