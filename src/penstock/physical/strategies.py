"""The policy of each strategy: what `physical/expiry_policy.py` asks when it decides.

This is the only module of the planner that knows strategies by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.logical.strategy import STRATEGIES, Strategy
from penstock.patterns.edge import Edge, Emit
from penstock.physical.expiry import Store
from penstock.physical.expiry_policy import ExpiryPolicy, PatternAware


@dataclass(frozen=True, slots=True)
class Negative(PatternAware):
    """Negative tuples: a −1 row for every row that leaves a window (Ghanem et al. 2005, §4.2).

    EXPIRE above each window is the only operator that keeps rows by their expiry. It emits them in
    order of arrival, so its own store is the one for the window's pattern.
    """

    windows_tell: bool = True
    joins_logs: bool = False

    def tells(self, wish: Emit) -> bool:
        """Every operator does that can."""
        return True


@dataclass(frozen=True, slots=True)
class Direct(PatternAware):
    """Direct expiry: rows carry `exp`, and operators scan their state (Golab & Özsu 2005, §2.3.2).

    State is in order of insertion, whatever the pattern. Results leave silently where they can. The
    input-triggered approach has the same plans; `engine/triggered.py` runs them at other times.
    """

    joins_logs: bool = False
    renews: bool = False

    def store(self, edge: Edge) -> Store:
        """A list, for rows that leave in any order."""
        return Store.LIST


@dataclass(frozen=True, slots=True)
class Reevaluate(PatternAware):
    """Windows from scratch at each instant at which they change (Sah & Prasad, introduction)."""

    joins_logs: bool = False
    reevaluates: bool = True


_POLICIES: dict[str, ExpiryPolicy] = {
    "upa": PatternAware(),
    "reevaluate": Reevaluate(),
    "direct": Direct(),
    "input-triggered": Direct(),
    "negative": Negative(),
}


def policy_of(strategy: Strategy) -> ExpiryPolicy:
    """The decisions of a strategy."""
    return _POLICIES[strategy.name]


_MISSING = {s.name for s in STRATEGIES} ^ _POLICIES.keys()
assert not _MISSING, f"strategies without a policy, or policies without a strategy: {_MISSING}"
