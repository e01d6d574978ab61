"""Plans the aggregates of a GROUP BY: which state and which kernel each one gets.

The kernels are in `kernels/aggregates_*.py`. How rows leave decides how minima and maxima are kept
(DESIGN §5.3): as one value if rows never leave, as a monotonic deque if they leave a FIFO, as an
ordered multiset otherwise.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.errors import PlanError
from penstock.kernels import aggregates_order as order
from penstock.kernels import aggregates_spread as spread
from penstock.kernels import aggregates_sums as sums
from penstock.kernels import deque
from penstock.kernels.aggregates_events import ARGS, SHOWN, AggSlots
from penstock.kernels.pairs.alive import SUM_WORDS
from penstock.logical.expr import Agg, Column, Expr
from penstock.logical.functions import SUM_OF_PARTS, SUM_PARTS
from penstock.physical.expiry import Kept, Store
from penstock.types import Kind

_DECIMAL_BOUND = 10**18 - 1


class Keep(enum.Enum):
    """The kind of state that one aggregate keeps for each group."""

    ROWS = "row count"
    COUNT = "count"
    WIDE = "128-bit sum"
    FLOAT = "exact sum of doubles"
    PARTS = "exact sum of doubles, shown in parts"
    PART = "part shown by the aggregate before"
    MERGED = "exact sum of sums in parts"
    COUNTS = "sum of counts"
    SUMS = "128-bit sum of sums in halves"
    SPREAD = "exact sums of x and x²"
    BEST = "best value"
    DEQUE = "monotonic deque"
    TREE = "ordered multiset"


_WORDS = {
    Keep.ROWS: 0,
    Keep.COUNT: sums.COUNT_WORDS,
    Keep.WIDE: sums.WIDE_WORDS,
    Keep.FLOAT: sums.FLOAT_WORDS,
    Keep.PARTS: sums.FLOAT_WORDS,
    Keep.PART: 0,
    Keep.MERGED: sums.FLOAT_WORDS,
    Keep.COUNTS: sums.COUNT_WORDS,
    Keep.SUMS: sums.WIDE_WORDS,
    Keep.SPREAD: spread.SPREAD_WORDS,
    Keep.BEST: order.BEST_WORDS,
    Keep.DEQUE: deque.STATE_WORDS,
    Keep.TREE: order.TREE_WORDS,
}
EXACT = (Keep.FLOAT, Keep.PARTS, Keep.MERGED)
"""Kinds of state that hold an exact sum and the counts of finite and other values."""
_OF_PARTS = {
    SUM_PARTS[0]: Keep.PARTS, **dict.fromkeys(SUM_PARTS[1:], Keep.PART), SUM_OF_PARTS: Keep.MERGED,
}  # fmt: skip


_SEVERAL = {Keep.MERGED: len(SUM_PARTS), Keep.SUMS: SUM_WORDS}
"""Kinds of state of aggregates that read several adjacent columns, and how many."""


@dataclass(frozen=True, slots=True)
class AggPlan:
    """One aggregate: its kind of state and the place of that state.

    If `distinct`, the entry of a row holds the id of the value instead of the value.
    """

    agg: Agg
    keep: Keep
    place: AggSlots
    distinct: bool
    floats: bool
    text: bool
    scale: float
    bound: int

    @property
    def gated(self) -> AggSlots:
        """The place in entries returned by `gate_distinct`, which hold the argument only."""
        return AggSlots(self.place.agg, ARGS, self.place.at)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plans of all aggregates of one GROUP BY.

    `arguments` are the input columns that an entry stores; the ids of distinct values follow them.
    """

    aggs: tuple[AggPlan, ...]
    arguments: I64
    columns: I64
    filters: I64
    entry_width: int
    state_width: int

    def users(self, keep: Keep, text: bool) -> list[AggPlan]:
        """Aggregates with this kind of state: those over strings if `text`, the others if not."""
        return [a for a in self.aggs if a.keep is keep and a.text == text]


def plan_aggregates(aggs: tuple[Agg, ...], kept: Kept, of_totals: bool = False) -> GroupPlan:
    """Choose the state of each aggregate for rows that leave as `kept` says.

    If the rows are totals, column 0 has the change of the count.
    """
    columns = [0 if of_totals and a.arg is None else _column(a.arg) for a in aggs]
    filters = [_column(a.filter) for a in aggs]
    keeps = [_keep_totals(a) if of_totals else _keep(a, kept) for a in aggs]
    plain = {c for a, c in zip(aggs, columns, strict=True) if c >= 0 and not _is_distinct(a)}
    several = [(c, _SEVERAL[k]) for c, k in zip(columns, keeps, strict=True) if k in _SEVERAL]
    arguments = sorted(plain.union(c + i for c, words in several for i in range(words)))
    word, at = ARGS + len(arguments), SHOWN + len(aggs)
    planned: list[AggPlan] = []
    for i, (agg, keep) in enumerate(zip(aggs, keeps, strict=True)):
        slot = 0
        if _is_distinct(agg):
            slot, word = word, word + 1
        elif columns[i] >= 0:
            slot = ARGS + arguments.index(columns[i])
        planned.append(_plan(agg, keep, AggSlots(i, slot, at)))
        at += _WORDS[keep]
    return GroupPlan(
        tuple(planned),
        np.array(arguments, np.int64),
        np.array(columns, np.int64),
        np.array(filters, np.int64),
        word,
        at,
    )


def _plan(agg: Agg, keep: Keep, place: AggSlots) -> AggPlan:
    if agg.arg is None:
        return AggPlan(agg, keep, place, False, False, False, 1.0, 0)
    type_ = agg.arg.type
    bound = _DECIMAL_BOUND if type_.kind is Kind.DECIMAL else 0
    return AggPlan(
        agg, keep, place, _is_distinct(agg), type_.is_float, type_.is_string,
        10.0**type_.scale, bound,
    )  # fmt: skip


def _column(expr: Expr | None) -> int:
    if expr is None:
        return -1
    if not isinstance(expr, Column):
        raise PlanError(f"{expr} inside an aggregate is not a column")
    return expr.index


def _is_distinct(agg: Agg) -> bool:
    """Whether repeated values must be counted; for min and max they make no difference."""
    return agg.distinct and agg.arg is not None and agg.fn not in ("min", "max")


def _keep_totals(agg: Agg) -> Keep:
    return Keep.COUNTS if agg.fn == "count" else Keep.SUMS


def _keep(agg: Agg, kept: Kept) -> Keep:
    if agg.fn == "count":
        return Keep.ROWS if agg.arg is None and agg.filter is None else Keep.COUNT
    if agg.arg is None:
        raise PlanError(f"{agg.fn} needs an argument")
    if agg.fn in ("min", "max"):
        if not kept.learns:
            return Keep.BEST
        return Keep.DEQUE if kept.store is Store.FIFO else Keep.TREE
    if not agg.arg.type.is_numeric:
        raise PlanError(f"{agg} needs a numeric argument, not {agg.arg.type}")
    if agg.fn in _OF_PARTS:
        return _OF_PARTS[agg.fn]
    if agg.fn in ("sum", "avg"):
        return Keep.FLOAT if agg.arg.type.is_float else Keep.WIDE
    if agg.fn == "stddev":
        return Keep.SPREAD
    if agg.fn == "median":
        return Keep.TREE
    raise PlanError(f"there is no aggregate {agg.fn}")
