"""FROM: the tree of joins with its scope. Comma lists join last and left-deep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from penstock.logical.expr import Call, Expr, conjuncts
from penstock.logical.nodes import JoinKind, Node
from penstock.sql import coercion
from penstock.sql.complain import OTHER, misnamed, mistyped, only, unsupported
from penstock.sql.dialect import place_of
from penstock.sql.expressions import Binder
from penstock.sql.joins import ONE_SIDED, From, Leaf, Tree
from penstock.sql.projections import named
from penstock.sql.relations import named_relation, refuse_relation, window_of, windowed
from penstock.sql.scopes import Context, Name, Scope

Ctes = dict[str, Node]
BindQuery = Callable[[exp.Expr], Node]

_KINDS = {
    ("", ""): JoinKind.INNER, ("", "INNER"): JoinKind.INNER, ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT, ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT, ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL, ("FULL", "OUTER"): JoinKind.FULL,
    ("", "SEMI"): JoinKind.SEMI, ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "ANTI"): JoinKind.ANTI, ("LEFT", "ANTI"): JoinKind.ANTI,
}  # fmt: skip


@dataclass
class Source:
    """A FROM tree and the names of its columns."""

    tree: From
    scope: Scope


class FromBinder:
    """Binds the FROM clause of one SELECT."""

    def __init__(self, context: Context, ctes: Ctes, bind_query: BindQuery) -> None:
        self.context = context
        self.ctes = ctes
        self.bind_query = bind_query

    def bind(self, select: exp.Select) -> Source:
        """The whole clause."""
        groups = [self._chain(select.args["from_"].this)]
        for join in select.args.get("joins") or []:
            if _is_comma(join):
                groups.append(self._chain(join.this))
            else:
                groups[-1] = self._explicit(groups[-1], join)
        source = groups[0]
        for other in groups[1:]:
            place = place_of(select.args["from_"])
            tree = Tree(source.tree, other.tree, JoinKind.INNER, place=place)
            source = Source(tree, self._both(source, other, select))
        return source

    def _both(self, left: Source, right: Source, node: exp.Expr) -> Scope:
        twice = left.scope.relations & right.scope.relations
        if twice:
            name = min(twice)
            raise misnamed(
                node, "PS-NAME-005", f"two relations are called {name}",
                f"give one an alias: {name} AS other",
            )  # fmt: skip
        return left.scope + right.scope.shifted(left.tree.width)

    def _chain(self, node: Any) -> Source:
        """A relation with its joins inside parentheses."""
        source = self._relation(node)
        for join in node.args.get("joins") or []:
            source = self._explicit(source, join)
        return source

    def _relation(self, node: Any) -> Source:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery):
            if node.args.get("alias") or window_of(node):
                raise unsupported(
                    node, OTHER, "a join in parentheses cannot have an alias or a window",
                    "write a subquery: (SELECT … FROM …) AS name",
                )  # fmt: skip
            return self._chain(node.this)
        if isinstance(node, exp.Table):
            plan = named_relation(node, self.context, self.ctes)
        elif isinstance(node, exp.Subquery):
            only(node, "this", "alias", "joins", "with_")
            inner = self.bind_query(node.this)
            plan = windowed(inner, window_of(node), self.context)
        else:
            raise refuse_relation(node)
        plan = renamed(plan, node.args.get("alias"), node)
        return Source(Leaf(plan), Scope.of(node.alias_or_name, plan))

    def _explicit(self, left: Source, join: exp.Join) -> Source:
        only(join, "this", "side", "kind", "on", "using", "method")
        if isinstance(join.this, exp.Lateral):
            raise refuse_relation(join.this)
        method = str(join.args.get("method") or "")
        kind = _KINDS.get((join.side, join.kind))
        if kind is None or method not in ("", "NATURAL"):
            words = " ".join(w for w in (method, join.side, join.kind) if w)
            raise unsupported(
                join, OTHER, f"{words} JOIN is not supported",
                "use INNER, LEFT, RIGHT, FULL, CROSS, SEMI or ANTI",
            )  # fmt: skip
        right = self._chain(join.this)
        scope = self._both(left, right, join)
        tree = Tree(left.tree, right.tree, kind, place=place_of(join.this))
        names = [i.name for i in join.args.get("using") or []]
        if method:
            names = _shared(left.scope, right.scope)
        for name in names:
            scope = _merge(tree, left, right, scope, name, join)
        on = join.args.get("on")
        if on is not None:
            condition = Binder(scope, self.context).condition(on)
            tree.conditions += conjuncts(condition)
        elif not names and kind is not JoinKind.INNER:
            raise unsupported(
                join, OTHER, f"{join.side or join.kind} JOIN needs a condition", "add ON … or USING"
            )
        return Source(tree, left.scope if kind in ONE_SIDED else scope)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(a) for a in ("side", "kind", "on", "using", "method"))


def _shared(left: Scope, right: Scope) -> list[str]:
    theirs = {n.column.lower() for n in right.names if not n.merged}
    return [n.column for n in left.names if not n.merged and n.column.lower() in theirs]


def _merge(
    tree: Tree, left: Source, right: Source, scope: Scope, name: str, join: exp.Join
) -> Scope:
    """Join on equality of a common column, which becomes one column."""
    column = exp.Column(this=exp.Identifier(this=name))
    column.meta["at"] = place_of(join)
    a, b = left.scope.find(column), right.scope.shifted(left.tree.width).find(column)
    if a is None or b is None:
        raise (left.scope if a is None else right.scope).unknown(column)
    equal = coercion.compare("eq", a, b, join)
    tree.conditions.append(equal)
    shown: Expr = b if tree.kind is JoinKind.RIGHT else a
    if tree.kind is JoinKind.FULL:
        assert isinstance(equal, Call)
        shown = Call(equal.args[0].type, "coalesce", equal.args)
    hidden = tuple(
        replace(n, merged=True) if n.column.lower() == name.lower() else n for n in scope.names
    )
    return _after_merged(Scope(hidden), Name("", name, shown))


def _after_merged(scope: Scope, name: Name) -> Scope:
    """Merged columns come first, in the order of USING."""
    count = next((i for i, n in enumerate(scope.names) if n.relation), len(scope.names))
    return Scope((*scope.names[:count], name, *scope.names[count:]))


def renamed(node: Node, alias: Any, ast: exp.Expr) -> Node:
    """A relation with the column names of ``AS alias (a, b)``."""
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    if not names:
        return node
    if len(names) != len(node.schema):
        raise mistyped(
            ast, f"the alias names {len(names)} columns of {len(node.schema)}",
            "name every column once", "PS-TYPE-005",
        )  # fmt: skip
    return named(node, names)
