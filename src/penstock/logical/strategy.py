"""Strategies: how expirations reach the operators of a query's plan (DESIGN §5.8).

A strategy is a value of the query, beside its text: queries that differ in it have templates of
their own. `physical/strategies.py` gives its name a meaning for the planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import Place, UnsupportedError
from penstock.frozen import record


@record
class Strategy:
    """How expirations reach operators.

    Without `heartbeats`, the time of an operator moves only with rows that reach it. With them, the
    strategy changes no answer.
    """

    name: str
    heartbeats: bool = True

    def __str__(self) -> str:
        """As EXPLAIN shows it."""
        return self.name if self.heartbeats else f"{self.name}, heartbeats = false"


UPA = Strategy("upa")
"""The default: state and signals follow the update pattern of each edge (Golab & Özsu 2005)."""
INPUT_TRIGGERED = Strategy("input-triggered")
STRATEGIES = (UPA, *map(Strategy, ("reevaluate", "direct")), INPUT_TRIGGERED, Strategy("negative"))
OPTIONS = ("strategy", "heartbeats")
Given = str | Mapping[str, Any] | Strategy | None
"""A strategy as a caller gives it: its name, its options by name, or nothing."""


def strategy_of(given: Given, otherwise: Strategy) -> Strategy:
    """The strategy that a caller means; raises an error if there is none."""
    if given is None:
        return otherwise
    if isinstance(given, Strategy):
        return given
    options = given if isinstance(given, Mapping) else {"strategy": given}
    for name in options:
        check_option(name)
    named = strategy_named(options["strategy"]) if "strategy" in options else otherwise
    return with_heartbeats(named, options.get("heartbeats", True))


def strategy_named(name: Any, place: Place | None = None) -> Strategy:
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


def check_option(name: Any, place: Place | None = None) -> None:
    """Raise an error if a strategy has no such option."""
    if name not in OPTIONS:
        raise UnsupportedError(
            f"a strategy has no option {name}",
            code="PS-STRATEGY-002",
            place=place,
            remedy=f"the options are {' and '.join(OPTIONS)}",
        )


def with_heartbeats(strategy: Strategy, heartbeats: Any, place: Place | None = None) -> Strategy:
    """The strategy with heartbeats or without; raises an error if it cannot be without."""
    if not isinstance(heartbeats, bool):
        raise UnsupportedError(
            f"heartbeats = {heartbeats!r} is neither true nor false",
            code="PS-STRATEGY-002",
            place=place,
            remedy="write true or false",
        )
    if not heartbeats and strategy.name != INPUT_TRIGGERED.name:
        raise UnsupportedError(
            f"the strategy {strategy.name} always has heartbeats",
            code="PS-STRATEGY-002",
            place=place,
            remedy=f"only {INPUT_TRIGGERED.name} runs without them",
        )
    return Strategy(strategy.name, heartbeats)
