"""The clause WITH (option = value, …) of CREATE MATERIALIZED VIEW."""

from __future__ import annotations

from penstock.errors import Place, SqlSyntaxError
from penstock.logical.strategy import (
    Strategy,
    check_option,
    strategy_named,
    with_heartbeats,
)
from penstock.sql.cursor import Cursor

Value = tuple[str | bool, Place]


def view_options(cursor: Cursor) -> Strategy | None:
    """Read the clause if it comes next: the strategy that it gives."""
    if not cursor.accept("WITH"):
        return None
    place, found = cursor.place(), dict[str, Value]()
    cursor.expect("(", "write WITH (strategy = '…')")
    while True:
        _option(cursor, found)
        if not cursor.accept(","):
            break
    cursor.expect(")", "close the options with )")
    if "strategy" not in found:
        raise SqlSyntaxError(
            "the options name no strategy",
            code="PS-STRATEGY-002",
            place=place,
            remedy="write WITH (strategy = '…', …)",
        )
    strategy = strategy_named(*found["strategy"])
    return with_heartbeats(strategy, *found.get("heartbeats", (True, place)))


def _option(cursor: Cursor, found: dict[str, Value]) -> None:
    """Read one option, which must be known and given once."""
    place, name = cursor.place(), cursor.name("an option").lower()
    check_option(name, place)
    if name in found:
        raise SqlSyntaxError(
            f"the option {name} is given twice",
            code="PS-STRATEGY-002",
            place=place,
            remedy="keep one of them",
        )
    cursor.expect("=", f"write {name} = …")
    found[name] = _string(cursor) if name == "strategy" else _truth(cursor)


def _string(cursor: Cursor) -> Value:
    place = cursor.place()
    return cursor.string("the strategy's name"), place


def _truth(cursor: Cursor) -> Value:
    place = cursor.place()
    if cursor.accept("TRUE"):
        return True, place
    cursor.expect("FALSE", "write true or false")
    return False, place
