"""Split an aggregate without GROUP BY into partial ones, one per shard, and a final one.

Counts add up, sums of sums are sums, the least of minima is the minimum, and an average is a sum
over a count. What has no such form (DISTINCT, stddev, median) or no exact one (averages of
DECIMAL, whose partial sums overflow long before the average does) is not split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.logical.expr import Agg, Call, Column, Expr, Literal
from penstock.logical.nodes import GroupBy, Node, Project
from penstock.schema import MAX_COLUMNS
from penstock.types import BIGINT, DOUBLE, Kind

Final = Callable[[Node], Node]
"""The final plan over the rows of all partial aggregates: the schema is the original's."""


def split(node: GroupBy) -> tuple[GroupBy, Final] | None:
    """The partial aggregate over the same rows and what makes the final one of its results."""
    if node.keys or not all(_splits(agg) for agg in node.aggs):
        return None
    parts = _Parts()
    exprs = tuple(parts.value_of(agg) for agg in node.aggs)
    partial = _partial(node.input, list(parts.found))
    if partial is None:
        return None

    def finish(received: Node) -> Node:
        names = tuple(f.name for f in received.schema)
        merged = tuple(
            Agg(fn, Column(f.type, i, f.name), False, None, f.type)
            for i, (fn, f) in enumerate(zip(parts.found.values(), received.schema, strict=True))
        )
        return Project(GroupBy(received, (), merged, names), exprs, node.names)

    return partial, finish


def _splits(agg: Agg) -> bool:
    if agg.fn in ("min", "max"):
        return True
    if agg.distinct or agg.fn not in ("count", "sum", "avg"):
        return False
    return agg.fn != "avg" or agg.arg is None or agg.arg.type.kind is not Kind.DECIMAL


@dataclass(slots=True)
class _Parts:
    """The partial aggregates, each once, with the function that merges its results."""

    found: dict[Agg, str] = field(default_factory=dict)

    def value_of(self, agg: Agg) -> Expr:
        """The value of `agg` over the merged parts."""
        if agg.fn == "count":  # 0, not NULL, before the first partial row is there
            return Call(BIGINT, "coalesce", (self._part(agg, "sum"), Literal(BIGINT, 0)))
        if agg.fn != "avg":
            return self._part(agg, agg.fn)
        total = self._part(_total(agg), "sum")
        count = self._part(replace(agg, fn="count", type=BIGINT), "sum")
        return Call(DOUBLE, "div", (_double(total), _double(count)))

    def _part(self, agg: Agg, merge: str) -> Column:
        self.found.setdefault(agg, merge)
        at = list(self.found).index(agg)
        return Column(agg.type, at, _name(agg, at))


def _total(agg: Agg) -> Agg:
    """The sum below an average: of BIGINT in floating point, where it cannot overflow."""
    assert agg.arg is not None
    if agg.arg.type.kind is Kind.INT:
        return replace(agg, fn="sum", type=BIGINT)
    arg = _double(agg.arg) if agg.arg.type.is_integer else agg.arg
    return replace(agg, fn="sum", arg=arg, type=DOUBLE)


def _double(expr: Expr) -> Expr:
    return expr if expr.type.kind is Kind.DOUBLE else Call(DOUBLE, "cast", (expr,))


def _name(agg: Agg, at: int) -> str:
    return f"{agg.fn}_{at}"


def _partial(rows: Node, parts: list[Agg]) -> GroupBy | None:
    """`parts` over `rows`, None when they need too many columns.

    Operators take columns only, so computed arguments become columns below.
    """
    read = [e for part in parts for e in (part.arg, part.filter) if e is not None]
    if not all(isinstance(e, Column) for e in read):
        computed = list(dict.fromkeys(read))
        if len(computed) > MAX_COLUMNS:
            return None
        names = tuple(
            e.name if isinstance(e, Column) else f"_arg{i}" for i, e in enumerate(computed)
        )
        rows = Project(rows, tuple(computed), names)

        def moved(expr: Expr | None) -> Expr | None:
            if expr is None:
                return None
            at = computed.index(expr)
            return Column(expr.type, at, names[at])

        parts = [replace(p, arg=moved(p.arg), filter=moved(p.filter)) for p in parts]
    if len(parts) > MAX_COLUMNS:
        return None
    return GroupBy(rows, (), tuple(parts), tuple(_name(p, i) for i, p in enumerate(parts)))
