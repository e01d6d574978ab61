"""The constants of the cost formulas: fitted on this machine, or else the ones below.

`penstock calibrate` writes them to a file of the user, and sessions read it when they start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.frozen import record

_VERSION = 1  # of the formulas: constants of others mean something else
Fitted = Mapping[str, Mapping[str, "Constant"]]


@record
class Constant:
    """Nanoseconds per unit of work, and the 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants by strategy, as the paper names it, and letter."""

    fitted: Fitted
    origin: str = "defaults"

    def of(self, formula: str) -> dict[str, float]:
        """The constants of a formula."""
        return {letter: found.value for letter, found in self.fitted[formula].items()}


def of_this_machine() -> Constants:
    return DEFAULTS


_V = {
    "SJ-Vanilla": "αβγκ",
    "SJ-JoinFirst": "αδεκ",
    "SJ-SelectFirst": "αβγκ",
    "SJ-Hotspot": "αβγδεκ",
    "BJ-QOuter": "αγκ",
    "BJ-DOuter": "αδεκ",
    "BJ-MJ": "αβγκ",
    "BJ-Hotspot": "αβγεκ",
}
DEFAULTS = Constants({n: {l: Constant(1, 1, 1) for l in ls} for n, ls in _V.items()})
