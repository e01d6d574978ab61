"""How the inputs of each operator must be spread over shards to give the wanted output spread.

One function per node class yields alternatives, the best first. Equal keys always meet on one
shard: the k-th column of a hash on one side belongs to the k-th column on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.expr import Column
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
)
from penstock.optimizer.distribution import Spread
from penstock.optimizer.rewrite import width
from penstock.patterns.rules import is_table

Known = Mapping[str, Collection[Spread]]
"""Spreads of the routes in use, by stream."""
Wants = tuple[Spread, ...]
"""The required spread of each input of a node, in columns of that input."""
ANY, ALL = Spread("any"), Spread("all")
_MOST_PAIRINGS = 16  # most combinations, if equalities name the wanted columns more than once
_SPREADS: dict[type[Node], Callable[..., Iterator[Wants]]] = {}


def input_spreads(node: Node, want: Spread) -> Iterator[Wants]:
    """Spreads of the inputs that give `node` the wanted output spread, the best first."""
    if want.kind in ("all", "one"):
        yield (want,) * len(node.inputs)
    else:
        yield from _SPREADS[type(node)](node, want)


@case(_SPREADS, Scan, TableScan, ViewScan, Received)
def _of_leaf(_node: Node, _want: Spread) -> Iterator[Wants]:
    """No inputs: routes spread streams, views stay in place, tables are on every shard."""
    yield from ()


@case(_SPREADS, Filter)
def _of_filter(_node: Filter, want: Spread) -> Iterator[Wants]:
    yield (want,)


@case(_SPREADS, Project)
def _of_project(node: Project, want: Spread) -> Iterator[Wants]:
    exprs = [node.exprs[c] for c in want.columns]
    places = [e.index for e in exprs if isinstance(e, Column)]
    if len(places) == len(exprs):
        yield (replace(want, columns=tuple(places)),)


@case(_SPREADS, Windowed)
def _of_windowed(node: Windowed, want: Spread) -> Iterator[Wants]:
    """A count window needs all rows of its partition; time windows have been moved to the scans."""
    if isinstance(node.window, Rows):
        yield from ((hashed,) for hashed in _meet(want, node.window.partition))


@case(_SPREADS, GroupBy)
def _of_group_by(node: GroupBy, want: Spread) -> Iterator[Wants]:
    for hashed in _meet(want, range(len(node.keys))):
        yield (hash_on(node.keys[c] for c in hashed.columns),)


@case(_SPREADS, Distinct)
def _of_distinct(node: Distinct, want: Spread) -> Iterator[Wants]:
    yield from ((hashed,) for hashed in _meet(want, range(width(node))))


@case(_SPREADS, SetOp)
def _of_set_op(node: SetOp, want: Spread) -> Iterator[Wants]:
    if node.kind is SetKind.UNION:
        yield want, want
    else:
        yield from ((hashed, hashed) for hashed in _meet(want, range(width(node))))


def hash_on(columns: Collection[int] | Iterator[int]) -> Spread:
    """Rows by the hash of `columns`."""
    return Spread("hash", tuple(columns))


def _meet(want: Spread, columns: Sequence[int]) -> Iterator[Spread]:
    """Hash spreads, as good as `want`, that bring rows with equal `columns` to one shard."""
    if want.kind == "hash":
        if set(want.columns) <= set(columns):
            yield want
    elif columns:
        yield hash_on(columns)
        if len(columns) > 1:
            yield from (hash_on((c,)) for c in columns)


@case(_SPREADS, Join)
def _of_join(node: Join, want: Spread) -> Iterator[Wants]:
    """Both sides by equal keys, or one side on all shards.

    A stream is copied to all shards only if no equality can bring matching rows together. SEMI and
    ANTI joins compare each left row with all right rows, so their left side is never copied.
    """
    copy_right = not node.equi or is_table(node.right)
    copy_left = node.kind is JoinKind.INNER and (not node.equi or is_table(node.left))
    if want.kind == "any":
        for keys in _meet(want, range(len(node.equi))):
            yield _by_keys([node.equi[i] for i in keys.columns])
        if copy_right:
            yield ANY, ALL
        if copy_left:
            yield ALL, ANY
        return
    pairs = [_pairs_of(node, c) for c in want.columns]
    for pairing in islice(product(*pairs), _MOST_PAIRINGS):
        yield _by_keys(pairing)
    for side, copied in enumerate((copy_right, copy_left)):
        columns = [_on_side(node, c, side) for c in want.columns]
        places = [c for c in columns if c is not None]
        if copied and len(places) == len(columns):
            yield (hash_on(places), ALL) if side == 0 else (ALL, hash_on(places))


def _by_keys(pairs: Sequence[tuple[int, int]]) -> Wants:
    return hash_on(i for i, _ in pairs), hash_on(j for _, j in pairs)


def _pairs_of(node: Join, column: int) -> list[tuple[int, int]]:
    """The equalities that involve an output column."""
    left = width(node.left)
    return [(i, j) for i, j in node.equi if column in (i, left + j)]


def _on_side(node: Join, column: int, side: int) -> int | None:
    """The column of the left (0) or right (1) input with the values of an output column."""
    left = width(node.left)
    if (column >= left) == bool(side):
        return column - left if side else column
    return next((pair[side] for pair in _pairs_of(node, column)), None)


def scan_spread(node: Scan, want: Spread, known: Known) -> Spread | None:
    """The spread of a stream that gives a scan its wanted spread; None if there is none.

    A count window needs all rows of its partition, in the order of the stream.
    """
    if want.kind in ("all", "one"):
        return want
    partition = node.window.partition if isinstance(node.window, Rows) else None
    if want.kind == "hash":
        columns = tuple(node.columns[c] for c in want.columns)
        return hash_on(columns) if partition is None or set(columns) <= set(partition) else None
    for used in hashes(known.get(node.stream, ())):
        if partition is None or set(used.columns) <= set(partition):
            return used
    if partition is None:
        return ANY
    return hash_on(partition) if partition else None


def hashes(spreads: Collection[Spread]) -> list[Spread]:
    """The hashes among `spreads`, in order."""
    return sorted((s for s in spreads if s.kind == "hash"), key=lambda s: s.columns)


complete(_SPREADS, subclasses(nodes, Node), "distribution")
