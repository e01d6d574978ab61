"""Functions of a session: a name that is registered again means the new function from then on.

A query keeps the functions that it was registered with, also after a restart. So while queries
call a function, another one of its name gets a number in plans: `f`, then `f@2`. The catalog keeps
the former ones under such names, which no SQL text can call, until no query calls them.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Call
from penstock.logical.expr import walk as parts_of
from penstock.logical.nodes import exprs_of, walk
from penstock.logical.udf import Udf
from penstock.queries.registry import Registry
from penstock.session.books import Books
from penstock.session.calls import Calls
from penstock.sql.catalog import check_udf_name


def register(books: Books, calls: Calls, udf: Udf) -> Udf:
    """Enter a function in the catalog; return it with its name in plans."""
    check_udf_name(udf.name)
    known, found = books.catalog.udfs, books.catalog.udf(udf.name)
    if found is None:
        known[udf.name] = udf
        return udf
    called = functions_of(books.queries.registry)
    for name in [name for name, former in known.items() if "@" in name]:
        if known[name].name not in called:
            del known[name]
    keeps = replace(udf, name=found.name) == found or found.name not in called
    number = calls.note(lambda: _number(found) if keeps else _number(found) + 1)
    if number > _number(found):
        known[f"{udf.name}@{_number(found)}"] = found
    known[udf.name] = replace(udf, name=udf.name if number == 1 else f"{udf.name}@{number}")
    return known[udf.name]


def functions_of(registry: Registry) -> set[str]:
    """The functions that queries call, by their names in plans."""
    return {
        part.fn.removeprefix("udf:")
        for template in registry.templates.values()
        for node in walk(template.template)
        for expr in exprs_of(node)
        for part in parts_of(expr)
        if isinstance(part, Call) and part.fn.startswith("udf:")
    }


def _number(udf: Udf) -> int:
    """The number of a function among those of its name."""
    return int(udf.name.partition("@")[2] or 1)
