"""Probing SteMs: rows of a chunk meet the earlier rows of another alias (CACQ §3.3.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.delta import I64, Bool
from penstock.errors import PlanError
from penstock.sharing.chunk import Chunk
from penstock.sharing.grouped_filter_terms import ordered
from penstock.sharing.span import Place, Span, SpanBand
from penstock.sharing.stem import HashStem, OrderedStem, Stem

F64 = NDArray[np.float64]
Key = tuple[tuple[int, ...], bool]
"""Columns, and whether rows are found in their order."""

_ROUNDING = 8 * np.finfo(np.float64).eps


class StemModule:
    """The SteMs of one alias of a span, one for each key by which it is looked up."""

    def __init__(self, span: Span, alias: int, stems: dict[Key, Stem]) -> None:
        self.alias = alias
        self.stems = stems
        self.name = f"stem {span.streams[alias]}"
        self._span = span

    def ready(self, present: frozenset[int]) -> bool:
        """Whether what is present can be looked up here."""
        span = self._span
        return bool(span.links(self.alias, present) or span.bands_with(self.alias, present))

    def probe(self, chunk: Chunk) -> Chunk:
        """The rows of the chunk, once for each earlier row of this alias that fits."""
        present = frozenset(chunk.positions)
        links = self._span.links(self.alias, present)
        bands = self._span.bands_with(self.alias, present)
        limit = chunk.entry.limits[self.alias][chunk.root]
        floor = chunk.entry.floors[self.alias]
        if links:
            used = links if len(self._span) == 2 else links[:1]
            rows, positions = self._look_up(chunk, used, floor, limit)
            links = links[len(used) :]
        else:
            rows, positions = self._in_band(chunk, bands[0], floor, limit)
        joined = chunk.take(rows)
        joined.positions[self.alias] = positions
        return self._verified(joined, links, bands)

    def _look_up(
        self, chunk: Chunk, links: list[tuple[int, Place]], floor: int, limit: I64
    ) -> tuple[I64, I64]:
        stem = self.stems[tuple(column for column, _ in links), False]
        if not isinstance(stem, HashStem):
            raise PlanError("a key of equal columns needs a hash")
        keys = np.empty((len(links), len(chunk)), np.int64)
        null = np.zeros(len(chunk), np.bool_)
        for at, (_, (alias, column)) in enumerate(links):
            keys[at], words = chunk.values(alias, column)
            null |= (words >> column) & 1 != 0
        return stem.probe(keys, null, floor, limit)

    def _in_band(self, chunk: Chunk, band: SpanBand, floor: int, limit: I64) -> tuple[I64, I64]:
        mine_is_right = band.right[0] == self.alias
        mine, (alias, column) = (
            (band.right, band.left) if mine_is_right else (band.left, band.right)
        )
        stem = self.stems[(mine[1],), True]
        if not isinstance(stem, OrderedStem):
            raise PlanError("a band needs a SteM in order")
        values, words = chunk.values(alias, column)
        null: Bool = (words >> column) & 1 != 0
        if band.is_float:
            low, high = _wide_range(band, values, is_left=mine_is_right)
        else:
            low, high = band.range_of(values, is_left=mine_is_right)
        return stem.probe(low, high, null, floor, limit)

    def _verified(
        self, chunk: Chunk, links: list[tuple[int, Place]], bands: list[SpanBand]
    ) -> Chunk:
        """Rows that satisfy all that the key did not say."""
        if not len(chunk) or not (links or bands):
            return chunk
        keep = np.ones(len(chunk), np.bool_)
        for column, (alias, other) in links:
            left, left_nulls = chunk.values(self.alias, column)
            right, right_nulls = chunk.values(alias, other)
            known = ((left_nulls >> column) | (right_nulls >> other)) & 1 == 0
            keep &= known & (left == right)
        for band in bands:
            left, left_nulls = chunk.values(*band.left)
            right, right_nulls = chunk.values(*band.right)
            known = ((left_nulls >> band.left[1]) | (right_nulls >> band.right[1])) & 1 == 0
            keep &= known & band.holds(left, right)
        return chunk if keep.all() else chunk.take(np.flatnonzero(keep))


def _wide_range(band: SpanBand, values: I64, *, is_left: bool) -> tuple[I64, I64]:
    """Ordered integers around the partners of floats: all of them, and few more."""
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
