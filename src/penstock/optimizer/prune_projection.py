"""Removes columns that no operator reads from scans, tables, joins and aggregates.

The first pass collects the needed columns of every node over all its uses, so that a subplan used
twice stays one subplan; the second pass builds the narrowed plan. DISTINCT, INTERSECT and EXCEPT
compare whole rows and need all columns. A time column is needed only if an expression reads it: the
time of a row is stored beside its columns. Every row keeps at least one column.

Rows that flow into a join with a non-retroactive table keep all columns if they can be replaced or
retracted: there a change in an unread column is a new arrival, which joins the table again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.expr import Agg, columns_of, remap
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Received,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    ViewScan,
    Windowed,
    walk,
)
from penstock.optimizer.rewrite import condition_columns, over, rebase_join, select, width
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import is_nrr, nrr_stream_side, pattern_of

Columns = frozenset[int]
Kept = tuple[int, ...]
"""The old columns that a narrowed node yields, in order."""
_KEYED: dict[type[Node], Callable[..., bool]] = {}
_READS: dict[type[Node], Callable[..., tuple[Columns, ...]]] = {}
_NARROW: dict[type[Node], Callable[..., tuple[Node, Kept]]] = {}


def prune_projection(node: Node, stats: Stats) -> Node:
    """Narrow every part of the plan to the columns that are read.

    before: π a (σ k = 1 (scan s (k, a, b, c)))
    after:  π a (σ k = 1 (scan s (k, a)))
    """
    needs: dict[Node, Columns] = {}
    whole = _whole(node)
    _require(node, frozenset(range(width(node))), needs, whole)
    plan, kept = _Narrowing(needs, whole).of(node)
    return select(plan, [kept.index(i) for i in range(width(node))])


# ---- which columns are needed --------------------------------------------------------
def _whole(plan: Node) -> frozenset[Node]:
    """Nodes below joins with non-retroactive tables that must keep all columns."""
    joins = {node for node in walk(plan) if isinstance(node, Join)}
    sides = [side for join in joins if (side := nrr_stream_side(join)) is not None]
    return frozenset(node for side in sides for node in walk(side) if _remakes_rows(node))


def _remakes_rows(node: Node) -> bool:
    return pattern_of(node) is Pattern.STR or any(map(_is_keyed, walk(node)))


def _is_keyed(node: Node) -> bool:
    """Whether `node` replaces or retracts rows of its own, by value or key."""
    return _KEYED[type(node)](node)


@case(_KEYED, GroupBy, Distinct)
def _always(_node: Node) -> bool:
    return True


@case(_KEYED, Scan, TableScan, ViewScan, Received, Windowed, Filter, Project)
def _never(_node: Node) -> bool:
    return False


@case(_KEYED, Join)
def _is_exists(node: Join) -> bool:
    return node.kind in (JoinKind.SEMI, JoinKind.ANTI)


@case(_KEYED, SetOp)
def _is_set(node: SetOp) -> bool:
    return not _is_union_all(node)


def _is_union_all(node: SetOp) -> bool:
    return node.kind is SetKind.UNION and node.all


def _require(
    node: Node, wanted: Iterable[int], needs: dict[Node, Columns], whole: frozenset[Node]
) -> None:
    known = needs.get(node)
    if node in whole:
        wanted = range(width(node))
    needed = _at_least_one(node, frozenset(wanted) | (known or frozenset()) | _partition(node))
    if known == needed:
        return
    needs[node] = needed
    for child, read in zip(node.inputs, _reads(node, needed), strict=True):
        _require(child, read, needs, whole)


def _at_least_one(node: Node, needed: Columns) -> Columns:
    if needed or not width(node):
        return needed
    plain = [i for i, f in enumerate(node.schema) if not f.type.is_string]
    return frozenset(plain[:1] or [0])


def _reads(node: Node, needed: Columns) -> tuple[Columns, ...]:
    """The columns of each input that `node` reads to yield `needed`."""
    return _READS[type(node)](node, needed)


@case(_READS, Scan, TableScan, ViewScan, Received)
def _leaf_reads(_node: Node, _needed: Columns) -> tuple[Columns, ...]:
    return ()


@case(_READS, Filter)
def _filter_reads(node: Filter, needed: Columns) -> tuple[Columns, ...]:
    return (needed | columns_of(node.predicate),)


@case(_READS, Project)
def _project_reads(node: Project, needed: Columns) -> tuple[Columns, ...]:
    return (frozenset().union(*(columns_of(node.exprs[i]) for i in needed)),)


@case(_READS, GroupBy)
def _group_by_reads(node: GroupBy, needed: Columns) -> tuple[Columns, ...]:
    return (frozenset(node.keys).union(*map(_agg_columns, _kept_aggs(node, needed))),)


@case(_READS, Windowed)
def _windowed_reads(_node: Windowed, needed: Columns) -> tuple[Columns, ...]:
    return (needed,)


@case(_READS, Distinct)
def _whole_reads(node: Node, _needed: Columns) -> tuple[Columns, ...]:
    return tuple(frozenset(range(width(child))) for child in node.inputs)


@case(_READS, SetOp)
def _set_op_reads(node: SetOp, needed: Columns) -> tuple[Columns, ...]:
    return (needed, needed) if _is_union_all(node) else _whole_reads(node, needed)


@case(_READS, Join)
def _join_reads(node: Join, needed: Columns) -> tuple[Columns, ...]:
    split = width(node.left)
    read = needed | condition_columns(node)
    return frozenset(i for i in read if i < split), frozenset(i - split for i in read if i >= split)


def _partition(node: Node) -> Columns:
    """The PARTITION BY columns of a window, as positions in its input or stream."""
    match node:
        case Windowed(window=Rows(partition=partition)):
            return frozenset(partition)
        case Scan(window=Rows(partition=partition)):
            return frozenset(i for i, c in enumerate(node.columns) if c in partition)
        case _:
            return frozenset()


def _kept_aggs(node: GroupBy, needed: Columns) -> list[Agg]:
    keys = len(node.keys)
    return [agg for i, agg in enumerate(node.aggs) if i + keys in needed]


def _agg_columns(agg: Agg) -> Columns:
    return frozenset().union(*(columns_of(e) for e in (agg.arg, agg.filter) if e is not None))


# ---- the narrowed plan ---------------------------------------------------------------
class _Narrowing:
    """Rebuilds each distinct node once and records which of its old columns it still yields.

    A node stays the same object if all its columns are needed.
    """

    def __init__(self, needs: dict[Node, Columns], whole: frozenset[Node]) -> None:
        self.needs = needs
        self.whole = whole
        self.done: dict[Node, tuple[Node, Kept]] = {}

    def of(self, node: Node) -> tuple[Node, Kept]:
        """`node` narrowed, and the columns it kept: at least the needed ones."""
        if node not in self.done:
            self.done[node] = _NARROW[type(node)](node, self)
        return self.done[node]

    def exactly(self, node: Node, wanted: Columns) -> Node:
        """`node` narrowed to `wanted`, in order."""
        plan, kept = self.of(node)
        return select(plan, [kept.index(i) for i in sorted(wanted)])

    def needed(self, node: Node) -> Kept:
        """The needed columns of `node`, in order."""
        return tuple(sorted(self.needs[node]))


@case(_NARROW, Scan, TableScan)
def _narrow_scan(node: Scan | TableScan, plan: _Narrowing) -> tuple[Node, Kept]:
    needed = plan.needed(node)
    if len(needed) == len(node.columns):
        return node, needed
    return replace(node, columns=tuple(node.columns[i] for i in needed)), needed


@case(_NARROW, ViewScan, Received, Distinct)
def _narrow_inputs(node: Node, plan: _Narrowing) -> tuple[Node, Kept]:
    """Keep all columns of `node`; the subplans below its inputs may be narrowed."""
    children = [plan.exactly(c, frozenset(range(width(c)))) for c in node.inputs]
    return over(node, children), tuple(range(width(node)))


@case(_NARROW, Filter)
def _narrow_filter(node: Filter, plan: _Narrowing) -> tuple[Node, Kept]:
    source, kept = plan.of(node.input)
    if source is node.input:
        return node, kept
    return Filter(source, remap(node.predicate, kept.index)), kept


@case(_NARROW, Project)
def _narrow_project(node: Project, plan: _Narrowing) -> tuple[Node, Kept]:
    source, kept = plan.of(node.input)
    needed = plan.needed(node)
    if source is node.input and len(needed) == len(node.exprs):
        return node, needed
    exprs = tuple(remap(node.exprs[i], kept.index) for i in needed)
    return Project(source, exprs, tuple(node.names[i] for i in needed)), needed


@case(_NARROW, SetOp)
def _narrow_set_op(node: SetOp, plan: _Narrowing) -> tuple[Node, Kept]:
    if not _is_union_all(node):
        return _narrow_inputs(node, plan)
    sides = [plan.exactly(side, plan.needs[node]) for side in node.inputs]
    return over(node, sides), plan.needed(node)


@case(_NARROW, GroupBy)
def _narrow_group_by(node: GroupBy, plan: _Narrowing) -> tuple[Node, Kept]:
    source, kept = plan.of(node.input)
    first = len(node.keys)
    stay = [i for i in range(len(node.aggs)) if i + first in plan.needs[node]]
    if source is node.input and len(stay) == len(node.aggs):
        return node, tuple(range(width(node)))
    keys = tuple(kept.index(k) for k in node.keys)
    aggs = tuple(_moved_agg(node.aggs[i], kept) for i in stay)
    names = tuple(node.names[i] for i in stay)
    narrow = GroupBy(source, keys, aggs, names, node.totals)
    return narrow, (*range(first), *(i + first for i in stay))


@case(_NARROW, Windowed)
def _narrow_windowed(node: Windowed, plan: _Narrowing) -> tuple[Node, Kept]:
    source, kept = plan.of(node.input)
    if source is node.input:
        return node, kept
    window = node.window
    if isinstance(window, Rows):
        window = replace(window, partition=tuple(kept.index(p) for p in window.partition))
    return Windowed(source, window), kept


@case(_NARROW, Join)
def _narrow_join(node: Join, plan: _Narrowing) -> tuple[Node, Kept]:
    """Narrow each side to the columns that are read, unless it must stay whole."""
    reads = _join_reads(node, plan.needs[node])
    wanted = [
        plan.needs[side]
        if is_nrr(side) or side in plan.whole
        else read or frozenset({min(plan.needs[side])})
        for side, read in zip(node.inputs, reads, strict=True)
    ]
    left, right = (plan.exactly(s, w) for s, w in zip(node.inputs, wanted, strict=True))
    if left is node.left and right is node.right:
        return node, tuple(range(width(node)))
    at = [{old: new for new, old in enumerate(sorted(w))} for w in wanted]
    made = rebase_join(node, left, right, at[0], at[1])
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return made, tuple(sorted(wanted[0]))
    split = width(node.left)
    return made, (*sorted(wanted[0]), *(i + split for i in sorted(wanted[1])))


def _moved_agg(agg: Agg, kept: Kept) -> Agg:
    arg = None if agg.arg is None else remap(agg.arg, kept.index)
    condition = None if agg.filter is None else remap(agg.filter, kept.index)
    return replace(agg, arg=arg, filter=condition)


complete(_KEYED, subclasses(nodes, Node), "answer whether its rows are keyed")
complete(_READS, subclasses(nodes, Node), "required columns")
complete(_NARROW, subclasses(nodes, Node), "narrowing")
