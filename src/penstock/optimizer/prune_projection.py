"""Columns nobody reads are not carried: scans, tables, joins and aggregates are narrowed.

Two passes: first the columns needed of every node, over all its uses, so that a subplan used
twice stays one subplan; then the narrowed plan. DISTINCT, INTERSECT and EXCEPT compare whole rows
and need them whole. A time column is needed only when it is read: time travels beside the
payload. At least one column stays, so that a row is something.

What flows into a join with a non-retroactive table stays whole where rows are replaced or
retracted: a change in a column that nobody reads is an arrival, which meets the table anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.logical.expr import Agg, columns_of, remap
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Windowed,
    walk,
)
from penstock.optimizer.rewrite import condition_columns, over, rebase_join, select, width
from penstock.optimizer.stats import Stats
from penstock.patterns.edge import Pattern
from penstock.patterns.rules import is_nrr, nrr_stream_side, pattern_of

Columns = frozenset[int]
Kept = tuple[int, ...]
"""Which old columns a narrowed node yields, in order."""


def prune_projection(node: Node, stats: Stats) -> Node:
    """Narrow every part of the plan to the columns that are read."""
    needs: dict[Node, Columns] = {}
    whole = _whole(node)
    _require(node, frozenset(range(width(node))), needs, whole)
    plan, kept = _Narrowing(needs, whole).of(node)
    return select(plan, [kept.index(i) for i in range(width(node))])


# ---- which columns are needed --------------------------------------------------------
def _whole(plan: Node) -> frozenset[Node]:
    """Nodes below joins with non-retroactive tables whose arrivals depend on all columns."""
    joins = {node for node in walk(plan) if isinstance(node, Join)}
    sides = [side for join in joins if (side := nrr_stream_side(join)) is not None]
    return frozenset(node for side in sides for node in walk(side) if _remakes_rows(node))


def _remakes_rows(node: Node) -> bool:
    return pattern_of(node) is Pattern.STR or any(map(_is_keyed, walk(node)))


def _is_keyed(node: Node) -> bool:
    match node:
        case GroupBy() | Distinct() | Join(kind=JoinKind.SEMI | JoinKind.ANTI):
            return True
        case SetOp():
            return node.kind is not SetKind.UNION or not node.all
        case _:
            return False


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
    """The columns `node` reads of each input to yield `needed`."""
    match node:
        case Filter():
            return (needed | columns_of(node.predicate),)
        case Project():
            return (frozenset().union(*(columns_of(node.exprs[i]) for i in needed)),)
        case GroupBy():
            return (frozenset(node.keys).union(*map(_agg_columns, _kept_aggs(node, needed))),)
        case Windowed():
            return (needed,)
        case Join():
            return _join_reads(node, needed)
        case SetOp(kind=SetKind.UNION, all=True):
            return needed, needed
        case _:
            return tuple(frozenset(range(width(child))) for child in node.inputs)


def _join_reads(node: Join, needed: Columns) -> tuple[Columns, ...]:
    split = width(node.left)
    read = needed | condition_columns(node)
    return frozenset(i for i in read if i < split), frozenset(i - split for i in read if i >= split)


def _partition(node: Node) -> Columns:
    """PARTITION BY columns of a window: positions of its input's, or of the stream's, columns."""
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
    """Rebuilds each distinct node once, telling which of its old columns it still yields.

    A node of which all is needed is returned as it is.
    """

    def __init__(self, needs: dict[Node, Columns], whole: frozenset[Node]) -> None:
        self.needs = needs
        self.whole = whole
        self.done: dict[Node, tuple[Node, Kept]] = {}

    def of(self, node: Node) -> tuple[Node, Kept]:
        """`node` narrowed, and what it kept: at least what is needed."""
        if node not in self.done:
            self.done[node] = self._narrow(node)
        return self.done[node]

    def exactly(self, node: Node, wanted: Columns) -> Node:
        """`node` narrowed to `wanted`, in order."""
        plan, kept = self.of(node)
        return select(plan, [kept.index(i) for i in sorted(wanted)])

    def _narrow(self, node: Node) -> tuple[Node, Kept]:
        needed = tuple(sorted(self.needs[node]))
        match node:
            case Scan() | TableScan():
                if len(needed) == len(node.columns):
                    return node, needed
                return replace(node, columns=tuple(node.columns[i] for i in needed)), needed
            case Filter():
                source, kept = self.of(node.input)
                if source is node.input:
                    return node, kept
                return Filter(source, remap(node.predicate, kept.index)), kept
            case Project():
                source, kept = self.of(node.input)
                if source is node.input and len(needed) == len(node.exprs):
                    return node, needed
                exprs = tuple(remap(node.exprs[i], kept.index) for i in needed)
                return Project(source, exprs, tuple(node.names[i] for i in needed)), needed
            case GroupBy():
                return self._group_by(node)
            case Windowed():
                return self._windowed(node)
            case Join():
                return self._join(node)
            case SetOp(kind=SetKind.UNION, all=True):
                sides = [self.exactly(side, self.needs[node]) for side in node.inputs]
                return over(node, sides), needed
            case _:
                whole = tuple(range(width(node)))
                children = [self.exactly(c, frozenset(range(width(c)))) for c in node.inputs]
                return over(node, children), whole

    def _group_by(self, node: GroupBy) -> tuple[Node, Kept]:
        source, kept = self.of(node.input)
        keys = len(node.keys)
        stay = [i for i in range(len(node.aggs)) if i + keys in self.needs[node]]
        if source is node.input and len(stay) == len(node.aggs):
            return node, tuple(range(width(node)))
        aggs = tuple(_moved_agg(node.aggs[i], kept) for i in stay)
        plan = GroupBy(
            source,
            tuple(kept.index(k) for k in node.keys),
            aggs,
            tuple(node.names[i] for i in stay),
        )
        return plan, (*range(keys), *(i + keys for i in stay))

    def _windowed(self, node: Windowed) -> tuple[Node, Kept]:
        source, kept = self.of(node.input)
        if source is node.input:
            return node, kept
        window = node.window
        if isinstance(window, Rows):
            window = replace(window, partition=tuple(kept.index(p) for p in window.partition))
        return Windowed(source, window), kept

    def _join(self, node: Join) -> tuple[Node, Kept]:
        """Each side yields just what is read of it, unless it must stay whole: it is stored."""
        reads = _join_reads(node, self.needs[node])
        wanted = [
            self.needs[side]
            if is_nrr(side) or side in self.whole
            else read or frozenset({min(self.needs[side])})
            for side, read in zip(node.inputs, reads, strict=True)
        ]
        left, right = (self.exactly(s, w) for s, w in zip(node.inputs, wanted, strict=True))
        if left is node.left and right is node.right:
            return node, tuple(range(width(node)))
        at = [{old: new for new, old in enumerate(sorted(w))} for w in wanted]
        plan = rebase_join(node, left, right, at[0], at[1])
        if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return plan, tuple(sorted(wanted[0]))
        split = width(node.left)
        return plan, (*sorted(wanted[0]), *(i + split for i in sorted(wanted[1])))


def _moved_agg(agg: Agg, kept: Kept) -> Agg:
    arg = None if agg.arg is None else remap(agg.arg, kept.index)
    condition = None if agg.filter is None else remap(agg.filter, kept.index)
    return replace(agg, arg=arg, filter=condition)
