"""Scopes: the names that an expression may use, and their columns.

Names compare without case. `Outer` stands for a column of the enclosing query inside a
correlated subquery; it never leaves the binder.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache

from sqlglot import exp

from penstock.frozen import frozen
from penstock.logical.expr import Column, Expr, remap
from penstock.logical.nodes import Node
from penstock.schema import Schema
from penstock.sql.catalog import Catalog
from penstock.sql.coercion import Params
from penstock.sql.complain import misnamed


@frozen
class Outer(Expr):
    """Column `index` of the row of the enclosing query."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Name:
    """One visible column. `merged` ones (USING) need their relation's name in front."""

    relation: str
    column: str
    expr: Expr
    merged: bool = False


@lru_cache(1_000)
def _names(relation: str, schema: Schema) -> tuple[Name, ...]:
    return tuple(Name(relation, f.name, Column(f.type, i, f.name)) for i, f in enumerate(schema))


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns visible at a point of a query."""

    names: tuple[Name, ...] = ()

    @classmethod
    def of(cls, relation: str, node: Node) -> Scope:
        """All columns of one relation."""
        return cls(_names(relation, node.schema))

    def shifted(self, by: int) -> Scope:
        """The same names over columns shifted right by `by` positions."""
        move = tuple(replace(n, expr=remap(n.expr, lambda i: i + by)) for n in self.names)
        return Scope(move)

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.names + other.names)

    @property
    def relations(self) -> set[str]:
        """Names of the relations, in lower case."""
        return {n.relation.lower() for n in self.names if n.relation}

    def find(self, node: exp.Column) -> Expr | None:
        """The column of a reference; None if it is not in this scope."""
        table, column = node.table.lower(), node.name.lower()
        found = [
            n
            for n in self.names
            if n.column.lower() == column
            and (n.relation.lower() == table if table else not n.merged)
        ]
        if len(found) > 1:
            owners = ", ".join(f"{n.relation or '?'}.{n.column}" for n in found)
            raise misnamed(
                node, "PS-NAME-003", f"column {node.name} is ambiguous",
                f"write the relation before it: {owners}",
            )  # fmt: skip
        return found[0].expr if found else None

    def star(self, table: str = "") -> list[Name]:
        """The columns of ``*`` or ``table.*``."""
        if table:
            return [n for n in self.names if n.relation.lower() == table.lower()]
        return [n for n in self.names if not n.merged]

    def unknown(self, node: exp.Column) -> Exception:
        """The error for an unknown column."""
        known = sorted({n.column for n in self.names})
        close = get_close_matches(node.name, known, n=1)
        written = f"{node.table}.{node.name}" if node.table else node.name
        if node.table and node.table.lower() not in self.relations:
            remedy = f"the relations here are {', '.join(sorted(self.relations)) or 'none'}"
        elif node.this.quoted and not close:
            text = node.name.replace("'", "''")
            remedy = f"write strings in single quotes: '{text}'; double quotes are for names"
        elif close:
            remedy = f"did you mean {close[0]}?"
        else:
            remedy = f"the columns here are {', '.join(known) or 'none'}"
        return misnamed(node, "PS-NAME-002", f"there is no column {written}", remedy)


@dataclass
class Context:
    """Shared state of one binding: the catalog, the query's parameters, the views it reads."""

    catalog: Catalog
    params: Params = field(default_factory=Params)
    views: list[Node] = field(default_factory=list)
