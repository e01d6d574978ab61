"""Kernels of the grouped filter of one value against plain twins; filters that grow."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.slot_rows import RowsInSlots
from penstock.arrays import I64
from penstock.expressions.context import Context, Failures
from penstock.indexes.bitmap.regions import CONJUNCT, RegionBitmaps
from penstock.indexes.call_index import CallIndex
from penstock.indexes.contract import QueryRows
from penstock.kernels.attribute_filter import cut_regions
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Call, Column, Param
from penstock.predicates.interval_sets import IntervalSets
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def cut_twin(starts: I64, places: I64, lows: I64, highs: I64, row: int) -> list[list[int]]:
    """The cuts one after another, each a copy of the region that it cuts."""
    row_of = dict(zip(starts.tolist(), places.tolist(), strict=False))
    old, copied = sorted(row_of), []
    for edge in sorted({*lows.tolist(), *(h + 1 for h in highs.tolist() if h < MOST)}):
        if edge not in row_of:
            copied.append(row_of[max(s for s in old if s <= edge)])
            row_of[edge] = row + len(copied) - 1
    found = sorted(row_of)
    return [found, [*(row_of[s] for s in found), int(places[-1])], copied]


@pytest.mark.parametrize("seed", range(40))
def test_regions_are_cut_where_intervals_begin_and_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    regions, n = int(rng.integers(1, 9)), int(rng.integers(0, 5))
    starts = np.append(LEAST, np.sort(rng.choice(30, regions - 1, replace=False)))
    places = rng.permutation(regions + 1).astype(np.int32)
    lows = rng.choice([LEAST, *range(30)], n).astype(np.int64)
    highs = np.maximum(lows, rng.choice([MOST, *range(30)], n).astype(np.int64))
    found = cut_regions(starts, places, lows, highs, regions + 1)
    assert [part.tolist() for part in found] == cut_twin(starts, places, lows, highs, regions + 1)


def some_pieces(rng: np.random.Generator, n: int) -> IntervalSets:
    lows = rng.integers(0, 20, n)
    null = rng.random(n) < 0.3
    return IntervalSets(
        np.arange(n + 1), lows, lows + rng.integers(0, 9, n), null, np.ones(n, np.bool_)
    )


def taken(found: RegionBitmaps, clauses: int) -> tuple[U64, U64]:
    values, null = np.arange(-1, 32), np.arange(33) == 32
    bits = np.full((33, found.words), 2**64 - 1, np.uint64)
    satisfied = np.zeros((33, clauses), np.uint64)
    found.narrow(values, null, np.arange(33), bits, satisfied)
    return bits, satisfied


@pytest.mark.parametrize("part", [False, True])
def test_a_filter_that_grows_is_one_that_was_large_from_the_start(part: bool) -> None:
    rng = np.random.default_rng(7)
    growing, large = RegionBitmaps(1), RegionBitmaps(4)
    for words, first in ((1, 0), (2, 64), (4, 128)):
        if words > 1:
            growing.widen(words)
        for at in range(first, 64 * words, 16):
            slots, pieces = np.arange(at, at + 16), some_pieces(rng, 16)
            clauses = np.where(rng.random(16) < 0.5 * part, slots, CONJUNCT)
            for one in (growing, large):
                one.add(slots, pieces, clauses)
        gone = rng.choice(64 * words, 20, replace=False)
        for one in (growing, large):
            one.remove(gone)
    assert growing.uses.tolist() == large.uses.tolist()
    for left, right in zip(taken(growing, 4), taken(large, 4), strict=True):
        assert np.array_equal(left, right)


def test_calls_that_grow_are_those_that_were_large_from_the_start() -> None:
    ctx = Context(StringTable(Arena().scope("strings")), {}, Failures())
    total = Call(BIGINT, "add", (Column(BIGINT, 0), Param(BIGINT, 0)))
    predicate = Call(BOOLEAN, "gt", (total, Param(BIGINT, 1)))
    growing, large = CallIndex(0, predicate, ctx), CallIndex(0, predicate, ctx, words=2)
    rng = np.random.default_rng(3)
    for first in (0, 64):
        if first:
            growing.widen(2)
        params = np.hstack([np.zeros((64, 1), np.int64), rng.integers(0, 4, (64, 2))])
        for one in (growing, large):
            one.add(QueryRows(np.arange(first, first + 64), params))
            one.remove(np.arange(first, first + 64, 5))
    columns = np.stack([np.zeros(9, np.int64), np.arange(-4, 5)])
    found = [np.full((9, 2), 2**64 - 1, np.uint64) for _ in range(2)]
    for one, bits in zip((growing, large), found, strict=True):
        batch = RowsInSlots(columns, np.arange(9), bits)
        one.match(batch)
        assert batch.faults == []
    assert np.array_equal(*found)
    assert growing.uses.tolist() == large.uses.tolist()
