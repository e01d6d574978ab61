"""Estimates the rate, size and distinct values of every plan edge from `Stats`.

The estimates assume independence, and guess unknown values (`optimizer/stats.py`). They are
meaningful only for comparing plans of one query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Now,
    Project,
    Range,
    Received,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    ViewScan,
    Window,
    Windowed,
)
from penstock.optimizer.rewrite import residual_parts
from penstock.optimizer.stats import (
    DEFAULT_DISTINCT,
    DEFAULT_RATE,
    DEFAULT_ROWS,
    DEFAULT_WINDOW_S,
    HORIZON_S,
    Stats,
)

BAND_SELECTIVITY = 0.1
_SELECTIVITY = {
    "ne": 0.9, "lt": 1 / 3, "le": 1 / 3, "gt": 1 / 3, "ge": 1 / 3,
    "is_null": 0.05, "is_not_null": 0.95, "like": 0.2, "ilike": 0.2,
}  # fmt: skip
_LEAST_SHARE = 0.05
_ESTIMATES: dict[type[Node], Callable[..., Estimate]] = {}


@dataclass(frozen=True, slots=True)
class Estimate:
    """An edge: rows per second, rows held at a time, distinct values per column."""

    rate: float
    size: float
    distinct: tuple[float, ...]

    def values(self, keys: tuple[int, ...]) -> float:
        """Distinct values of `keys` together, at most one per row."""
        return max(1.0, min(self.size, prod(self.distinct[k] for k in keys)))

    def per_key(self, keys: tuple[int, ...]) -> float:
        """The number of rows per value of `keys`."""
        return self.size / self.values(keys) if keys else self.size

    def scaled(self, share: float) -> Estimate:
        """The estimate for a `share` of the rows."""
        return _capped(self.rate * share, self.size * share, self.distinct)


def _capped(rate: float, size: float, distinct: tuple[float, ...]) -> Estimate:
    return Estimate(rate, size, tuple(max(1.0, min(d, size)) for d in distinct))


class Estimator:
    """Estimates the edges of one plan, each one once."""

    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self._done: dict[Node, Estimate] = {}

    def of(self, node: Node) -> Estimate:
        """The output edge of `node`."""
        if node not in self._done:
            self._done[node] = _ESTIMATES[type(node)](node, self)
        return self._done[node]

    def selectivity(self, predicate: Expr, rows: Estimate) -> float:
        """The share of `rows` for which `predicate` is true."""
        if predicate in self.stats.selectivity:
            return self.stats.selectivity[predicate]
        if not isinstance(predicate, Call):
            return 1.0 if isinstance(predicate, Literal) and predicate.value else 0.5
        parts = [self.selectivity(a, rows) for a in predicate.args]
        match predicate.fn:
            case "and":
                return prod(parts)
            case "or":
                return 1 - prod(1 - p for p in parts)
            case "not":
                return 1 - parts[0]
            case "eq":
                return 1 / max(_values_of(a, rows) for a in predicate.args)
            case "in":
                values = _values_of(predicate.args[0], rows)
                return min(1.0, (len(predicate.args) - 1) / values)
            case fn:
                return _SELECTIVITY.get(fn, 0.5)


# ---- the edges of each kind of node --------------------------------------------------
@case(_ESTIMATES, Scan)
def _scan(node: Scan, known: Estimator) -> Estimate:
    stream = known.stats.stream(node.stream)
    every = tuple(stream.distinct.get(n, DEFAULT_DISTINCT) for n in node.stream_schema.names)
    size = _held(node.window, stream.rate, stream.ticks_per_s, every)
    return _capped(stream.rate, size, tuple(every[c] for c in node.columns))


@case(_ESTIMATES, TableScan)
def _table(node: TableScan, known: Estimator) -> Estimate:
    table = known.stats.table(node.table)
    distinct = tuple(table.distinct.get(n, DEFAULT_DISTINCT) for n in node.schema.names)
    return _capped(table.rate, table.rows, distinct)


@case(_ESTIMATES, ViewScan, Received)
def _unmeasured(node: Node, _known: Estimator) -> Estimate:
    return _capped(DEFAULT_RATE, DEFAULT_ROWS, (DEFAULT_DISTINCT,) * len(node.schema))


@case(_ESTIMATES, Windowed)
def _windowed(node: Windowed, known: Estimator) -> Estimate:
    child = known.of(node.input)
    size = _held(node.window, child.rate, 1_000_000.0, child.distinct)
    return _capped(child.rate, size, child.distinct)


@case(_ESTIMATES, Filter)
def _filter(node: Filter, known: Estimator) -> Estimate:
    child = known.of(node.input)
    return child.scaled(known.selectivity(node.predicate, child))


@case(_ESTIMATES, Project)
def _project(node: Project, known: Estimator) -> Estimate:
    child = known.of(node.input)
    return _capped(child.rate, child.size, tuple(_values_of(e, child) for e in node.exprs))


@case(_ESTIMATES, Join)
def _join(node: Join, known: Estimator) -> Estimate:
    left, right = known.of(node.left), known.of(node.right)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        share = _match_share(left, right, node.equi)
        return left.scaled(share if node.kind is JoinKind.SEMI else _rest(share))
    both = Estimate(0.0, left.size * right.size, left.distinct + right.distinct)
    share = prod(1 / max(left.distinct[a], right.distinct[b]) for a, b in node.equi)
    share *= BAND_SELECTIVITY if node.band is not None else 1.0
    share *= prod(known.selectivity(p, both) for p in residual_parts(node))
    rate = (left.rate * right.size + right.rate * left.size) * share
    return _capped(rate, both.size * share, both.distinct)


@case(_ESTIMATES, GroupBy)
def _group_by(node: GroupBy, known: Estimator) -> Estimate:
    child = known.of(node.input)
    groups = child.values(node.keys) if node.keys else 1.0
    keys = tuple(child.distinct[k] for k in node.keys)
    return _capped(2 * child.rate, groups, keys + (groups,) * len(node.aggs))


@case(_ESTIMATES, Distinct)
def _distinct(node: Distinct, known: Estimator) -> Estimate:
    return _once_each(known.of(node.input))


@case(_ESTIMATES, SetOp)
def _set_op(node: SetOp, known: Estimator) -> Estimate:
    left, right = known.of(node.left), known.of(node.right)
    if node.kind is SetKind.UNION:
        pairs = zip(left.distinct, right.distinct, strict=True)
        either = tuple(max(a, b) for a, b in pairs)
        merged = _capped(left.rate + right.rate, left.size + right.size, either)
        return merged if node.all else _once_each(merged)
    share = _match_share(left, right, tuple((i, i) for i in range(len(left.distinct))))
    kept = left.scaled(share if node.kind is SetKind.INTERSECT else _rest(share))
    return kept if node.all else _once_each(kept)


complete(_ESTIMATES, subclasses(nodes, Node), "estimate")


# ---- parts ---------------------------------------------------------------------------
def _held(window: Window, rate: float, ticks_per_s: float, distinct: tuple[float, ...]) -> float:
    """The number of rows that a window holds."""
    match window:
        case Range():
            if isinstance(window.length, Param):
                return max(1.0, rate * DEFAULT_WINDOW_S)
            return max(1.0, rate * window.length / ticks_per_s)
        case Rows():
            return float(window.count) * prod(distinct[p] for p in window.partition)
        case Now():
            return 1.0
        case Unbounded():
            return max(1.0, rate * HORIZON_S)


def _values_of(expr: Expr, rows: Estimate) -> float:
    match expr:
        case Column():
            return rows.distinct[expr.index]
        case Literal() | Param():
            return 1.0
        case _:
            return max(1.0, min(rows.size, DEFAULT_DISTINCT))


def _once_each(rows: Estimate) -> Estimate:
    size = rows.values(tuple(range(len(rows.distinct))))
    return replace(rows, rate=rows.rate * min(1.0, 2 * size / max(1.0, rows.size)), size=size)


def _match_share(left: Estimate, right: Estimate, keys: tuple[tuple[int, int], ...]) -> float:
    """The share of left rows with a key among the right rows, if their values overlap fully."""
    mine, theirs = left.values(tuple(a for a, _ in keys)), right.values(tuple(b for _, b in keys))
    return min(1.0, theirs / mine)


def _rest(share: float) -> float:
    return max(_LEAST_SHARE, 1 - share)
