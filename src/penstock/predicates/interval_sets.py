"""The values that a condition accepts, per query: disjoint intervals of ordered integers.

The constants of a query cut the integers into regions. Within a region the condition has one truth
value (of SQL's three), so testing one point of each region, and NULL, is enough. Some leaves are
not known exactly: texts with equal first bytes, patterns, constants that cannot be evaluated. They
count as possibly true and possibly false; the intervals are then a superset, and the query is not
`exact`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.logical.expr import Call, Expr, columns_of, params_of, walk
from penstock.predicates.leaves import Leaf, fixed_leaf, is_logic, value_leaf
from penstock.predicates.terms import LEAST, MOST

_MOST_POINTS = 1 << 20  # most points tested at once


@dataclass(frozen=True, slots=True)
class IntervalSets:
    """Query i accepts the values in ``[lows[j], highs[j]]``, offsets[i] ≤ j < offsets[i + 1].

    The intervals of a query are disjoint and ascend. `null` marks the queries that accept NULL as
    the value. A query that is not `exact` accepts some or all of these values.
    """

    offsets: I64
    lows: I64
    highs: I64
    null: Bool
    exact: Bool

    def __len__(self) -> int:
        return int(self.null.shape[0])

    def __getitem__(self, chosen: I64) -> IntervalSets:
        """The intervals of some queries."""
        counts = np.diff(self.offsets)[chosen]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], counts)
        return IntervalSets(
            offsets, self.lows[at], self.highs[at], self.null[chosen], self.exact[chosen]
        )

    def single_values(self) -> IntervalSets:
        """Split intervals so that each value has its own; useful if there are few values."""
        sizes = self.highs - self.lows + 1
        ends = np.cumsum(sizes)
        within = np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes)
        values = np.repeat(self.lows, sizes) + within
        offsets = np.concatenate([[0], ends])[self.offsets]
        return IntervalSets(offsets, values, values, self.null, self.exact)


@dataclass(frozen=True, slots=True)
class Truth:
    """By query and point: whether a condition may be true, and whether it may be false.

    If neither, the condition is unknown (NULL).
    """

    true: Bool
    false: Bool


def interval_sets_of(
    condition: Expr, value: Expr, by_text: bool, params: I64, ctx: Context
) -> IntervalSets:
    """The intervals of `value` that queries accept, given their parameters.

    `params` has a row per query, NULL word first. Strings are compared by the keys of their texts
    if `by_text`, else by their codes.
    """
    n = params.shape[0]
    if n == 0:
        none = np.zeros(0, np.int64)
        return IntervalSets(np.zeros(1, np.int64), none, none, none != 0, none != 0)
    if n > 1 and not params_of(condition):
        return interval_sets_of(condition, value, by_text, params[:1], ctx)[np.zeros(n, np.int64)]
    step = max(1, _MOST_POINTS // (2 * sum(1 for _ in walk(condition))))
    parts = [
        _some_intervals(condition, value, by_text, params[i : i + step], ctx)
        for i in range(0, n, step)
    ]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[IntervalSets]) -> IntervalSets:
    starts = np.cumsum([0, *(p.lows.shape[0] for p in parts)])
    return IntervalSets(
        np.concatenate([[0], *(p.offsets[1:] + s for p, s in zip(parts, starts, strict=False))]),
        np.concatenate([p.lows for p in parts]),
        np.concatenate([p.highs for p in parts]),
        np.concatenate([p.null for p in parts]),
        np.concatenate([p.exact for p in parts]),
    )


def _some_intervals(
    condition: Expr, value: Expr, by_text: bool, params: I64, ctx: Context
) -> IntervalSets:
    n = params.shape[0]
    leaves: dict[Expr, Leaf] = {}
    for expr in _leaves(condition):
        if columns_of(expr):
            leaves[expr] = value_leaf(expr, value, by_text, params.T, ctx)
        else:
            leaves[expr] = fixed_leaf(expr, params.T, ctx)
    whole = leaves.get(condition)
    if whole is not None and whole.is_interval:
        return _interval(whole, n)
    vague = np.zeros((n, 1), np.bool_)
    for leaf in leaves.values():
        vague |= leaf.vague | leaf.bad
    points = _points(list(leaves.values()), n)
    taken = _truth(condition, leaves, points, vague).true
    inside = np.zeros((n, points.shape[1] + 2), np.bool_)
    inside[:, 1:-1] = taken[:, :-1]
    begins, ends = inside[:, 1:-1] & ~inside[:, :-2], inside[:, 1:-1] & ~inside[:, 2:]
    last = np.full((n, points.shape[1]), MOST)
    last[:, :-1] = points[:, 1:] - 1
    offsets = np.concatenate([[0], np.cumsum(begins.sum(axis=1))])
    return IntervalSets(offsets, points[begins], last[ends], taken[:, -1].copy(), ~vague[:, 0])


def _interval(leaf: Leaf, n: int) -> IntervalSets:
    """The intervals of a single comparison, computed directly."""
    taken = _by_query((leaf.lows <= leaf.highs) & ~leaf.unknown, n)
    lows, highs = (_by_query(a, n)[taken] for a in (leaf.lows, leaf.highs))
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(taken, out=offsets[1:])
    return IntervalSets(offsets, lows, highs, np.zeros(n, np.bool_), ~_by_query(leaf.vague, n))


def _by_query(column: NDArray[Any], n: int) -> NDArray[Any]:
    """A column of `n` values from one of `n` values or of one shared value."""
    return column[:, 0] if column.shape[0] == n else np.repeat(column[:, 0], n)


def _leaves(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Call) and columns_of(expr) and is_logic(expr):
        for arg in expr.args:
            yield from _leaves(arg)
    else:
        yield expr


def _points(leaves: list[Leaf], n: int) -> I64:
    """The starts of regions, ascending, by query."""
    parts = [np.full((n, 1), LEAST)]
    for leaf in leaves:
        after = np.where(leaf.highs < MOST, leaf.highs, MOST - 1) + 1
        parts += [np.broadcast_to(a, (n, a.shape[1])) for a in (leaf.lows, after)]
    points = np.concatenate(parts, axis=1)
    points.sort(axis=1)
    return points


def _truth(expr: Expr, leaves: dict[Expr, Leaf], points: I64, vague: Bool) -> Truth:
    leaf = leaves.get(expr)
    if leaf is not None:
        return _try(leaf, points)
    assert isinstance(expr, Call)
    parts = [_truth(arg, leaves, points, vague) for arg in expr.args]
    if expr.fn == "not":
        return Truth(parts[0].false, parts[0].true)
    if expr.fn == "coalesce":  # if not certainly true, it may be false
        return Truth(parts[0].true, ~parts[0].true | vague)
    result = parts[0]
    for part in parts[1:]:
        if expr.fn == "and":
            result = Truth(result.true & part.true, result.false | part.false)
        else:
            result = Truth(result.true | part.true, result.false & part.false)
    return result


def _try(leaf: Leaf, points: I64) -> Truth:
    """The truth of a leaf at the points, then at NULL."""
    shape = (points.shape[0], points.shape[1] + 1)
    inside = np.zeros(shape, np.bool_)
    for j in range(leaf.lows.shape[1]):
        low, high = leaf.lows[:, j : j + 1], leaf.highs[:, j : j + 1]
        inside[:, :-1] |= (low <= points) & (points <= high)
    known = np.broadcast_to(~leaf.unknown, shape).copy()
    if leaf.of_null is not None:
        inside[:, -1] = leaf.of_null
    else:
        known[:, -1] = False
    true = (inside & known) | leaf.bad
    false = ((~inside | leaf.vague) & known & ~leaf.never_false) | leaf.bad
    return Truth(false, true) if leaf.negated else Truth(true, false)
