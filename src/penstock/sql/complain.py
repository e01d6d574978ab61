"""Shorthands for refusing a piece of syntax at its place."""

from __future__ import annotations

import re

from sqlglot import exp

from penstock.errors import NameError_, Place, TypeError_, UnsupportedError
from penstock.sql.dialect import place_of

SUBQUERY = "PS-SQL-016"
CORRELATED = "PS-SQL-017"
NRR = "PS-SQL-018"
WINDOW = "PS-SQL-020"
OTHER = "PS-SQL-024"
CHANGELOG_NAMES = frozenset({"_query", "_change_type", "_time", "_batch", "_seq"})
"""Columns of every changelog: no answer may have them."""
KEPT_OUT_NAMES = frozenset({"_malformed", "_watermark", "_reason", "_row"})
"""Columns of late and quarantined rows: no stream may have them."""


def unsupported(node: exp.Expr, code: str, message: str, remedy: str) -> UnsupportedError:
    """The error for syntax that is understood but not supported."""
    return UnsupportedError(message, code=code, place=place_of(node), remedy=remedy)


def misnamed(node: exp.Expr, code: str, message: str, remedy: str) -> NameError_:
    """The error for an unknown or ambiguous name."""
    return NameError_(message, code=code, place=place_of(node), remedy=remedy)


def reserved(name: str, place: Place | None) -> NameError_:
    """A column name that Penstock itself uses."""
    return NameError_(
        f"the column name {name} is reserved", code="PS-NAME-007", place=place,
        remedy=f"choose another name, such as {name.lstrip('_')}",
    )  # fmt: skip


def mistyped(node: exp.Expr, message: str, remedy: str, code: str = "PS-TYPE-001") -> TypeError_:
    """The error for operands of types that do not fit."""
    return TypeError_(message, code=code, place=place_of(node), remedy=remedy)


def words(node: exp.Expr) -> str:
    """The name of a kind of syntax in words: AT TIME ZONE, BITWISE AND."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries anything beyond the `allowed` parts.

    The parser accepts far more syntax than the binder supports. Parts that are not listed here
    must never be ignored silently.
    """
    for name, value in node.args.items():
        if name not in allowed and value:
            what = value[0] if isinstance(value, list) else value
            where = what if isinstance(what, exp.Expr) and place_of(what) else node
            clause = name.strip("_").replace("_", " ").upper()
            raise unsupported(
                where, OTHER, f"{words(node)} … {clause} is not supported",
                "leave it out; docs/sql.md lists the supported syntax",
            )  # fmt: skip
