"""Moves filters down as far as the answer allows, conjunct by conjunct.

A conjunct moves through projections, joins (to the side that it reads), unions, set operations,
semi and anti joins (to the left), distinct and the keys of a group-by. It never moves below a ROWS
window, which counts rows before they are filtered, nor into a non-retroactive table, which a join
reads as a whole. An equality of one column from each side becomes a key of an inner join. A
predicate with parameters stays above keyed operators: above, all queries of the template share
their state; below, each query would need its own. A predicate that can fail stays above joins and
keyed operators, so that it is evaluated only on rows that pass them; a version that ignores
failures moves down in addition (`MAYBE`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Expr, columns_of, conjuncts, params_of, remap
from penstock.logical.failing import can_fail, guesses
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Rows,
    SetKind,
    SetOp,
    Windowed,
)
from penstock.optimizer.rewrite import (
    equated_columns,
    has_udf,
    over,
    residual_parts,
    shift,
    split_safe,
    split_sides,
    substitute,
    where,
    width,
    with_residual,
)
from penstock.optimizer.stats import Stats
from penstock.patterns.rules import is_nrr


def push_down_filter(node: Node, stats: Stats) -> Node:
    """Move every conjunct of every filter down as far as it can go.

    before: σ s.a > 7 AND t.b = 1 AND s.k = t.k (s × t)
    after:  σ a > 7 (s) ⋈ k = k σ b = 1 (t)
    """
    return _push(node, [])


def _push(node: Node, parts: list[Expr]) -> Node:
    """Filter `node` by `parts`, which read its output."""
    match node:
        case Filter():
            mine = conjuncts(node.predicate)
            return _push(node.input, mine + [p for p in parts if p not in mine])
        case Project():
            return _through_project(node, parts)
        case Join(kind=JoinKind.INNER):
            return _into_join(node, parts)
        case SetOp(kind=SetKind.UNION, all=True):
            return over(node, [_push(child, parts) for child in node.inputs])
        case Join(kind=JoinKind.SEMI | JoinKind.ANTI) | GroupBy() | Distinct() | SetOp():
            plain = [p for p in parts if not params_of(p)]
            go = [p for p in plain if not can_fail(p)]
            stay = [p for p in parts if p not in go]
            return where(_through_keyed(node, go + guesses(plain)), stay)
        case Windowed() if not isinstance(node.window, Rows):
            return over(node, [_push(node.input, parts)])
        case _:
            return where(over(node, [_push(child, []) for child in node.inputs]), parts)


def _through_project(node: Project, parts: list[Expr]) -> Node:
    """Move predicates below a projection; they then compute its columns, except UDF calls."""
    stay = [p for p in parts if any(has_udf(node.exprs[i]) for i in columns_of(p))]
    go = [substitute(p, node.exprs) for p in parts if p not in stay]
    return where(over(node, [_push(node.input, go)]), stay)


def _into_join(node: Join, parts: list[Expr]) -> Node:
    split = width(node.left)
    pairs = {part: equated_columns(part, split) for part in parts}
    equi = node.equi + tuple(p for p in pairs.values() if p and p not in node.equi)
    left, right, stay = split_safe([part for part, pair in pairs.items() if not pair], split)
    kept_left, kept_right, residual = split_safe(residual_parts(node), split)
    guess_left, guess_right, _ = split_sides(guesses(stay + residual), split)
    left, right = left + kept_left + guess_left, right + kept_right
    if is_nrr(node.right):
        stay, right = stay + [shift(p, split) for p in right], []
    else:
        right = right + guess_right
    if equi != node.equi or kept_left or kept_right:
        node = with_residual(replace(node, equi=equi), residual)
    return where(over(node, [_push(node.left, left), _push(node.right, right)]), stay)


def _through_keyed(node: Node, parts: list[Expr]) -> Node:
    match node:
        case Join():
            return _into_exists(node, parts)
        case GroupBy():
            return _through_group_by(node, parts)
        case _:
            return over(node, [_push(child, parts) for child in node.inputs])


def _into_exists(node: Join, parts: list[Expr]) -> Node:
    """Move predicates to the left input; also to the right one if whole rows are compared."""
    whole_row = node.null_safe and node.equi == tuple((i, i) for i in range(width(node.left)))
    right = _push(node.right, parts if whole_row else [])
    return over(node, [_push(node.left, parts), right])


def _through_group_by(node: GroupBy, parts: list[Expr]) -> Node:
    """Predicates on keys decide whole groups and move down; without keys none does."""
    keys = range(len(node.keys))
    go = [p for p in parts if node.keys and columns_of(p).issubset(keys)]
    stay = [p for p in parts if p not in go]
    moved = [remap(p, lambda i: node.keys[i]) for p in go]
    return where(over(node, [_push(node.input, moved)]), stay)
