"""Strategies: how expirations reach the operators of a query's plan (DESIGN §5.8).

A strategy changes no answer. It is a value of the query, beside its text: queries that differ in it
have templates of their own. `physical/strategies.py` gives its meaning to the planner.
"""

from __future__ import annotations

from penstock.errors import Place, UnsupportedError
from penstock.frozen import record


@record
class Strategy:
    """How expirations reach operators, by name."""

    name: str


UPA = Strategy("upa")
"""The default: state and signals follow the update pattern of each edge (Golab & Özsu 2005)."""
STRATEGIES = (UPA, Strategy("reevaluate"), Strategy("direct"), Strategy("negative"))


def strategy_named(name: str, place: Place | None = None) -> Strategy:
    """The strategy of this name, in any case of letters; raises an error if there is none."""
    for known in STRATEGIES:
        if isinstance(name, str) and known.name == name.lower():
            return known
    raise UnsupportedError(
        f"unknown strategy {name!r}",
        code="PS-STRATEGY-001",
        place=place,
        remedy=f"use one of {', '.join(s.name for s in STRATEGIES)}",
    )


def chosen(name: str | None) -> Strategy | None:
    """The strategy that an argument names; None where it is left out."""
    return None if name is None else strategy_named(name)
