"""Relation nodes of the logical plan: frozen, checked when built, schema derived.

A plan is a DAG: equal nodes are the same node (dataclass equality), so a subplan used twice
is evaluated once.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from penstock.errors import PlanError
from penstock.frozen import Hashed, derived, frozen, record
from penstock.logical.expr import Agg, Expr, Param, Written
from penstock.schema import Field, Schema

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1  # of BIGINT


# ---- windows -------------------------------------------------------------------------
@record
class Range:
    """[RANGE length SLIDE slide], in µs if `micros`, else in plain units; slide 0 means none.

    If the length is a parameter, each query has its own; every row of Q has a positive one.
    """

    length: int | Param
    slide: int = 0
    micros: bool = False
    at: Written | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.length, Param):
            if self.slide:
                raise PlanError(
                    "a window with a parameter as its length cannot have a SLIDE",
                    code="PS-PLAN-002",
                )
        elif self.length <= 0 or self.slide < 0 or self.slide > self.length:
            raise PlanError(
                "a RANGE window needs a positive length and a SLIDE of at most that length",
                code="PS-PLAN-002",
                remedy="write [RANGE 10 SLIDE 5], or [NOW] for rows of this instant",
            )


@record
class Rows:
    """[ROWS count] or [PARTITION BY columns ROWS count]."""

    count: int
    partition: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.count <= 0:
            raise PlanError(
                "a ROWS window needs a positive count",
                code="PS-PLAN-002",
                remedy="write [ROWS 1] or more",
            )


@record
class Now:
    """[NOW]: rows of the current instant."""


@record
class Unbounded:
    """[UNBOUNDED], or no window at all (`explicit` False)."""

    explicit: bool = False


Window = Range | Rows | Now | Unbounded


# ---- relations -----------------------------------------------------------------------
class Derived(Hashed):
    """Base with slots for the properties that a node computes once."""

    __slots__ = ("_schema",)


@frozen
class Node(Derived):
    """Base of all relation nodes; `schema` is what it yields."""

    @derived
    def schema(self) -> Schema:
        """The output columns."""
        raise PlanError(f"{type(self).__name__} has no schema")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Child relations, left to right."""
        return ()

    def with_inputs(self, *inputs: Node) -> Node:
        """The same node over other inputs."""
        if len(inputs) != len(self.inputs):
            raise PlanError(f"{type(self).__name__} over {len(inputs)} inputs")
        left = iter(inputs)
        return type(self)(*[next(left) if isinstance(v, Node) else v for v in values_of(self)])


@frozen
class Scan(Node):
    """A window over a stream. `columns` are the positions of the stream's columns it yields."""

    stream: str
    stream_schema: Schema
    window: Window
    columns: tuple[int, ...]

    @derived
    def schema(self) -> Schema:
        """The chosen columns of the stream."""
        return self.stream_schema.select(self.columns)


@frozen
class TableScan(Node):
    """The contents of a table; an NRR (`nonretroactive`) may only be the right input of a join."""

    table: str
    table_schema: Schema
    nonretroactive: bool
    columns: tuple[int, ...]

    @derived
    def schema(self) -> Schema:
        """The chosen columns of the table."""
        return self.table_schema.select(self.columns)


@frozen
class ViewScan(Node):
    """The answer of a registered view, and its changes: query `qid` of a template.

    `streams` and `tables` are those that the view reads.
    """

    view: str
    view_schema: Schema
    template: int
    qid: int
    streams: tuple[str, ...]
    tables: tuple[str, ...]

    @derived
    def schema(self) -> Schema:
        """The columns of the view."""
        return self.view_schema


@frozen
class Filter(Node):
    """Rows of `input` for which `predicate` is true."""

    input: Node
    predicate: Expr

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @derived
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@frozen
class Project(Node):
    """Computed columns."""

    input: Node
    exprs: tuple[Expr, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.exprs) != len(self.names):
            raise PlanError("a projection needs a name for every expression")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @derived
    def schema(self) -> Schema:
        """One column per expression."""
        pairs = zip(self.names, self.exprs, strict=True)
        return Schema(tuple(Field(n, e.type) for n, e in pairs))


class JoinKind(enum.Enum):
    """The kinds of joins; LEFT, RIGHT and FULL are lowered to INNER and ANTI before planning."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@record
class Band:
    """low ≤ right[right_column] − left[left_column] ≤ high (None: open), same numeric/time type.

    Bounds are in physical units of the columns' type (floats for FLOAT and DOUBLE). `written` says
    where in the text each is written, if it is one number there.
    """

    left_column: int
    right_column: int
    low: int | float | None
    high: int | float | None
    written: tuple[Written | None, Written | None] = field(
        default=(None, None), compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if any(isinstance(b, int) and not _LEAST <= b <= _MOST for b in (self.low, self.high)):
            raise PlanError(
                "a bound of the join's band is outside BIGINT",
                code="PS-TYPE-006",
                remedy="write a bound that fits a BIGINT",
            )


@frozen
class Join(Node):
    """Join on column equality (`equi`: left index, right index), a band, and any residual.

    `residual` reads left columns, then right columns. SEMI and ANTI yield left columns only.
    """

    left: Node
    right: Node
    kind: JoinKind
    equi: tuple[tuple[int, int], ...]
    band: Band | None = None
    residual: Expr | None = None
    null_safe: bool = False  # equi columns match NULL with NULL (whole-row SEMI and ANTI)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Two."""
        return self.left, self.right

    @derived
    def schema(self) -> Schema:
        """Left then right columns; left only for SEMI and ANTI."""
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.schema
        return self.left.schema + self.right.schema


@frozen
class GroupBy(Node):
    """Aggregates per value of the `keys` columns; without keys, one row always.

    With `totals`, counts and sums of a join's pairs may be computed without forming the pairs.
    """

    input: Node
    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    names: tuple[str, ...]  # of the aggregates
    totals: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @derived
    def schema(self) -> Schema:
        """Key columns, then aggregates."""
        keys = tuple(self.input.schema[k] for k in self.keys)
        pairs = zip(self.names, self.aggs, strict=True)
        return Schema(keys + tuple(Field(n, a.type) for n, a in pairs))


@frozen
class Distinct(Node):
    """Each distinct row once."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @derived
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


class SetKind(enum.Enum):
    """Set operations."""

    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@frozen
class SetOp(Node):
    """UNION, INTERSECT or EXCEPT; `all` keeps multiplicities. Both sides have equal types."""

    left: Node
    right: Node
    kind: SetKind
    all: bool

    def __post_init__(self) -> None:
        if self.left.schema.types != self.right.schema.types:
            raise PlanError(f"the two sides of {self.kind.value.upper()} have different columns")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Two."""
        return self.left, self.right

    @derived
    def schema(self) -> Schema:
        """The left side's columns."""
        return self.left.schema


@frozen
class Windowed(Node):
    """A window over a MON subplan (a subquery or view without state)."""

    input: Node
    window: Window

    @property
    def inputs(self) -> tuple[Node, ...]:
        """One."""
        return (self.input,)

    @derived
    def schema(self) -> Schema:
        """Unchanged."""
        return self.input.schema


@frozen
class Received(Node):
    """Rows that level 1 sends to level 2 on a channel of the template."""

    channel: int
    rows: Schema

    @derived
    def schema(self) -> Schema:
        """The rows sent."""
        return self.rows


def values_of(node: Node) -> list[Any]:
    """The values of a node's fields, in the order of its constructor."""
    fields: tuple[str, ...] = node.__match_args__
    return [getattr(node, name) for name in fields]


def exprs_of(node: Node) -> Iterator[Expr]:
    """The expressions of a node itself."""
    for value in values_of(node):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Agg):
                yield from (e for e in (part.arg, part.filter) if e is not None)
            elif isinstance(part, Expr):
                yield part


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first, shared nodes once per use."""
    todo = [node]
    while todo:
        top = todo.pop()
        yield top
        todo += top.inputs[::-1]
