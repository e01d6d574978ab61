"""Probing SteMs: rows of a batch join earlier rows of another alias (CACQ §3.3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64
from penstock.eddy.lineage_batch import LineageBatch
from penstock.errors import PlanError
from penstock.logical.stem_kind import StemKey, StemKind
from penstock.optimizer.span import AliasColumn, Span, SpanBand
from penstock.predicates.terms import ordered
from penstock.stems.stem import HashStem, OrderedStem, Stem

F64 = NDArray[np.float64]
Way = tuple[list[tuple[int, AliasColumn]], list[SpanBand]]
"""Pairs of equal columns, and bands."""

_ROUNDING = 8 * np.finfo(np.float64).eps


class StemStep:
    """The SteMs of one alias of a span, one for each key that looks it up."""

    def __init__(self, span: Span, alias: int, stems: dict[StemKey, Stem]) -> None:
        self.alias = alias
        self.stems = stems
        self.name = f"stem {span.streams[alias]}"
        self._span = span
        self._ways: dict[frozenset[int], Way] = {}

    def _way(self, present: frozenset[int]) -> Way:
        """The equalities and bands that connect this alias with the aliases in `present`."""
        way = self._ways.get(present)
        if way is None:
            span = self._span
            way = span.links(self.alias, present), span.bands_with(self.alias, present)
            self._ways[present] = way
        return way

    def ready(self, present: frozenset[int]) -> bool:
        """Whether rows of the aliases in `present` can probe this alias."""
        return any(self._way(present))

    def probe(self, batch: LineageBatch) -> LineageBatch:
        """Join the batch with all earlier rows of this alias that match."""
        links, bands = self._way(frozenset(batch.positions))
        limit = batch.entry.limits[self.alias][batch.root]
        floor = batch.entry.floors[self.alias]
        if links:
            used = links if len(self._span) == 2 else links[:1]
            rows, positions = self._look_up(batch, used, floor, limit)
            links = links[len(used) :]
        else:
            rows, positions = self._in_band(batch, bands[0], floor, limit)
        joined = batch.take(rows)
        joined.positions[self.alias] = positions
        return self._verified(joined, links, bands)

    def _look_up(
        self, batch: LineageBatch, links: list[tuple[int, AliasColumn]], floor: int, limit: I64
    ) -> tuple[I64, I64]:
        stem = self.stems[tuple(column for column, _ in links), StemKind.HASH]
        if not isinstance(stem, HashStem):
            raise PlanError("a key of equal columns needs a hash")
        keys = np.empty((len(links), len(batch)), np.int64)
        null = np.zeros(len(batch), np.bool_)
        for at, (_, (alias, column)) in enumerate(links):
            batch.read(alias, column, keys[at], null)
        return stem.probe(keys, null, floor, limit)

    def _in_band(
        self, batch: LineageBatch, band: SpanBand, floor: int, limit: I64
    ) -> tuple[I64, I64]:
        mine_is_right = band.right[0] == self.alias
        mine, (alias, column) = (
            (band.right, band.left) if mine_is_right else (band.left, band.right)
        )
        stem = self.stems[(mine[1],), StemKind.ORDERED]
        if not isinstance(stem, OrderedStem):
            raise PlanError("a band needs a SteM in order")
        values, null = batch.values(alias, column)
        if band.is_float:
            low, high = _wide_range(band, values, is_left=mine_is_right)
        else:
            low, high = band.range_of(values, is_left=mine_is_right)
        return stem.probe(low, high, null, floor, limit)

    def _verified(
        self, batch: LineageBatch, links: list[tuple[int, AliasColumn]], bands: list[SpanBand]
    ) -> LineageBatch:
        """Keep the rows that satisfy the equalities and bands that the probe did not test."""
        if not len(batch) or not (links or bands):
            return batch
        keep = np.ones(len(batch), np.bool_)
        for column, (alias, other) in links:
            left, left_null = batch.values(self.alias, column)
            right, right_null = batch.values(alias, other)
            keep &= ~(left_null | right_null) & (left == right)
        for band in bands:
            left, left_null = batch.values(*band.left)
            right, right_null = batch.values(*band.right)
            keep &= ~(left_null | right_null) & band.holds(left, right)
        return batch if keep.all() else batch.take(np.flatnonzero(keep))


def _wide_range(band: SpanBand, values: I64, *, is_left: bool) -> tuple[I64, I64]:
    """A range of ordered integers that contains all float partners, and few others."""
    low, high = band.low, band.high
    if not is_left:
        low, high = None if high is None else -high, None if low is None else -low
    v = values.view(np.float64)
    with np.errstate(all="ignore"):
        lows = np.full(v.shape, -np.inf) if low is None else v + low - _slack(v, low)
        highs = np.full(v.shape, np.inf) if high is None else v + high + _slack(v, high)
    nowhere = np.isnan(lows) | np.isnan(highs)
    lows, highs = np.where(nowhere, 1.0, lows), np.where(nowhere, 0.0, highs)
    return ordered((lows + 0.0).view(np.int64)), ordered((highs + 0.0).view(np.int64))


def _slack(values: F64, bound: float) -> F64:
    return _ROUNDING * (np.abs(values) + abs(bound)) + 1e-300
