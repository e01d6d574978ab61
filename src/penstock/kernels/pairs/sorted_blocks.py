"""A sorted sequence on flat arrays that changes cheaply: blocks of entries, and a tree over them.

An entry is (key, value, item); entries ascend by key and then item. A block has up to `CAPACITY`
entries side by side, in a slab; `order` lists the slabs in the order of their entries. Trees over
the blocks have their counts of entries and their least values, so that the number of entries before
a place and the least value from a place on take O(log n) steps plus a scan of one block. An
insertion or removal moves entries of one block only; a block that is full is halved, which costs a
step per block, once in `CAPACITY` / 2 insertions.

A place is (rank of the block, position in it). Items are less than `LAST`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel, lean, lean_inlined

CAPACITY = 256
_FILL = 192  # entries of a block when blocks are filled anew
FIRST, LAST = -1, np.iinfo(np.int64).max
"""Items before and after all that occur."""
_MOST = np.iinfo(np.int64).max


class Blocks(NamedTuple):
    """Entries in blocks. Trees have the leaf of block r at ``width + r``, the root at 1."""

    keys: I64  # [slab, position]
    values: I64
    items: I64
    sizes: I64  # entries by slab
    order: I64  # slabs by rank; after those in use come the free ones
    firsts: I64  # key of the first entry, by rank
    least: I64  # tree of least values
    counts: I64  # tree of numbers of entries
    used: I64  # [0]: blocks in use, at least one


def new_blocks(entries: int) -> Blocks:
    """Empty blocks with room for at least so many entries, before they grow."""
    slabs = 2 + entries // _FILL
    width = 1 << (slabs - 1).bit_length()
    keys, values, items = (np.zeros((slabs, CAPACITY), np.int64) for _ in range(3))
    return Blocks(
        keys, values, items, np.zeros(slabs, np.int64), np.arange(slabs), np.zeros(slabs, np.int64),
        np.full(2 * width, _MOST), np.zeros(2 * width, np.int64), np.ones(1, np.int64),
    )  # fmt: skip


@lean_inlined
def is_full(blocks: Blocks) -> bool:
    """Whether there is no free block left for an insertion that needs one."""
    return blocks.used[0] == blocks.order.shape[0]


@lean_inlined
def length(blocks: Blocks) -> int:
    """The number of entries."""
    return blocks.counts[1]


@lean_inlined
def seek(blocks: Blocks, key: int, item: int) -> tuple[int, int]:
    """The place where (key, item) is or belongs; it may be the end of a block."""
    rank, size = 0, blocks.used[0]
    while size > 1:
        half = size >> 1
        middle = rank + half
        first = blocks.firsts[middle]
        if first < key or (first == key and blocks.items[blocks.order[middle], 0] <= item):
            rank = middle
        size -= half
    slab = blocks.order[rank]
    low, high = 0, blocks.sizes[slab]
    while low < high:
        middle = (low + high) >> 1
        here = blocks.keys[slab, middle]
        if here < key or (here == key and blocks.items[slab, middle] < item):
            low = middle + 1
        else:
            high = middle
    return rank, low


@lean_inlined
def seek_entry(blocks: Blocks, key: int, item: int) -> tuple[int, int]:
    """The place of the first entry that is not before (key, item), or the end."""
    rank, at = seek(blocks, key, item)
    if at == blocks.sizes[blocks.order[rank]] and rank + 1 < blocks.used[0]:
        rank, at = rank + 1, 0
    return rank, at


@lean_inlined
def is_end(blocks: Blocks, rank: int, at: int) -> bool:
    """Whether a place of `seek_entry` is the end."""
    return at == blocks.sizes[blocks.order[rank]]


@lean_inlined
def count_before(blocks: Blocks, rank: int, at: int) -> int:
    """The number of entries before a place."""
    node = (blocks.counts.shape[0] >> 1) + rank
    while node > 1:
        if node & 1:
            at += blocks.counts[node - 1]
        node >>= 1
    return at


@lean_inlined
def least_from(blocks: Blocks, rank: int, at: int) -> int:
    """The least value of the entries from a place on; the most integer if there are none."""
    slab = blocks.order[rank]
    found = _MOST
    for i in range(at, blocks.sizes[slab]):
        found = min(found, blocks.values[slab, i])
    node = (blocks.least.shape[0] >> 1) + rank
    while node > 1:
        if not node & 1:
            found = min(found, blocks.least[node + 1])
        node >>= 1
    return found


@lean_inlined
def place_of_least(blocks: Blocks) -> tuple[int, int]:
    """The place of the first entry with the least value; there must be entries."""
    width = blocks.least.shape[0] >> 1
    node = 1
    while node < width:
        node *= 2
        if blocks.least[node] != blocks.least[node >> 1] or blocks.counts[node] == 0:
            node += 1
    slab, at = blocks.order[node - width], 0
    while blocks.values[slab, at] != blocks.least[1]:
        at += 1
    return node - width, at


@lean_inlined
def _least_of(blocks: Blocks, slab: int) -> int:
    least = _MOST
    for i in range(blocks.sizes[slab]):
        least = min(least, blocks.values[slab, i])
    return least


@lean_inlined
def _measure(blocks: Blocks, rank: int) -> None:
    """Renew the leaf of a block."""
    slab, leaf = blocks.order[rank], (blocks.least.shape[0] >> 1) + rank
    blocks.least[leaf] = _least_of(blocks, slab)
    blocks.counts[leaf] = blocks.sizes[slab]
    blocks.firsts[rank] = blocks.keys[slab, 0]


@lean_inlined
def _count(blocks: Blocks, rank: int, by: int) -> None:
    """Add to the count of a block, and to the counts above it."""
    node = (blocks.counts.shape[0] >> 1) + rank
    while node:
        blocks.counts[node] += by
        node >>= 1


@lean_inlined
def _set_least(blocks: Blocks, rank: int, least: int) -> None:
    """Renew the least value of a block, and those above it as far as they change."""
    node = (blocks.least.shape[0] >> 1) + rank
    while node and blocks.least[node] != least:
        blocks.least[node] = least
        least = min(least, blocks.least[node ^ 1])
        node >>= 1


@lean
def _renew_trees(blocks: Blocks) -> None:
    """Renew all nodes above the leaves."""
    for node in range((blocks.least.shape[0] >> 1) - 1, 0, -1):
        blocks.least[node] = min(blocks.least[2 * node], blocks.least[2 * node + 1])
        blocks.counts[node] = blocks.counts[2 * node] + blocks.counts[2 * node + 1]


@lean
def _halve(blocks: Blocks, rank: int) -> None:
    """Move the upper half of a full block to a new block after it."""
    used, width = blocks.used[0], blocks.least.shape[0] >> 1
    old, new = blocks.order[rank], blocks.order[used]
    for r in range(used, rank + 1, -1):
        blocks.order[r] = blocks.order[r - 1]
        blocks.firsts[r] = blocks.firsts[r - 1]
        blocks.least[width + r] = blocks.least[width + r - 1]
        blocks.counts[width + r] = blocks.counts[width + r - 1]
    blocks.order[rank + 1] = new
    blocks.used[0] = used + 1
    half = CAPACITY // 2
    for i in range(half):
        blocks.keys[new, i] = blocks.keys[old, half + i]
        blocks.values[new, i] = blocks.values[old, half + i]
        blocks.items[new, i] = blocks.items[old, half + i]
    blocks.sizes[old] = blocks.sizes[new] = half
    _measure(blocks, rank)
    _measure(blocks, rank + 1)
    _renew_trees(blocks)


@lean
def _drop_block(blocks: Blocks, rank: int) -> None:
    """Give back the slab of an empty block."""
    used, width = blocks.used[0], blocks.least.shape[0] >> 1
    slab = blocks.order[rank]
    for r in range(rank, used - 1):
        blocks.order[r] = blocks.order[r + 1]
        blocks.firsts[r] = blocks.firsts[r + 1]
        blocks.least[width + r] = blocks.least[width + r + 1]
        blocks.counts[width + r] = blocks.counts[width + r + 1]
    blocks.order[used - 1] = slab
    blocks.least[width + used - 1], blocks.counts[width + used - 1] = _MOST, 0
    blocks.used[0] = used - 1
    _renew_trees(blocks)


@lean_inlined
def insert(blocks: Blocks, key: int, value: int, item: int) -> None:
    """Add an entry; `is_full` must be False."""
    rank, at = seek(blocks, key, item)
    if blocks.sizes[blocks.order[rank]] == CAPACITY:
        _halve(blocks, rank)
        half = CAPACITY // 2
        if at > half:
            rank, at = rank + 1, at - half
    slab = blocks.order[rank]
    for i in range(blocks.sizes[slab], at, -1):
        blocks.keys[slab, i] = blocks.keys[slab, i - 1]
        blocks.values[slab, i] = blocks.values[slab, i - 1]
        blocks.items[slab, i] = blocks.items[slab, i - 1]
    blocks.keys[slab, at] = key
    blocks.values[slab, at] = value
    blocks.items[slab, at] = item
    blocks.sizes[slab] += 1
    blocks.firsts[rank] = blocks.keys[slab, 0]
    _count(blocks, rank, 1)
    if value < blocks.least[(blocks.least.shape[0] >> 1) + rank]:
        _set_least(blocks, rank, value)


@lean_inlined
def remove(blocks: Blocks, rank: int, at: int) -> None:
    """Take the entry at a place away."""
    slab, leaf = blocks.order[rank], (blocks.least.shape[0] >> 1) + rank
    value = blocks.values[slab, at]
    blocks.sizes[slab] -= 1
    for i in range(at, blocks.sizes[slab]):
        blocks.keys[slab, i] = blocks.keys[slab, i + 1]
        blocks.values[slab, i] = blocks.values[slab, i + 1]
        blocks.items[slab, i] = blocks.items[slab, i + 1]
    if blocks.sizes[slab] == 0 and blocks.used[0] > 1:
        _drop_block(blocks, rank)
        return
    blocks.firsts[rank] = blocks.keys[slab, 0]
    _count(blocks, rank, -1)
    if value == blocks.least[leaf]:
        _set_least(blocks, rank, _least_of(blocks, slab))


@lean_inlined
def replace(blocks: Blocks, rank: int, at: int, key: int, value: int, item: int) -> None:
    """Give the entry at a place other contents, which must belong at this place too."""
    slab, leaf = blocks.order[rank], (blocks.least.shape[0] >> 1) + rank
    before = blocks.values[slab, at]
    blocks.keys[slab, at] = key
    blocks.values[slab, at] = value
    blocks.items[slab, at] = item
    blocks.firsts[rank] = blocks.keys[slab, 0]
    if value <= blocks.least[leaf]:
        _set_least(blocks, rank, value)
    elif before == blocks.least[leaf]:
        _set_least(blocks, rank, _least_of(blocks, slab))


@lean
def fill(blocks: Blocks, keys: I64, values: I64, items: I64) -> None:
    """Replace all entries by these, which are in order and for which there is room."""
    entries, slabs = keys.shape[0], blocks.order.shape[0]
    step = max(_FILL, (entries + slabs - 1) // slabs)
    used = max(1, (entries + step - 1) // step)
    blocks.used[0] = used
    for slab in range(slabs):
        blocks.sizes[slab] = 0
    for node in range(blocks.least.shape[0]):
        blocks.least[node], blocks.counts[node] = _MOST, 0
    for rank in range(used):
        slab, start = blocks.order[rank], rank * step
        size = min(step, entries - start)
        for i in range(size):
            blocks.keys[slab, i] = keys[start + i]
            blocks.values[slab, i] = values[start + i]
            blocks.items[slab, i] = items[start + i]
        blocks.sizes[slab] = size
        _measure(blocks, rank)
    _renew_trees(blocks)


@kernel
def flatten(blocks: Blocks) -> tuple[I64, I64, I64]:
    """Keys, values and items of all entries in order."""
    entries = blocks.counts[1]
    keys, values, items = (
        np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries, np.int64)
    )  # fmt: skip
    end = 0
    for rank in range(blocks.used[0]):
        slab = blocks.order[rank]
        size = blocks.sizes[slab]
        keys[end : end + size] = blocks.keys[slab, :size]
        values[end : end + size] = blocks.values[slab, :size]
        items[end : end + size] = blocks.items[slab, :size]
        end += size
    return keys, values, items


@kernel
def items_between(blocks: Blocks, first: int, last: int) -> I64:
    """Items of the entries with keys in [first, last], in order."""
    rank, at = seek_entry(blocks, first, FIRST)
    end_rank, end = seek_entry(blocks, last, LAST)
    start = count_before(blocks, rank, at)
    found = np.empty(count_before(blocks, end_rank, end) - start, np.int64)
    have = 0
    while have < found.shape[0]:
        slab = blocks.order[rank]
        size = min(blocks.sizes[slab] - at, found.shape[0] - have)
        found[have : have + size] = blocks.items[slab, at : at + size]
        have += size
        rank, at = rank + 1, 0
    return found


def grown(blocks: Blocks) -> Blocks:
    """The same entries in blocks with twice the room."""
    keys, values, items = flatten(blocks)
    more = new_blocks(2 * max(keys.shape[0], CAPACITY))
    fill(more, keys, values, items)
    return more
