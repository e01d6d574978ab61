"""The bit-sliced scan: every query against a chunk of rows, 64 rows at a time.

A query has an interval for each attribute. Each bound is one bitmap of rows: a superset, plus a few
rows to remove. No pairs are formed: the result is a count per query, or a bit matrix with one
matrix row per row. Queries are processed in tiles, in one loop per phase: bounds to places, places
to bitmaps, bitmaps to rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.grouped_filter_bits import U64, clear_bit, popcount, transpose
from penstock.kernels.grouped_filter_rank import Ranked, find_places, rank_rows
from penstock.kernels.jit import inlined, kernel

TILE = 256  # number of queries in a tile
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Intervals(NamedTuple):
    """The conditions of queries: lows[a, q] ≤ value a ≤ highs[a, q], and values excluded by ≠."""

    lows: I64
    highs: I64
    unequal: I64  # attribute of each ≠
    differs: I64  # [≠, q]


class Tile(NamedTuple):
    """A tile of queries in terms of a chunk: places among the distinct values, and bitmaps."""

    begins: I32
    ends: I32
    differ_begins: I32
    differ_ends: I32
    maps: I64  # [query, i]: number of a prefix over all attributes
    flips: U64  # [query, i]: ones for the complement of the prefix
    used: I64  # number of bitmaps that the query needs; −1: it takes no row


@kernel
def tile_of(asked: Intervals) -> Tile:
    """Allocate a tile."""
    attributes, differs = asked.lows.shape[0], asked.unequal.shape[0]
    return Tile(
        np.empty((attributes, TILE), np.int32),
        np.empty((attributes, TILE), np.int32),
        np.empty((differs, TILE), np.int32),
        np.empty((differs, TILE), np.int32),
        np.empty((TILE, 2 * attributes + 3), np.int64),
        np.empty((TILE, 2 * attributes + 3), np.uint64),
        np.empty(TILE, np.int64),
    )


@kernel
def load_tile(chunk: Ranked, asked: Intervals, start: int, tile: Tile) -> int:
    """Prepare the queries from number `start` on; return their number."""
    size = min(TILE, asked.lows.shape[1] - start)
    end = start + size
    for a in range(asked.lows.shape[0]):
        find_places(chunk, a, asked.lows[a, start:end], False, tile.begins[a])
        find_places(chunk, a, asked.highs[a, start:end], True, tile.ends[a])
    for d in range(asked.unequal.shape[0]):
        a = asked.unequal[d]
        find_places(chunk, a, asked.differs[d, start:end], False, tile.differ_begins[d])
        find_places(chunk, a, asked.differs[d, start:end], True, tile.differ_ends[d])
    most = chunk.prefixes.shape[1]
    _choose_bitmaps(
        size, tile.begins, tile.ends, chunk.many, chunk.stride, most,
        tile.maps, tile.flips, tile.used,
    )  # fmt: skip
    return size


@kernel
def _choose_bitmaps(
    size: int, begins: I32, ends: I32, count: I64, stride: I64, most: int,
    maps: I64, flips: U64, used: I64,
) -> None:  # fmt: skip
    """Choose the prefixes that contain the rows of each query, without unpredictable branches."""
    for k in range(size):
        n = 0
        none = False
        for a in range(begins.shape[0]):
            begin, end = begins[a, k], ends[a, k]
            none |= begin >= end
            low = begin >> stride[a]
            maps[k, n], flips[k, n] = a * most + low, _ALL
            n += low > 0
            high = (end + (1 << stride[a]) - 1) >> stride[a]
            maps[k, n], flips[k, n] = a * most + high, np.uint64(0)
            n += (high << stride[a]) < count[a]
        used[k] = -1 if none else n
        for i in range(n, 3):  # so that three bitmaps can always be intersected
            last = max(n - 1, 0)
            maps[k, i], flips[k, i] = maps[k, last], flips[k, last]


@inlined
def _intersect(
    prefixes: U64, words: int, maps: I64, flips: U64, k: int, used: int, found: U64
) -> None:
    """Intersect all bitmaps of query `k`: three at first, then one by one."""
    x, y, z = maps[k, 0], maps[k, 1], maps[k, 2]
    f, g, h = flips[k, 0], flips[k, 1], flips[k, 2]
    for w in range(words):
        found[w] = (prefixes[x, w] ^ f) & (prefixes[y, w] ^ g) & (prefixes[z, w] ^ h)
    for i in range(3, used):
        x, f = maps[k, i], flips[k, i]
        for w in range(words):
            found[w] &= prefixes[x, w] ^ f


@inlined
def _count_three(prefixes: U64, words: int, maps: I64, flips: U64, k: int) -> np.int64:
    """The number of bits in the intersection of up to three bitmaps of query `k`."""
    x, y, z = maps[k, 0], maps[k, 1], maps[k, 2]
    f, g, h = flips[k, 0], flips[k, 1], flips[k, 2]
    total = np.uint64(0)
    for w in range(words):
        total += popcount((prefixes[x, w] ^ f) & (prefixes[y, w] ^ g) & (prefixes[z, w] ^ h))
    return np.int64(total)


@inlined
def _take_out(chunk: Ranked, a: int, begin: int, end: int, found: U64) -> None:
    """Remove the rows with some distinct values."""
    for i in range(chunk.first[a, begin], chunk.first[a, end]):
        clear_bit(found, chunk.order[a, i])


@inlined
def _trim(chunk: Ranked, asked: Intervals, tile: Tile, k: int, found: U64) -> None:
    """Remove the rows by which the bitmaps exceed the query's intervals."""
    for a in range(tile.begins.shape[0]):
        stride = chunk.stride[a]
        if stride:
            begin, end = tile.begins[a, k], tile.ends[a, k]
            _take_out(chunk, a, (begin >> stride) << stride, begin, found)
            over = ((end + (1 << stride) - 1) >> stride) << stride
            _take_out(chunk, a, end, min(over, chunk.many[a]), found)
    for d in range(tile.differ_begins.shape[0]):
        begin, end = tile.differ_begins[d, k], tile.differ_ends[d, k]
        _take_out(chunk, asked.unequal[d], begin, end, found)


@inlined
def find_rows(
    chunk: Ranked, prefixes: U64, asked: Intervals, tile: Tile, k: int, found: U64
) -> np.int64:
    """Write the rows of the chunk that query `k` takes to `found`; return their number."""
    n = chunk.size[0]
    words = (n + 63) >> 6
    used = tile.used[k]
    if used < 0:
        found[:words] = np.uint64(0)
        return np.int64(0)
    if used == 0:
        found[:words] = _ALL
    else:
        _intersect(prefixes, words, tile.maps, tile.flips, k, used, found)
    _trim(chunk, asked, tile, k, found)
    if n & 63:
        found[words - 1] &= (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)
    total = np.uint64(0)
    for w in range(words):
        total += popcount(found[w])
    return np.int64(total)


@kernel
def _count_tile(
    n: int, prefixes: U64, maps: I64, flips: U64, used: I64, size: int, found: U64, counts: I64
) -> None:
    """Count the rows of each query of a tile that needs only exact bitmaps."""
    words = (n + 63) >> 6
    beyond = words * 64 - n  # bits after the last row are set in complements
    for k in range(size):
        if used[k] <= 0:
            counts[k] += n * (used[k] == 0)
            continue
        if used[k] <= 3:
            total = _count_three(prefixes, words, maps, flips, k)
        else:
            _intersect(prefixes, words, maps, flips, k, used[k], found)
            bits = np.uint64(0)
            for w in range(words):
                bits += popcount(found[w])
            total = np.int64(bits)
        last = _ALL
        for i in range(used[k]):
            last &= flips[k, i]
        counts[k] += total - (beyond if last else 0)


@kernel
def count_rows(values: I64, rows: I64, chunk: Ranked, asked: Intervals, counts: I64) -> None:
    """Add to `counts` the number of `rows` that each query takes."""
    most = chunk.order.shape[1]
    found = np.empty(most >> 6, np.uint64)
    prefixes = chunk.prefixes.reshape(-1, most >> 6)
    tile = tile_of(asked)
    for start in range(0, rows.shape[0], most):
        rank_rows(values, rows[start : start + most], chunk)
        exact = chunk.stride.max() == 0 and asked.unequal.shape[0] == 0
        for q in range(0, counts.shape[0], TILE):
            size = load_tile(chunk, asked, q, tile)
            if exact:
                n = chunk.size[0]
                _count_tile(n, prefixes, tile.maps, tile.flips, tile.used, size, found, counts[q:])
                continue
            for k in range(size):
                counts[q + k] += find_rows(chunk, prefixes, asked, tile, k, found)


@kernel
def fill_matrix(chunk: Ranked, asked: Intervals, tile: Tile, matrix: U64) -> np.int64:
    """Mark in ``matrix[row, q // 64]`` the queries that take each row.

    Return the number of pairs.
    """
    words = (chunk.size[0] + 63) >> 6
    prefixes = chunk.prefixes.reshape(-1, chunk.prefixes.shape[2])
    square = np.zeros((64, words), np.uint64)
    turned = np.empty(64, np.uint64)
    total = np.int64(0)
    for start in range(0, asked.lows.shape[1], TILE):
        size = load_tile(chunk, asked, start, tile)
        for first in range(0, size, 64):
            found = np.int64(0)
            for k in range(min(64, size - first)):
                found += find_rows(chunk, prefixes, asked, tile, first + k, square[k])
            square[min(64, size - first) :] = np.uint64(0)
            _turn(square, found, turned, matrix[:, (start + first) >> 6])
            total += found
    return total


@kernel
def _turn(square: U64, found: np.int64, turned: U64, column: U64) -> None:
    """Transpose 64 queries × rows to rows × one word of queries."""
    for w in range(square.shape[1]):
        for k in range(64):
            turned[k] = square[k, w]
        if found:
            transpose(turned)
        for k in range(64):
            column[w * 64 + k] = turned[k]
