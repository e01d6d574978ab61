"""Merges nested projections into one, and removes projections that change nothing.

An inner column stays separate if merging would compute it again: a column with a UDF call, or any
computed column that is read more than once.
"""

from __future__ import annotations

from collections import Counter

from penstock.logical.expr import Call, Column, walk
from penstock.logical.nodes import Node, Project
from penstock.optimizer.rewrite import bottom_up, has_udf, substitute
from penstock.optimizer.stats import Stats


def merge_projections(node: Node, stats: Stats) -> Node:
    """Merge chains of projections and drop identities.

    before: π x + 1 (π a * 2 AS x (s))
    after:  π a * 2 + 1 (s)
    """
    return bottom_up(node, _merge)


def _merge(node: Node) -> Node:
    if not isinstance(node, Project):
        return node
    inner = node.input
    if isinstance(inner, Project) and _cheap(node, inner):
        exprs = tuple(substitute(e, inner.exprs) for e in node.exprs)
        return _merge(Project(inner.input, exprs, node.names))
    return inner if _is_identity(node) else node


def _cheap(outer: Project, inner: Project) -> bool:
    uses = Counter(e.index for x in outer.exprs for e in walk(x) if isinstance(e, Column))
    if all(isinstance(e, Column) for e in outer.exprs) and max(uses.values(), default=0) <= 1:
        return True
    return not any(
        isinstance(inner.exprs[i], Call) and (n > 1 or has_udf(inner.exprs[i]))
        for i, n in uses.items()
    )


def _is_identity(node: Project) -> bool:
    if not all(isinstance(e, Column) and e.index == i for i, e in enumerate(node.exprs)):
        return False
    return node.schema == node.input.schema
