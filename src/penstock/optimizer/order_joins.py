"""Orders trees of inner joins by the cost model; the results are left-deep.

The search is dynamic programming over sets of inputs (greedy for many inputs). It avoids cross
products if it can, and a projection restores the original column order. A plan stays unchanged if
its streams are not measured or if no order is cheaper. Joins with a band or with a non-retroactive
table count as inputs: reordering the latter would change when they join.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.logical.expr import Expr, columns_of, conjunction, remap
from penstock.logical.nodes import Join, JoinKind, Node
from penstock.optimizer.cost import cost
from penstock.optimizer.rewrite import over, residual_parts, select, shift, width
from penstock.optimizer.stats import Stats
from penstock.patterns.rules import is_nrr, is_table

EXACT_LIMIT = 6
"""Up to this many inputs, the search considers every left-deep order."""
_WORTH = 0.999
"""A new order must cost less than this share of the old."""


def order_joins(node: Node, stats: Stats) -> Node:
    """Reorder every tree of inner joins over measured streams.

    before: (large ⋈ k = k larger) ⋈ k = k small
    after:  π … ((small ⋈ k = k large) ⋈ k = k larger)
    """
    if not _is_free(node):
        return over(node, [order_joins(child, stats) for child in node.inputs])
    tree = _flatten(node)
    leaves = tuple(order_joins(leaf, stats) for leaf in tree.leaves)
    plan = _rebuild(node, iter(leaves))
    tree = _Tree(leaves, tree.equalities, tree.predicates)
    if len(leaves) < 3 or not stats.knows(plan):
        return plan
    best = _best_order(tree, stats)
    if cost(best.plan, stats).total >= _WORTH * cost(plan, stats).total:
        return plan
    return select(best.plan, [best.columns.index(i) for i in range(width(plan))])


# ---- a tree of joins as inputs and conditions ----------------------------------------
@dataclass(frozen=True, slots=True)
class _Tree:
    """Inputs, and conditions over their columns, which are numbered from left to right."""

    leaves: tuple[Node, ...]
    equalities: tuple[tuple[int, int], ...]
    predicates: tuple[Expr, ...]

    def numbers(self, leaf: int) -> tuple[int, ...]:
        """The numbers of the columns of an input."""
        start = sum(width(node) for node in self.leaves[:leaf])
        return tuple(range(start, start + width(self.leaves[leaf])))


def _is_free(node: Node) -> bool:
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER:
        return False
    return node.band is None and not is_nrr(node.right)


def _flatten(node: Node) -> _Tree:
    if not isinstance(node, Join) or not _is_free(node):
        return _Tree((node,), (), ())
    left, right = _flatten(node.left), _flatten(node.right)
    split = width(node.left)
    moved = tuple((a + split, b + split) for a, b in right.equalities)
    mine = tuple((a, b + split) for a, b in node.equi)
    predicates = left.predicates + tuple(shift(p, split) for p in right.predicates)
    return _Tree(
        left.leaves + right.leaves,
        left.equalities + moved + mine,
        predicates + tuple(residual_parts(node)),
    )


def _rebuild(node: Node, leaves: Iterator[Node]) -> Node:
    if not _is_free(node):
        return next(leaves)
    return over(node, [_rebuild(child, leaves) for child in node.inputs])


# ---- the search ----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Partial:
    """A left-deep plan of some inputs, the numbers of its columns, and its cost."""

    plan: Node
    columns: tuple[int, ...]
    inputs: frozenset[int]
    cost: float


def _best_order(tree: _Tree, stats: Stats) -> _Partial:
    """Start from a stream, add one input at a time, keep the cheapest plan of each set."""
    streams = [i for i, leaf in enumerate(tree.leaves) if not is_table(leaf)]
    layer = [
        _Partial(tree.leaves[i], tree.numbers(i), frozenset({i}), 0.0)
        for i in streams or range(len(tree.leaves))
    ]
    for _ in tree.leaves[1:]:
        layer = _grow(tree, layer, stats)
        if len(tree.leaves) > EXACT_LIMIT:
            layer = [min(layer, key=lambda p: p.cost)]
    return layer[0]


def _grow(tree: _Tree, layer: list[_Partial], stats: Stats) -> list[_Partial]:
    best: dict[frozenset[int], _Partial] = {}
    for partial in layer:
        for leaf in _next_inputs(tree, partial):
            grown = _join(tree, partial, leaf, stats)
            known = best.get(grown.inputs)
            if known is None or grown.cost < known.cost:
                best[grown.inputs] = grown
    return list(best.values())


def _next_inputs(tree: _Tree, partial: _Partial) -> list[int]:
    """Inputs that share a key with `partial`; if there are none, all other inputs."""
    others = [i for i in range(len(tree.leaves)) if i not in partial.inputs]
    return [i for i in others if _keys(tree, partial, i)] or others


def _keys(tree: _Tree, partial: _Partial, leaf: int) -> list[tuple[int, int]]:
    """Pairs of columns (in the partial plan, in the input) that must be equal."""
    mine, theirs = partial.columns, tree.numbers(leaf)
    turned = [(b, a) for a, b in tree.equalities]
    pairs = [p for p in (*tree.equalities, *turned) if p[0] in mine and p[1] in theirs]
    return [(mine.index(a), theirs.index(b)) for a, b in pairs]


def _join(tree: _Tree, partial: _Partial, leaf: int, stats: Stats) -> _Partial:
    columns = partial.columns + tree.numbers(leaf)
    ready = [p for p in tree.predicates if columns_of(p).issubset(columns)]
    if len(partial.inputs) > 1:  # otherwise the partial plan has applied it already
        ready = [p for p in ready if not columns_of(p).issubset(partial.columns)]
    residual = conjunction([remap(p, columns.index) for p in ready])
    keys = tuple(_keys(tree, partial, leaf))
    plan = Join(partial.plan, tree.leaves[leaf], JoinKind.INNER, keys, residual=residual)
    return _Partial(plan, columns, partial.inputs | {leaf}, cost(plan, stats).total)
