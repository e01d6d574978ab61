"""Splits an aggregate without GROUP BY into partial ones, one per shard, and a final one.

Counts and sums add up, the least of the minima is the minimum, and an average is a sum over a
count. Sums of doubles are sent in exact parts; for that, shards group the rows by the magnitude of
the values. Aggregates without such a form are not split (DISTINCT, stddev, median), nor are those
without an exact one: the partial sums of a DECIMAL average may overflow although the average does
not, and a partial sum that overflows may be NULL, which the final sum would not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from penstock.logical.expr import Agg, Call, Column, Expr, Literal
from penstock.logical.functions import SUM_OF_PARTS, SUM_PARTS
from penstock.logical.nodes import GroupBy, Node, Project
from penstock.schema import MAX_COLUMNS
from penstock.types import BIGINT, DOUBLE, Kind

Final = Callable[[Node], Node]
"""Builds the final plan over the rows of all partial aggregates; its schema is the original's."""


def split(node: GroupBy) -> tuple[GroupBy, Final] | None:
    """The partial aggregate over the same rows, and a function that builds the final one.

    before: γ avg(a) (s)
    after:  π total / n (γ sum(total), sum(n) (rows of all shards: γ sum(a), count(a) (s)))
    """
    if node.keys or not all(_splits(agg) for agg in node.aggs):
        return None
    parts = _Parts()
    exprs = tuple(parts.value_of(agg) for agg in node.aggs)
    partial = _partial(node, parts)
    if partial is None:
        return None

    def finish(received: Node) -> Node:
        merged, names = parts.merged(received), tuple(map(_name, parts.found, count()))
        return Project(GroupBy(received, (), merged, names), exprs, node.names)

    return partial, finish


def _splits(agg: Agg) -> bool:
    if agg.fn in ("min", "max"):
        return True
    if agg.distinct or agg.on_error != "fail" or agg.fn not in ("count", "sum", "avg"):
        return False
    return agg.fn != "avg" or agg.arg is None or agg.arg.type.kind is not Kind.DECIMAL


@dataclass(slots=True)
class _Parts:
    """The partial aggregates, without duplicates, and the functions that merge their results."""

    found: dict[Agg, str] = field(default_factory=dict)

    def value_of(self, agg: Agg) -> Expr:
        """The expression for `agg` over the merged parts."""
        if agg.fn == "count":  # 0, not NULL, before the first partial row arrives
            return Call(BIGINT, "coalesce", (self._part(agg, "sum"), Literal(BIGINT, 0)))
        if agg.fn != "avg":
            return self._part(agg, agg.fn)
        total = self._part(_total(agg), "sum")
        values = self._part(replace(agg, fn="count", type=BIGINT), "sum")
        return Call(DOUBLE, "div", (_double(total), _double(values)))

    def _part(self, agg: Agg, merge: str) -> Column:
        self.found.setdefault(agg, SUM_OF_PARTS if _is_exact(agg) else merge)
        at = list(self.found).index(agg)
        return Column(agg.type, at, _name(agg, at))

    @property
    def keys(self) -> list[Expr]:
        """The magnitudes of values that are added as doubles."""
        exact = [a.arg for a in self.found if _is_exact(a) and a.arg is not None]
        return list(dict.fromkeys(Call(BIGINT, "magnitude", (_double(arg),)) for arg in exact))

    def shown(self) -> Iterator[Agg]:
        """The columns that a shard sends."""
        for agg in self.found:
            if _is_exact(agg):
                types = (DOUBLE, DOUBLE, DOUBLE, BIGINT)
                pairs = zip(SUM_PARTS, types, strict=True)
                yield from (replace(agg, fn=fn, type=type_) for fn, type_ in pairs)
            else:
                yield agg

    def merged(self, received: Node) -> tuple[Agg, ...]:
        """The aggregates over the rows that shards send."""
        at, found = len(self.keys), []
        for fn in self.found.values():
            field_ = received.schema[at]
            found.append(Agg(fn, Column(field_.type, at, field_.name), False, None, field_.type))
            at += len(SUM_PARTS) if fn == SUM_OF_PARTS else 1
        return tuple(found)


def _is_exact(agg: Agg) -> bool:
    """Whether a part is an exact sum of doubles."""
    return agg.fn == "sum" and agg.type.is_float


def _total(agg: Agg) -> Agg:
    """The sum inside an average: of BIGINT in floating point, where it cannot overflow."""
    assert agg.arg is not None
    if agg.arg.type.kind is Kind.INT:
        return replace(agg, fn="sum", type=BIGINT)
    arg = _double(agg.arg) if agg.arg.type.is_integer else agg.arg
    return replace(agg, fn="sum", arg=arg, type=DOUBLE)


def _double(expr: Expr) -> Expr:
    return expr if expr.type.kind is Kind.DOUBLE else Call(DOUBLE, "cast", (expr,))


def _name(agg: Agg, at: int) -> str:
    return f"{agg.fn}_{at}"


def _partial(node: GroupBy, parts: _Parts) -> GroupBy | None:
    """Aggregate the input of `node` by `parts`; None if that needs too many columns.

    Operators read columns only, so computed arguments and keys become columns of a projection
    below.
    """
    rows, aggs, keys = node.input, list(parts.shown()), parts.keys
    read = [e for agg in aggs for e in (agg.arg, agg.filter) if e is not None] + keys
    computed = list(dict.fromkeys(read))
    if max(len(computed), len(keys) + len(aggs)) > MAX_COLUMNS:
        return None
    if not all(isinstance(e, Column) for e in read):
        names = tuple(
            e.name if isinstance(e, Column) else f"_arg{i}" for i, e in enumerate(computed)
        )
        rows = Project(rows, tuple(computed), names)

        def moved(expr: Expr | None) -> Expr | None:
            if expr is None:
                return None
            at = computed.index(expr)
            return Column(expr.type, at, names[at])

        aggs = [replace(a, arg=moved(a.arg), filter=moved(a.filter)) for a in aggs]
    places = tuple(computed.index(key) for key in keys)
    names = tuple(map(_name, aggs, count()))
    return GroupBy(rows, places, tuple(aggs), names, node.totals)
