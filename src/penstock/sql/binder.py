"""From a SELECT tree to a logical plan: the entry point of binding."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import Place
from penstock.logical.nodes import Node
from penstock.logical.on_error import OnError, apply
from penstock.sql.catalog import Catalog, ParamSpec
from penstock.sql.coercion import Params, untyped
from penstock.sql.complain import CHANGELOG_NAMES, reserved
from penstock.sql.dialect import place_of
from penstock.sql.projections import named
from penstock.sql.scopes import Context
from penstock.sql.select import QueryBinder
from penstock.sql.units import Duration
from penstock.sql.windows import WindowSpec


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound query: its plan and its explicit parameters, in the order of the text."""

    node: Node
    params: tuple[ParamSpec, ...]


def bind(query: exp.Expr, catalog: Catalog, on_error: OnError = "fail") -> Bound:
    """The plan of a query over the relations of a catalog; output names are distinct."""
    parameters, lengths = _parameters(query)
    params = Params(_names(parameters, lengths))
    context = Context(catalog, params)
    node = QueryBinder(context, {}).relation(query)
    for parameter in parameters:
        if parameter.name not in params.types:
            raise untyped(params.reference(parameter.name), parameter)
    specs = tuple(ParamSpec(n, params.types[n], params.units.get(n, 0)) for n in params.names)
    _refuse_reserved(query, node)
    return Bound(apply(_distinctly_named(node), on_error, context.views), specs)


def _parameters(query: exp.Expr) -> tuple[list[exp.Parameter], list[Duration]]:
    """All parameters and parameter window lengths of a plan; a plain loop, run for every text."""
    found: list[exp.Parameter] = []
    lengths: list[Duration] = []
    todo = [query]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Parameter):
            found.append(node)
        elif "window" in node.meta:
            spec: WindowSpec = node.meta["window"]
            lengths += [spec.length] if spec.length and spec.length.name else []
        for value in node.args.values():
            parts = value if isinstance(value, list) else (value,)
            todo += [part for part in parts if isinstance(part, exp.Expr)]
    return found, lengths


def _refuse_reserved(query: exp.Expr, node: Node) -> None:
    for name in node.schema.names:
        if name.lower() in CHANGELOG_NAMES:
            items = query.selects if isinstance(query, exp.Query) else []
            named_so = [i for i in items if i.alias_or_name.lower() == name.lower()]
            places = [place_of(n) for i in named_so for n in i.walk()] + [place_of(query)]
            raise reserved(name, next(filter(None, places), None))


def _names(parameters: list[exp.Parameter], lengths: list[Duration]) -> list[str]:
    """Parameters by first appearance in the text, so that equal shapes number them equally."""
    found = [(place_of(node), node.name) for node in parameters]
    found += [(span.place, span.name or "") for span in lengths]

    def position(named: tuple[Place | None, str]) -> tuple[int, int]:
        place, _ = named
        return (place.line, place.column) if place else (0, 0)

    return list(dict.fromkeys(name for _, name in sorted(found, key=position)))


def _distinctly_named(node: Node) -> Node:
    """Rename repeated output columns: k, k_1, k_2."""
    names = node.schema.names
    if len({n.lower() for n in names}) == len(names):
        return node
    taken = {n.lower() for n in names}
    seen: Counter[str] = Counter()
    fresh: list[str] = []
    for name in names:
        shown, seen[name.lower()] = name, seen[name.lower()] + 1
        if seen[name.lower()] > 1:
            number = seen[name.lower()] - 1
            while f"{name}_{number}".lower() in taken:
                number += 1
            shown = f"{name}_{number}"
            taken.add(shown.lower())
        fresh.append(shown)
    return named(node, fresh)
