"""The clause WITH (option = 'value', …) of CREATE MATERIALIZED VIEW."""

from __future__ import annotations

from penstock.errors import SqlSyntaxError
from penstock.logical.strategy import Strategy, strategy_named
from penstock.sql.cursor import Cursor


def view_options(cursor: Cursor) -> Strategy | None:
    """Read the clause if it comes next: the strategy that it names, if any."""
    found: dict[str, Strategy] = {}
    if not cursor.accept("WITH"):
        return None
    cursor.expect("(", "write WITH (strategy = '…')")
    while True:
        name, strategy = _option(cursor, found)
        found[name] = strategy
        if not cursor.accept(","):
            break
    cursor.expect(")", "close the options with )")
    return found["strategy"]


def _option(cursor: Cursor, found: dict[str, Strategy]) -> tuple[str, Strategy]:
    """One option, which must be known and given once."""
    place, name = cursor.place(), cursor.name("an option").lower()
    if name != "strategy":
        raise SqlSyntaxError(
            f"a view has no option {name}",
            code="PS-STRATEGY-002",
            place=place,
            remedy="the only option is strategy: WITH (strategy = 'negative')",
        )
    if name in found:
        raise SqlSyntaxError(
            f"the option {name} is given twice",
            code="PS-STRATEGY-002",
            place=place,
            remedy="keep one of them",
        )
    cursor.expect("=", f"write {name} = '…'")
    place = cursor.place()
    return name, strategy_named(cursor.string("the strategy's name"), place)
