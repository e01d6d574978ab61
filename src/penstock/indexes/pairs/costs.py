"""What strategies cost, by formulas as in the paper (Agarwal et al. 2009, §4.1 and §4.2).

A formula is a sum of constants times amounts of work: of a row, with what is known of it, of its
partners and of the queries, in nanoseconds. What is found costs the same in all strategies, and is
left out. There are formulas for queries with conditions on the probing row (select joins, SJ) and
for those without (band joins, BJ). `penstock calibrate` fits the constants.

They differ from the paper's where these kernels differ. A SteM is several sorted runs, so that
log |S| and log m′ are sums over runs. Vanilla tests a query's own conditions before it searches. A
group costs a search, besides that of its R-tree. A packed R-tree is searched in less than √n where
boxes overlap little, so its formula has a logarithm too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2, sqrt

import numpy as np

from penstock.indexes.pairs.constants import Constants
from penstock.indexes.pairs.estimates import F64

Amount = float | F64
"""The same for all rows, or an entry per row."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Stabbing groups: how many, the sum of the roots of their sizes, and queries without one."""

    groups: int
    roots: float
    scattered: int


@dataclass(frozen=True, slots=True)
class Work:
    """What rows meet: log |S|, m′ and log m′, |Q|, n′, hot groups, and of scattered queries n″."""

    lookup: float
    partners: F64
    search: F64
    queries: int
    accepting: F64
    hot: Clusters
    scattered_accepting: F64


@dataclass(frozen=True, slots=True)
class Term:
    """A constant, what it is multiplied with, and how that is written."""

    constant: str
    text: str
    amount: Callable[[Work], Amount]


@dataclass(frozen=True, slots=True)
class Formula:
    """The cost of a strategy, by the name that the paper gives it."""

    name: str
    terms: tuple[Term, ...]

    def cost(self, constants: Constants, work: Work) -> F64:
        """Nanoseconds per row."""
        known = constants.of(self.name)
        parts = (known[term.constant] * term.amount(work) for term in self.terms)
        return np.asarray(sum(parts), np.float64)

    def price(self, constants: Constants, queries: int) -> float:
        """Nanoseconds that it takes to build the structure."""
        return constants.of(self.name)[BUILD.constant] * queries * log2(2 + queries)


BUILD = Term("κ", "|Q|·log|Q|", lambda work: 0.0)
"""Once per structure, so in no formula."""

_FOUND = Term("α", "log|S|", lambda work: work.lookup)
_TESTED = Term("β", "|Q|", lambda work: work.queries)
_SEARCHED = Term("γ", "n′·log m′", lambda work: work.accepting * work.search)
_STABBED = Term("δ", "m′·√|Q|", lambda work: work.partners * sqrt(work.queries))
_DESCENDED = Term("ε", "m′·log|Q|", lambda work: work.partners * log2(1 + work.queries))
_ACCEPTED = Term("β", "log|Q|", lambda work: log2(1 + work.queries))
_MET = Term("β", "m′", lambda work: work.partners)
_SWEPT = Term("γ", "|Q|", lambda work: work.queries)
_IN_GROUPS = Term("ε", "τ·log m′", lambda work: work.hot.groups * work.search)
_ROOTS = Term("δ", "Σ√|Qᵢ|", lambda work: work.hot.roots)
_LEFT = Term("β", "log|Qˢ|", lambda work: log2(1 + work.hot.scattered))
_LEFT_SEARCHED = Term("γ", "n″·log m′", lambda work: work.scattered_accepting * work.search)
_LEFT_MET = Term("β", "m′ (if |Qˢ| > 0)", lambda work: work.partners * (work.hot.scattered > 0))
_LEFT_SWEPT = Term("γ", "|Qˢ|", lambda work: work.hot.scattered)

_SELECT = {
    "vanilla": Formula("SJ-Vanilla", (_FOUND, _TESTED, _SEARCHED)),
    "data_outer": Formula("SJ-JoinFirst", (_FOUND, _STABBED, _DESCENDED)),
    "select_first": Formula("SJ-SelectFirst", (_FOUND, _ACCEPTED, _SEARCHED)),
    "hotspot": Formula("SJ-Hotspot", (_FOUND, _LEFT, _LEFT_SEARCHED, _ROOTS, _IN_GROUPS)),
}
_BAND = {
    "vanilla": Formula("BJ-QOuter", (_FOUND, _SEARCHED)),
    "data_outer": Formula("BJ-DOuter", (_FOUND, _STABBED, _DESCENDED)),
    "merge": Formula("BJ-MJ", (_FOUND, _MET, _SWEPT)),
    "hotspot": Formula("BJ-Hotspot", (_FOUND, _LEFT_MET, _LEFT_SWEPT, _IN_GROUPS)),
}
FORMULAS: tuple[Formula, ...] = (*_SELECT.values(), *_BAND.values())


def formulas_of(has_own: bool) -> dict[str, Formula]:
    """The strategies among which rows are routed, with or without conditions on the row itself."""
    return _SELECT if has_own else _BAND
