"""Short ways to write plans, and random plans with random contents, for the optimiser's tests."""

from __future__ import annotations

import random
from collections.abc import Callable

from evaluate_bags import Contents, Row

from penstock.logical.expr import Agg, Call, Column, Expr, Literal, Param
from penstock.logical.nodes import (
    Band,
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Now,
    Project,
    Range,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Window,
    Windowed,
)
from penstock.optimizer.stats import Stats, StreamStats, TableStats
from penstock.schema import Field, Schema
from penstock.types import BIGINT, BOOLEAN

COLUMNS = Schema(tuple(Field(n, BIGINT) for n in ("k", "a", "b")))
W10, W20 = Range(10), Range(20)
MIN = 60_000_000
NONE = Stats()


# ---- plans by hand -------------------------------------------------------------------
def scan(name: str = "r", window: Window = W10, columns: tuple[int, ...] = (0, 1, 2)) -> Scan:
    return Scan(name, COLUMNS, window, columns)


def table(name: str = "t", *, nrr: bool = False, columns: tuple[int, ...] = (0, 1, 2)) -> TableScan:
    return TableScan(name, COLUMNS, nrr, columns)


def nrr(name: str = "n") -> TableScan:
    return table(name, nrr=True)


def col(index: int, name: str = "") -> Column:
    return Column(BIGINT, index, name)


def lit(value: int) -> Literal:
    return Literal(BIGINT, value)


def cmp(fn: str, a: Expr, b: Expr) -> Call:
    return Call(BOOLEAN, fn, (a, b))


def both(*parts: Expr) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Call(BOOLEAN, "and", (result, part))
    return result


def add(a: Expr, b: Expr) -> Call:
    return Call(BIGINT, "add", (a, b))


def project(node: Node, *exprs: int | Expr) -> Project:
    """Columns by number keep their names, computed ones are called x0, x1, …"""
    schema = node.schema
    made = [Column(schema[e].type, e, schema[e].name) if isinstance(e, int) else e for e in exprs]
    names = [schema[e].name if isinstance(e, int) else f"x{i}" for i, e in enumerate(exprs)]
    return Project(node, tuple(made), tuple(names))


def join(
    left: Node,
    right: Node,
    kind: JoinKind = JoinKind.INNER,
    on: tuple[tuple[int, int], ...] = ((0, 0),),
    band: Band | None = None,
    residual: Expr | None = None,
) -> Join:
    return Join(left, right, kind, on, band, residual)


def anti(left: Node, right: Node, on: tuple[tuple[int, int], ...] = ((0, 0),)) -> Join:
    return join(left, right, JoinKind.ANTI, on)


def union_all(left: Node, right: Node) -> SetOp:
    return SetOp(left, right, SetKind.UNION, all=True)


def count_by(node: Node, *keys: int) -> GroupBy:
    return GroupBy(node, keys, (Agg("count", None, False, None, BIGINT),), ("n",))


# ---- plans by chance -----------------------------------------------------------------
STREAMS = ("r", "s", "u")
WINDOWS: tuple[Window, ...] = (W10, W20, Rows(3), Rows(1, (0,)), Now(), Unbounded(explicit=True))
MOST_COLUMNS = 5


class PlanMaker:
    """Random plans that pass the plan check."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def plan(self, depth: int) -> Node:
        if depth == 0:
            return self.leaf()
        makers: list[Callable[[int], Node]] = [
            self.filter, self.project, self.join, self.join, self.exists, self.exists, self.outer,
            self.nrr_join, self.group_by, self.distinct, self.set_op, self.windowed, self.leaf_at,
            self.table_join, self.chain,
        ]  # fmt: skip
        return self.slim(self.rng.choice(makers)(depth - 1))

    def leaf(self) -> Node:
        if self.rng.random() < 0.15:
            return table("t")
        return scan(self.rng.choice(STREAMS), self.rng.choice(WINDOWS))

    def leaf_at(self, _depth: int) -> Node:
        return self.leaf()

    def slim(self, node: Node) -> Node:
        columns = list(range(len(node.schema)))
        if len(columns) <= MOST_COLUMNS:
            return node
        return project(node, *self.rng.sample(columns, self.rng.randint(2, MOST_COLUMNS)))

    def column(self, node: Node) -> int:
        return self.rng.randrange(len(node.schema))

    def term(self, width: int) -> Expr:
        return self.rng.choice(
            [col(self.rng.randrange(width)), lit(self.rng.randint(0, 2)), Param(BIGINT, 0, "p")]
        )

    def predicate(self, width: int) -> Expr:
        chance = self.rng.random()
        if chance < 0.35:
            return both(self.predicate(width), self.predicate(width))
        if chance < 0.45:
            return cmp("or", self.predicate(width), self.predicate(width))
        if chance < 0.55:
            return Call(BOOLEAN, "is_null", (col(self.rng.randrange(width)),))
        fn = self.rng.choice(["eq", "eq", "ne", "lt", "ge"])
        return cmp(fn, col(self.rng.randrange(width)), self.term(width))

    def filter(self, depth: int) -> Node:
        source = self.plan(depth)
        return Filter(source, self.predicate(len(source.schema)))

    def project(self, depth: int) -> Node:
        source = self.plan(depth)
        width = len(source.schema)
        exprs: list[int | Expr] = []
        for _ in range(self.rng.randint(1, 4)):
            fn = self.rng.choice(["column", "column", "add", "udf:f"])
            pair = (col(self.rng.randrange(width)), self.term(width))
            exprs.append(pair[0].index if fn == "column" else Call(BIGINT, fn, pair))
        return project(source, *exprs)

    def on(self, left: Node, right: Node) -> tuple[tuple[int, int], ...]:
        pairs = {
            (self.column(left), self.column(right)) for _ in range(self.rng.choice([0, 1, 1, 2]))
        }
        return tuple(sorted(pairs))

    def condition(self, left: Node, right: Node, kind: JoinKind) -> Join:
        band = residual = None
        if self.rng.random() < 0.2:
            band = Band(self.column(left), self.column(right), -1, self.rng.choice([None, 0, 1]))
        if self.rng.random() < 0.4:
            residual = self.predicate(len(left.schema) + len(right.schema))
        return Join(left, right, kind, self.on(left, right), band, residual)

    def join(self, depth: int) -> Node:
        return self.condition(self.plan(depth), self.plan(depth), JoinKind.INNER)

    def table_join(self, depth: int) -> Node:
        source = self.rng.choice([self.plan, self.exists])(depth)
        sides = (source, table()) if self.rng.random() < 0.7 else (table(), source)
        return join(*sides, on=self.on(*sides))

    def chain(self, _depth: int) -> Node:
        """Several streams joined in a row, with small rows."""
        tree: Node = project(self.leaf(), 0, 1)
        for _ in range(self.rng.randint(2, 3)):
            leaf = project(self.leaf(), 0, 1)
            sides = (tree, leaf) if self.rng.random() < 0.7 else (leaf, tree)
            residual = self.predicate(len(tree.schema) + 2) if self.rng.random() < 0.3 else None
            tree = join(*sides, on=self.on(*sides), residual=residual)
        return tree

    def exists(self, depth: int) -> Node:
        kind = self.rng.choice([JoinKind.SEMI, JoinKind.ANTI, JoinKind.ANTI])
        left, right = self.plan(depth), self.plan(depth)
        if self.rng.random() < 0.6:
            return join(left, right, kind, self.on(left, right))
        return self.condition(left, right, kind)

    def outer(self, depth: int) -> Node:
        kind = self.rng.choice([JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL])
        return self.condition(self.plan(depth), self.plan(depth), kind)

    def nrr_join(self, depth: int) -> Node:
        other: Node = nrr()
        if self.rng.random() < 0.3:
            other = Filter(other, self.predicate(3))
        if self.rng.random() < 0.3:
            other = project(other, 1, add(col(0), lit(1)), 0)
        source = self.plan(depth)
        sides = (source, other) if self.rng.random() < 0.7 else (other, source)
        residual = self.predicate(len(source.schema) + 3) if self.rng.random() < 0.3 else None
        return join(*sides, on=self.on(*sides), residual=residual)

    def group_by(self, depth: int) -> Node:
        source = self.plan(depth)
        width = len(source.schema)
        keys = tuple(self.rng.sample(range(width), self.rng.randint(0, min(2, width))))
        condition = self.predicate(width) if self.rng.random() < 0.3 else None
        aggs = (
            Agg("count", None, False, None, BIGINT),
            Agg("sum", col(self.column(source)), False, condition, BIGINT),
            Agg("max", add(col(self.column(source)), lit(1)), False, None, BIGINT),
        )
        return GroupBy(source, keys, aggs, ("n", "s", "m"))

    def distinct(self, depth: int) -> Node:
        return Distinct(self.plan(depth))

    def set_op(self, depth: int) -> Node:
        left, right = self.plan(depth), self.plan(depth)
        width = min(len(left.schema), len(right.schema))
        sides = [project(s, *range(width)) for s in (left, right)]
        return SetOp(*sides, self.rng.choice(list(SetKind)), self.rng.random() < 0.5)

    def windowed(self, _depth: int) -> Node:
        """A window over a stateless subplan of a stream."""
        source: Node = scan(self.rng.choice(STREAMS), Unbounded())
        if self.rng.random() < 0.5:
            source = Filter(source, self.predicate(3))
        if self.rng.random() < 0.5:
            source = project(source, 2, add(col(0), col(1)), 0)
        if self.rng.random() < 0.3:
            source = join(source, nrr())
        return Windowed(source, self.rng.choice([W10, Rows(2), Rows(1, (0,))]))

    # ---- contents and statistics ----
    def rows(self, most: int) -> list[Row]:
        values = [None, 0, 1, 2, 3]
        count = self.rng.randint(0, most)
        return [tuple(self.rng.choice(values) for _ in range(3)) for _ in range(count)]

    def contents(self) -> Contents:
        windows = (*WINDOWS, Unbounded())
        streams = {(s, w): self.rows(5) for s in STREAMS for w in windows}
        return {**streams, ("t", None): self.rows(4), ("n", None): self.rows(4)}

    def stats(self) -> Stats:
        if self.rng.random() < 0.4:
            return Stats()
        streams = {
            s: StreamStats(10 ** self.rng.uniform(0, 4), {"k": 10 ** self.rng.uniform(0, 3)})
            for s in STREAMS
        }
        return Stats(streams, {"t": TableStats(50), "n": TableStats(10)})
