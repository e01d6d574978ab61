"""Cost formulas of strategies, as in the paper (Agarwal et al. 2009, §4.1 and §4.2).

A formula is a sum of constants times amounts of work, in nanoseconds per row. The amounts are
known or estimated for each row.
There are formulas for queries with conditions on the probing row (select joins, SJ) and for those
without (band joins, BJ). `penstock calibrate` fits the constants.

They differ from the paper's where these kernels do. A SteM is several sorted runs, so log |S| and
log m′ are sums over runs. Vanilla tests a query's own conditions before it searches. In an R-tree
over own conditions and intervals, a partner meets the more nodes the longer intervals are beside
the slabs into which the tree is cut. Each group costs a search, and each of its affected queries a
descent in its R-tree. Strategies list results at different costs, so these are counted too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2

import numpy as np

from penstock.indexes.pairs.constants import Constants
from penstock.indexes.pairs.estimates import F64
from penstock.kernels.pairs.data import Queries

Amount = float | F64
"""The same for all rows, or an entry per row."""

BUILD, CALL = "κ", "ι"
"""Constants of what is not done per row: to build a structure, per |Q|·log |Q|, and to call it."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Hot groups: their number, and the mean length of their intervals.

    `scattered` queries are in no hot group.
    """

    groups: int
    length: float
    scattered: int


@dataclass(frozen=True, slots=True)
class Slabs:
    """Into how many slabs an R-tree over all conditions is cut, by own conditions and by interval.

    `overlap` is how many slabs an interval meets, besides its own.
    """

    own: float
    overlap: float


@dataclass(frozen=True, slots=True)
class Work:
    """Amounts by row: partners m′ in so many runs, log m′, accepting queries n′, scattered ones n″.

    `lookup` is log |S|. Of the accepting queries in hot groups, `affected` ones have a partner.
    `results` are the pairs k.
    """

    lookup: float
    runs: F64
    partners: F64
    search: F64
    queries: int
    accepting: F64
    slabs: Slabs
    hot: Clusters
    scattered_accepting: F64
    affected: F64
    results: F64


@dataclass(frozen=True, slots=True)
class Term:
    """A constant, its amount, and how the amount is written."""

    constant: str
    text: str
    amount: Callable[[Work], Amount]


@dataclass(frozen=True, slots=True)
class Formula:
    """The cost of a strategy; its name is the paper's."""

    name: str
    terms: tuple[Term, ...]

    def cost(self, constants: Constants, work: Work) -> F64:
        """Nanoseconds per row."""
        known = constants.of(self.name)
        parts = (known[term.constant] * term.amount(work) for term in self.terms)
        return np.asarray(sum(parts), np.float64)

    def price(self, constants: Constants, queries: int) -> float:
        """Nanoseconds to build the structure."""
        return constants.of(self.name)[BUILD] * queries * log2(2 + queries)

    def call(self, constants: Constants) -> float:
        """Nanoseconds per call of the kernel."""
        return constants.of(self.name)[CALL]

    def text(self, constants: Constants) -> str:
        """The formula with its constants, in nanoseconds."""
        known = constants.of(self.name)
        parts = [f"{known[t.constant]:.3g}·{t.text}" for t in self.terms if known[t.constant]]
        return " + ".join(parts)


RESULTS = "ρ"
"""The constant of results: of these, calibration knows the number."""

_LOOKUP = Term("α", "log|S|", lambda w: w.lookup)
_RESULTS = Term(RESULTS, "k", lambda w: w.results)
_SEARCHED = Term("γ", "n′·log m′", lambda w: w.accepting * w.search)
_ACCEPTING = Term("δ", "n′·log|Q|", lambda w: w.accepting * log2(1 + w.queries))
_SCATTERED_SEARCHED = Term("γ", "n″·log m′", lambda w: w.scattered_accepting * w.search)
_GROUPS = Term("ζ", "τ·log m′", lambda w: w.hot.groups * w.search)

_VANILLA = (_LOOKUP, Term("β", "|Q|", lambda w: w.queries), _SEARCHED, _RESULTS)
_DATA_OUTER = (
    _LOOKUP,
    Term("β", "m′·overlap", lambda w: w.partners * w.slabs.overlap),
    Term(
        "δ", "m′·slabs·n′/|Q|", lambda w: w.partners * w.slabs.own * w.accepting / max(w.queries, 1)
    ),
    Term("ε", "m′·log|Q|", lambda w: w.partners * log2(1 + w.queries)),
    _RESULTS,
)
_SELECT_FIRST = (
    _LOOKUP, Term("β", "log|Q|", lambda w: log2(1 + w.queries)), _SEARCHED, _ACCEPTING, _RESULTS
)  # fmt: skip
_MERGE = (
    _LOOKUP,
    Term("β", "m′", lambda w: w.partners),
    Term("γ", "|Q|", lambda w: w.queries * w.runs),
    _RESULTS,
)
_SELECT_HOTSPOT = (
    _LOOKUP,
    Term("β", "log|Qˢ|", lambda w: log2(1 + w.hot.scattered)),
    _SCATTERED_SEARCHED,
    Term("ε", "n″·log|Qˢ|", lambda w: w.scattered_accepting * log2(1 + w.hot.scattered)),
    _GROUPS,
    Term("η", "affected", lambda w: w.affected),
    _RESULTS,
)
_BAND_HOTSPOT = (
    _LOOKUP,
    Term("β", "m′", lambda w: w.partners * (w.hot.scattered > 0)),
    Term("γ", "|Qˢ|", lambda w: w.hot.scattered * w.runs),
    _GROUPS,
    _RESULTS,
)

_SELECT = {
    "vanilla": Formula("SJ-Vanilla", _VANILLA),
    "data_outer": Formula("SJ-JoinFirst", _DATA_OUTER),
    "select_first": Formula("SJ-SelectFirst", _SELECT_FIRST),
    "hotspot": Formula("SJ-Hotspot", _SELECT_HOTSPOT),
}
_BAND = {
    "vanilla": Formula("BJ-QOuter", _VANILLA),
    "data_outer": Formula("BJ-DOuter", _DATA_OUTER),
    "merge": Formula("BJ-MJ", _MERGE),
    "hotspot": Formula("BJ-Hotspot", _BAND_HOTSPOT),
}
FORMULAS: tuple[Formula, ...] = (*_SELECT.values(), *_BAND.values())


def formulas_of(queries: Queries) -> dict[str, Formula]:
    """The strategies between which rows are routed, for queries like these.

    Windows that differ by query are one more condition in the R-trees, as own conditions are.
    """
    return _SELECT if queries.own_low.shape[0] or queries.lengths.shape[0] else _BAND
