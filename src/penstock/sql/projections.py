"""Small projections: columns by position, renaming, types for bare NULLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.logical.expr import Column, Expr
from penstock.logical.nodes import Node, Project
from penstock.sql.coercion import coerce
from penstock.types import INT, Kind


def outputs(node: Node) -> tuple[Expr, ...]:
    """A reference to every output column."""
    return tuple(Column(f.type, i, f.name) for i, f in enumerate(node.schema))


def project(node: Node, exprs: tuple[Expr, ...], names: tuple[str, ...]) -> Node:
    """A projection; the input itself if nothing would change."""
    if exprs == outputs(node) and names == node.schema.names:
        return node
    return Project(node, exprs, names)


def columns(node: Node, indices: Sequence[int]) -> Node:
    """The chosen columns of a relation."""
    everything = outputs(node)
    return project(
        node, tuple(everything[i] for i in indices), tuple(node.schema[i].name for i in indices)
    )


def named(node: Node, names: Sequence[str]) -> Node:
    """The same columns under other names."""
    if isinstance(node, Project):
        return replace(node, names=tuple(names))
    return project(node, outputs(node), tuple(names))


def typed(node: Node) -> Node:
    """Columns of type NULL become INT."""
    if all(t.kind is not Kind.NULL for t in node.schema.types):
        return node
    exprs = node.exprs if isinstance(node, Project) else outputs(node)
    below = node.input if isinstance(node, Project) else node
    fixed = tuple(coerce(e, INT) if e.type.kind is Kind.NULL else e for e in exprs)
    return Project(below, fixed, node.schema.names)
