"""ORDER BY, LIMIT and OFFSET of a SELECT that is evaluated once: over the columns of its answer.

They are taken off the tree before it is bound, because a standing query has none of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from penstock.errors import UnsupportedError
from penstock.sql.complain import misnamed, unsupported

_CLAUSES = ("order", "limit", "offset")
_REMEDY = "order by a column of the answer: its name, or its position from 1 on"


@dataclass(frozen=True, slots=True)
class Ordering:
    """How the rows of an answer are ordered and cut."""

    keys: tuple[exp.Ordered, ...] = ()
    limit: int | None = None
    offset: int = 0

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows in order: by the last key first, since each sort keeps what it finds equal."""
        for key in reversed(self.keys):
            column = table.column(_place(key.this, table.column_names))
            descending, first = bool(key.args.get("desc")), bool(key.args.get("nulls_first"))
            order = pc.array_sort_indices(
                column.combine_chunks(),
                order="descending" if descending else "ascending",
                null_placement="at_start" if first else "at_end",
            )
            table = table.take(order)
        return table.slice(self.offset, self.limit)


def take_off(query: exp.Query) -> tuple[exp.Query, Ordering]:
    """A query without these clauses, and what they say."""
    if not any(query.args.get(name) for name in _CLAUSES):
        return query, Ordering()
    order, limit, offset = (query.args.get(name) for name in _CLAUSES)
    plain = type(query)(**{k: v for k, v in query.args.items() if k not in _CLAUSES})
    plain.meta.update(query.meta)
    keys = tuple(order.expressions) if order else ()
    return plain, Ordering(keys, _count(limit), _count(offset) or 0)


def _count(clause: exp.Expr | None) -> int | None:
    """The number that a LIMIT or OFFSET names."""
    number = None if clause is None else clause.args.get("expression")
    if clause is None:
        return None
    if isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit():
        return int(number.name)
    raise unsupported(
        clause, "PS-SQL-026", f"{clause.key.upper()} takes a number", "write it as digits"
    )


def _place(key: exp.Expr, names: list[str]) -> int:
    """The column of the answer that a key means."""
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
        "select the expression under a name, and order by the name",
    )  # fmt: skip
