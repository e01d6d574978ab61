"""Partial and final aggregates give what one aggregate over all rows gives, by real operators."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Delta, Lineage, merge
from penstock.expressions.context import Context, Failures
from penstock.logical.expr import Agg, Column
from penstock.logical.nodes import GroupBy, Node, Project, Range, Received, Scan
from penstock.optimizer.split_aggregate import split
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.group_by import GroupByOp
from penstock.physical.keyed_specs import GroupBySpec
from penstock.physical.operator import Operator
from penstock.physical.project import ProjectOp
from penstock.physical.specs import ProjectSpec, Spec
from penstock.schema import MAX_COLUMNS, Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, STRING, SqlType, decimal

MONEY = decimal(10, 2)
ROWS = Schema(
    (
        Field("i", INT), Field("b", BIGINT), Field("f", FLOAT), Field("x", DOUBLE),
        Field("d", MONEY), Field("s", STRING), Field("ok", BOOLEAN),
    )
)  # fmt: skip
N, B, F, X, D, S, OK = (Column(f.type, i, f.name) for i, f in enumerate(ROWS))
SCAN = Scan("r", ROWS, Range(10), tuple(range(len(ROWS))))
LINEAGE = 3


def agg(fn: str, arg: Column | None = None, *, where: bool = False, distinct: bool = False) -> Agg:
    """An aggregate with the type that the binder gives it."""
    if fn == "count":
        type_ = BIGINT
    elif fn in ("min", "max"):
        assert arg is not None
        type_ = arg.type
    elif fn == "sum" and arg is not None and not arg.type.is_float:
        type_ = decimal(18, 2) if arg is D else BIGINT
    else:
        type_ = DOUBLE
    return Agg(fn, arg, distinct, OK if where else None, type_)


SPLIT = (
    agg("count"), agg("count", where=True), agg("count", S), agg("count", X, where=True),
    agg("sum", N), agg("sum", B), agg("sum", F), agg("sum", X, where=True), agg("sum", D),
    agg("avg", N), agg("avg", B), agg("avg", F), agg("avg", X), agg("avg", B, where=True),
    agg("min", N), agg("max", B), agg("min", F), agg("max", X), agg("min", D), agg("max", S),
    agg("min", S, where=True), agg("max", OK),
)  # fmt: skip
WHOLE = (
    agg("avg", D), agg("stddev", X), agg("median", N), agg("count", S, distinct=True),
    agg("sum", N, distinct=True), agg("avg", X, distinct=True),
)  # fmt: skip


def grouped(*aggs: Agg) -> GroupBy:
    return GroupBy(SCAN, (), aggs, tuple(f"c{i}" for i in range(len(aggs))))


def both(node: GroupBy) -> tuple[GroupBy, Node]:
    parts = split(node)
    assert parts is not None
    partial, finish = parts
    return partial, finish(Received(0, partial.schema))


# ---- running -------------------------------------------------------------------------
class Shard:
    """The operators of a plan above its leaf, stepped together."""

    def __init__(self, plan: Node, edge: Edge, strings: StringTable) -> None:
        self.arena = Arena()
        self.failures = Failures()
        self.operators: list[Operator] = []
        ctx = Context(strings, {}, self.failures)
        source = Operator(Spec(edge=edge), (), self.arena.scope("in"))
        for i, node in enumerate(reversed(chain(plan))):
            scope = self.arena.scope(str(i))
            if isinstance(node, Project):
                spec = ProjectSpec.of(source.spec, node.exprs, node.schema)
                source = ProjectOp(spec, source, scope, ctx)
            else:
                assert isinstance(node, GroupBy)
                lineages = lambda: np.array([LINEAGE])  # noqa: E731
                grouped_by = GroupBySpec.of(source.spec, node.keys, node.aggs, node.schema)
                grouped_by = decide(grouped_by)
                source = GroupByOp(grouped_by, source, scope, ctx, lineages)
            self.operators.append(source)
        self.top = source

    def step(self, delta: Delta, clock: Clock) -> Delta:
        for operator in self.operators:
            delta = operator.step([delta], clock)
        assert not self.failures.drain()
        return delta


def chain(plan: Node) -> list[Node]:
    return [plan, *chain(plan.inputs[0])] if plan.inputs else []


def words(values: list[tuple[Any, ...]], strings: StringTable) -> np.ndarray[Any, Any]:
    rows = np.zeros((1 + len(ROWS), len(values)), np.int64)
    for i, row in enumerate(values):
        for c, value in enumerate(row):
            type_ = ROWS[c].type
            rows[0, i] |= int(value is None) << c
            if value is not None:
                rows[1 + c, i] = word(value, type_, strings)
    return rows


def word(value: Any, type_: SqlType, strings: StringTable) -> int:
    if type_.is_string:
        return strings.code(value)
    return int(np.float64(value).view(np.int64)) if type_.is_float else int(value)


def delta_of(events: list[tuple[int, tuple[Any, ...]]], ts: int, strings: StringTable) -> Delta:
    n = len(events)
    rows = words([row for _, row in events], strings)
    signs = np.array([sign for sign, _ in events], np.int8)
    return Delta(rows, np.full(n, ts), np.full(n, NEVER), signs, np.full(n, LINEAGE))


def read(delta: Delta, schema: Schema) -> list[Any]:
    """The only row that is left of the changes of a step."""
    left = [i for i in range(len(delta)) if delta.sign[i] > 0]
    i = left[-1]
    values: list[Any] = []
    for c, type_ in enumerate(schema.types):
        bits = delta.rows[1 + c, i]
        value = float(bits.view(np.float64)) if type_.is_float else int(bits)
        values.append(None if (delta.rows[0, i] >> c) & 1 else value)
    return values


DOUBLES = (0.1, 1e6, -2.5, 1e32, 1e-300, 1.7e308, -1.7e308, math.inf, math.nan)


def random_row(rng: random.Random) -> tuple[Any, ...]:
    row = (
        rng.randrange(-5, 6), rng.choice((1, -7, 1 << 40, -(1 << 40))),
        rng.choice((0.5, -1.25, 3.0)), rng.choice(DOUBLES),
        rng.randrange(-999, 999), rng.choice(("a", "b", "")), rng.random() < 0.5,
    )  # fmt: skip
    return tuple(None if rng.random() < 0.15 else value for value in row)


def test_the_parts_together_are_the_whole() -> None:
    """Three shards whose rows come and go; the second level adds up what they say."""
    whole = grouped(*SPLIT)
    partial, final = both(whole)
    rng = random.Random(7)
    for _ in range(8):
        strings = StringTable(Arena().scope("strings"))
        leaf = Edge(ROWS, Pattern.STR, Lineage.COHORT, expiring=False, negatives=True)
        alone = Shard(whole, leaf, strings)
        shards = [Shard(partial, leaf, strings) for _ in range(3)]
        home = Shard(final, shards[0].top.edge, strings)
        held: list[list[tuple[Any, ...]]] = [[] for _ in shards]
        shown: tuple[list[Any], list[Any]] = ([], [])
        for ts in range(12):
            clock = Clock(BEGINNING if ts == 0 else ts - 1, ts)
            events = [changes(rng, rows, ts) for rows in held]
            flat = delta_of([e for part in events for e in part], ts, strings)
            deltas = [delta_of(part, ts, strings) for part in events]
            sent = [s.step(d, clock) for s, d in zip(shards, deltas, strict=True)]
            received = merge(sent, len(partial.schema))
            outputs = alone.step(flat, clock), home.step(received, clock)
            for last, output in zip(shown, outputs, strict=True):
                if len(output):
                    last[:] = read(output, whole.schema)
            for found, expected in zip(shown[1], shown[0], strict=True):
                assert same(found, expected)


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    return bool(found == expected)


def changes(
    rng: random.Random, held: list[tuple[Any, ...]], ts: int
) -> list[tuple[int, tuple[Any, ...]]]:
    """Some rows go, some come; nothing comes at first, and all goes in the end."""
    gone = held[:] if ts == 11 else rng.sample(held, rng.randint(0, len(held)))
    for row in gone:
        held.remove(row)
    new = [] if ts in (0, 11) else [random_row(rng) for _ in range(rng.randint(0, 4))]
    held += new
    return [(-1, row) for row in gone] + [(1, row) for row in new]


# ---- what is made --------------------------------------------------------------------
@pytest.mark.parametrize("one", SPLIT, ids=str)
def test_the_schema_stays(one: Agg) -> None:
    node = grouped(one)
    partial, final = both(node)
    assert final.schema == node.schema
    doubles = (one.fn in ("sum", "avg") and one.arg in (F, X)) or (one.fn, one.arg) == ("avg", B)
    assert len(partial.keys) == int(doubles)  # the magnitude
    inner = final.inputs[0]
    assert isinstance(inner, GroupBy)
    assert inner.inputs[0].schema == partial.schema
    for column in (a.arg for a in (*partial.aggs, *inner.aggs) if a.arg is not None):
        assert isinstance(column, Column)


@pytest.mark.parametrize("one", WHOLE, ids=str)
def test_what_cannot_be_put_together_stays_whole(one: Agg) -> None:
    assert split(grouped(one)) is None
    assert split(grouped(agg("count"), one)) is None


def test_groups_are_not_split() -> None:
    assert split(GroupBy(SCAN, (0,), (agg("count"),), ("n",))) is None


def test_a_part_that_two_aggregates_need_is_kept_once() -> None:
    partial, _ = both(grouped(agg("avg", X), agg("sum", X), agg("count", X), agg("avg", N)))
    parts = ["sum_high(x)", "sum_middle(x)", "sum_low(x)", "sum_shift(x)"]
    assert [str(a) for a in partial.aggs] == [*parts, "count(x)", "sum(i)", "count(i)"]


def test_an_average_of_big_integers_does_not_overflow() -> None:
    huge = (1 << 63) - 1
    node = grouped(agg("avg", B))
    partial, final = both(node)
    strings = StringTable(Arena().scope("strings"))
    leaf = Edge(ROWS, Pattern.MON, Lineage.COHORT, expiring=False, negatives=False)
    shard = Shard(partial, leaf, strings)
    row = (None, huge, None, None, None, None, None)
    clock = Clock(BEGINNING, 1)
    sent = shard.step(delta_of([(1, row)] * 5, 1, strings), clock)
    output = Shard(final, shard.top.edge, strings).step(sent, clock)
    assert read(output, node.schema) == [float(huge)]


def test_too_many_parts_are_not_split() -> None:
    schema = Schema(tuple(Field(f"x{i}", DOUBLE) for i in range(MAX_COLUMNS)))
    scan = Scan("r", schema, Range(10), tuple(range(MAX_COLUMNS)))
    aggs = tuple(Agg("avg", Column(DOUBLE, i), False, None, DOUBLE) for i in range(MAX_COLUMNS))
    names = tuple(f"c{i}" for i in range(MAX_COLUMNS))
    assert split(GroupBy(scan, (), aggs, names)) is None
    most = MAX_COLUMNS // 6  # a magnitude, four parts and a count
    assert split(GroupBy(scan, (), aggs[: most + 1], names[: most + 1])) is None
    assert split(GroupBy(scan, (), aggs[:most], names[:most])) is not None


def test_text_keeps_its_order() -> None:
    """Least and greatest strings are compared by text in both parts."""
    partial, final = both(grouped(agg("min", S), agg("max", S)))
    strings = StringTable(Arena().scope("strings"))
    leaf = Edge(ROWS, Pattern.MON, Lineage.COHORT, expiring=False, negatives=False)
    shards = [Shard(partial, leaf, strings) for _ in range(2)]
    clock = Clock(BEGINNING, 1)
    rows = [[(1, (None,) * 5 + (text, None)) for text in part] for part in (("c", "a"), ("b", "d"))]
    sent = [s.step(delta_of(part, 1, strings), clock) for s, part in zip(shards, rows, strict=True)]
    output = Shard(final, shards[0].top.edge, strings).step(merge(sent, 2), clock)
    assert [strings.text(code) for code in read(output, final.schema)] == ["a", "d"]
