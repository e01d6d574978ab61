"""ORDER BY, LIMIT and OFFSET of a SELECT that is evaluated once.

They are removed before the SELECT is bound, because a standing query cannot have them, and applied
to the rows of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from penstock.errors import UnsupportedError
from penstock.sql.complain import misnamed, only, unsupported

_CLAUSES = ("order", "limit", "offset")
_REMEDY = "order by the name of a column of the answer, or by its position, counted from 1"


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order and the limits of an answer."""

    keys: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0

    def __str__(self) -> str:
        keys = ", ".join(key.sql() for key in self.keys)
        counts = [("LIMIT", self.limit), ("OFFSET", self.offset or None)]
        parts = [f"ORDER BY {keys}"] if keys else []
        return " ".join(parts + [f"{word} {n}" for word, n in counts if n is not None])

    def check(self, names: tuple[str, ...]) -> None:
        """Raise an error if a key is not a column of the answer."""
        for key in self.keys:
            _place(key.this, list(names))

    def apply(self, table: pa.Table) -> pa.Table:
        """Sort and cut a table: sort by the last key first, since each sort is stable."""
        for key in reversed(self.keys):
            place = _place(key.this, table.column_names)
            table = _sorted(table, place, lambda column: column, key)
            if pa.types.is_floating(table.schema.types[place]):  # NaN sorts after every number
                table = _sorted(table, place, pc.is_nan, key)
        limit = table.num_rows if self.limit is None else min(self.limit, table.num_rows)
        return table.slice(min(self.offset, table.num_rows), limit)


def _sorted(
    table: pa.Table, place: int, value: Callable[[pa.Array], pa.Array], key: exp.Ordered
) -> pa.Table:
    """Sort the rows by a value computed from one column."""
    order = pc.array_sort_indices(
        value(table.column(place).combine_chunks()),
        order="descending" if key.args.get("desc") else "ascending",
        null_placement="at_start" if key.args.get("nulls_first") else "at_end",
    )
    return table.take(order)


def is_ordered(query: exp.Query) -> bool:
    """Whether a query has one of these clauses."""
    return any(query.args.get(name) for name in _CLAUSES)


def take_off(query: exp.Query) -> tuple[exp.Query, Ordering]:
    """Remove these clauses from a query; return the query and the clauses."""
    if not is_ordered(query):
        return query, Ordering()
    order, limit, offset = (query.args.get(name) for name in _CLAUSES)
    plain = type(query)(**{k: v for k, v in query.args.items() if k not in _CLAUSES})
    plain.meta.update(query.meta)
    if order is not None:
        only(order, "expressions")
    keys = tuple(_key(key, query) for key in order.expressions) if order else ()
    return plain, Ordering(keys, _count(limit), _count(offset) or 0)


def _key(key: exp.Ordered, query: exp.Query) -> exp.Ordered:
    """A sort key, with its column replaced by one of the answer."""
    only(key, "this", "desc", "nulls_first")
    if not isinstance(key.this, exp.Column) or not key.this.table:
        return key
    return exp.Ordered(**{**key.args, "this": _in_answer(key.this, query)})


def _in_answer(column: exp.Column, query: exp.Query) -> exp.Expr:
    """Replace `relation.column` by its position in the select list, or by its name in SELECT *."""
    sole, items = _sole_relation(query), query.expressions if isinstance(query, exp.Select) else []
    wanted = _words(column, sole)
    listed = list(takewhile(lambda item: not item.is_star, items))
    for at, item in enumerate(listed, 1):
        if _words(item.unalias(), sole) == wanted:
            return exp.Literal.number(at)
    if len(wanted) == 1 and len(listed) < len(items):
        return exp.column(column.name)
    shown = f"{column.table}.{column.name}"
    raise misnamed(column, "PS-NAME-002", f"the answer has no column {shown}", _REMEDY)


def _sole_relation(query: exp.Query) -> str | None:
    """The name of the relation in FROM if there is exactly one."""
    clause = query.args.get("from_")
    return None if clause is None or query.args.get("joins") else clause.this.alias_or_name.lower()


def _words(node: exp.Expr, sole: str | None) -> list[str]:
    """A column as words; without its relation if that is the only one."""
    words = [part.name.lower() for part in node.parts] if isinstance(node, exp.Column) else []
    return words[1:] if words[:-1] == [sole] else words


def _count(clause: exp.Expr | None) -> int | None:
    """The number in a LIMIT or OFFSET."""
    if clause is None:
        return None
    number = clause.args.get("expression")
    if number is not None:
        only(clause, "expression")
    if isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit():
        return int(number.name)
    raise unsupported(
        clause, "PS-SQL-026", "LIMIT and OFFSET take a number",
        "write digits: LIMIT 10 OFFSET 20",
    )  # fmt: skip


def _place(key: exp.Expr, names: list[str]) -> int:
    """The index of the answer's column that a key refers to."""
    if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
        if 1 <= int(key.name) <= len(names):
            return int(key.name) - 1
        raise misnamed(key, "PS-NAME-002", f"the answer has no column {key.name}", _REMEDY)
    if not isinstance(key, exp.Column):
        raise _computed(key)
    found = [at for at, name in enumerate(names) if name.lower() == key.name.lower()]
    if not found:
        raise misnamed(key, "PS-NAME-002", f"the answer has no column {key.name}", _REMEDY)
    return found[0]


def _computed(key: exp.Expr) -> UnsupportedError:
    return unsupported(
        key, "PS-SQL-026", "ORDER BY takes columns of the answer",
        "give the expression a name in the select list, and order by that name",
    )  # fmt: skip
