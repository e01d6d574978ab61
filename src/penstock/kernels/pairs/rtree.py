"""Packed R-trees: boxes in the order of sort-tile-recursive packing, many trees in flat arrays.

Every tree of a forest has its own items. A node is `FANOUT` neighbours of the level below, so
there are no pointers. Items with an empty side must be left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.pairs.data import LEAST, MOST
from penstock.kernels.pairs.histogram import F64

FANOUT = 8
_LEVELS = 12
"""Room for levels of a tree; the rows of `firsts` also hold how many there are."""


class Forest(NamedTuple):
    """Trees over boxes of D dimensions; items come first, then the levels above them.

    Node i of level l of tree t has box `boxes[firsts[t, l] + i]`, and its children are nodes
    i·FANOUT, … of level l − 1. The top level of a tree has at most FANOUT nodes.
    """

    boxes: I64  # [node, lows then highs]
    slots: I64  # by item
    firsts: I64  # [tree, level]
    counts: I64  # [tree, level]
    heights: I64  # by tree: its levels


# ---- build ---------------------------------------------------------------------------
@kernel
def _selectivities(lows: I64, highs: I64, order: I64, begin: int, end: int, out: F64) -> None:
    """By dimension, how far the centers of the boxes at [begin, end) are apart, in their lengths.

    Sides without an end reach to the outermost end that there is.
    """
    n = end - begin
    for d in range(lows.shape[0]):
        least, most = MOST, LEAST
        for i in order[begin:end]:
            for bound in (lows[d, i], highs[d, i]):
                if LEAST < bound < MOST:
                    least, most = min(least, bound), max(most, bound)
        total, squares, length = 0.0, 0.0, 0.0
        for i in order[begin:end]:
            low = float(max(lows[d, i], least)) - least
            high = float(min(highs[d, i], most)) - least
            total += (low + high) / 2
            squares += ((low + high) / 2) ** 2
            length += high - low + 1
        variance = squares / n - (total / n) ** 2
        out[d] = n * np.sqrt(max(variance, 0.0)) / length if least <= most else 0.0


@kernel
def slices_of(leaves: int, selectivities: F64) -> float:
    """Into how many slabs boxes are cut by the first dimension, given what each distinguishes.

    A point meets the fewest leaves if the numbers of slabs are to each other as the selectivities
    are. Their product is the number of leaves; a dimension that would get no slab of its own is
    left out.
    """
    used = selectivities > 0
    while used.any():
        logs, n = np.log(float(max(leaves, 1))), 0
        for d in range(used.shape[0]):
            if used[d]:
                logs, n = logs - np.log(selectivities[d]), n + 1
        logs, least = logs / n, -1
        for d in range(used.shape[0]):
            if used[d] and (least < 0 or selectivities[d] < selectivities[least]):
                least = d
        if n == 1 or np.log(selectivities[least]) + logs >= 0:
            return np.exp(np.log(selectivities[0]) + logs) if used[0] else 1.0
        used[least] = False
    return 1.0


@kernel
def slabs_of(lows: I64, highs: I64, slots: I64) -> F64:
    """By dimension, into how many slabs a tree over these slots is cut."""
    dimensions, n = lows.shape[0], slots.shape[0]
    slabs, given = np.ones(dimensions), np.zeros(dimensions)
    if n > FANOUT:
        _selectivities(lows, highs, slots, 0, n, given)
        for d in range(dimensions):
            turned = np.concatenate((given[d:], given[:d]))
            slabs[d] = slices_of((n + FANOUT - 1) // FANOUT, turned)
    return slabs


@kernel
def _sort_slab(centers: I64, order: I64, begin: int, end: int) -> None:
    part = order[begin:end].copy()
    by_center = np.argsort(centers[part])
    for i in range(end - begin):
        order[begin + i] = part[by_center[i]]


@kernel
def tile_boxes(lows: I64, highs: I64, order: I64, starts: I64) -> None:
    """Put the boxes of each tree, `order[starts[t]:starts[t + 1]]`, into tiles.

    Bounds are [dimension, item]. Boxes are sorted by their centers in one dimension and cut into
    slabs, which are sorted and cut by the next, until a slab is a row of leaves. A dimension that
    distinguishes the boxes better has more slabs.
    """
    dimensions, n = lows.shape
    selectivities = np.empty(dimensions)
    slabs, ends = starts[:-1].copy(), starts[1:].copy()
    for d in range(dimensions):
        centers = np.empty(n, np.int64)
        for i in range(n):
            centers[i] = (lows[d, i] >> 1) + (highs[d, i] >> 1)
        new_slabs = np.empty(slabs.shape[0] + n // FANOUT + 1, np.int64)
        new_ends, m = np.empty(new_slabs.shape[0], np.int64), 0
        for s in range(slabs.shape[0]):
            begin, end = slabs[s], ends[s]
            _sort_slab(centers, order, begin, end)
            leaves = (end - begin + FANOUT - 1) // FANOUT
            size = 1
            if d + 1 < dimensions and leaves > 1:
                _selectivities(lows[d:], highs[d:], order, begin, end, selectivities[d:])
                size = int(np.ceil(leaves / slices_of(leaves, selectivities[d:]) - 1e-6))
            size = max(size, 1) * FANOUT
            while begin < end and d + 1 < dimensions:
                new_slabs[m], new_ends[m] = begin, min(begin + size, end)
                begin += size
                m += 1
        slabs, ends = new_slabs[:m], new_ends[:m]


@kernel
def _measure_trees(starts: I64) -> tuple[I64, I64, I64, int]:
    """Where the levels of each tree begin, their nodes, the heights, and all nodes."""
    trees = starts.shape[0] - 1
    firsts, counts = np.zeros((trees, _LEVELS), np.int64), np.zeros((trees, _LEVELS), np.int64)
    heights, node = np.zeros(trees, np.int64), starts[trees]
    for t in range(trees):
        firsts[t, 0], counts[t, 0] = starts[t], starts[t + 1] - starts[t]
        level = 0
        while counts[t, level] > FANOUT:
            count = (counts[t, level] + FANOUT - 1) // FANOUT
            level += 1
            firsts[t, level], counts[t, level] = node, count
            node += count
        heights[t] = level + 1
    return firsts, counts, heights, node


@kernel
def _cover(boxes: I64, node: int, begin: int, end: int) -> None:
    """Make the box of a node that of the nodes at [begin, end)."""
    dimensions = boxes.shape[1] // 2
    for d in range(dimensions):
        low, high = boxes[begin, d], boxes[begin, dimensions + d]
        for child in range(begin + 1, end):
            low = min(low, boxes[child, d])
            high = max(high, boxes[child, dimensions + d])
        boxes[node, d], boxes[node, dimensions + d] = low, high


@kernel
def build_forest(lows: I64, highs: I64, slots: I64, starts: I64) -> Forest:
    """A tree over each of the pieces [starts[t], starts[t + 1]) of `slots`.

    Bounds are [dimension, slot]; a slot may be in one tree.
    """
    dimensions, m = lows.shape[0], slots.shape[0]
    own_lows, own_highs = np.empty((dimensions, m), np.int64), np.empty((dimensions, m), np.int64)
    for d in range(dimensions):
        for i in range(m):
            own_lows[d, i], own_highs[d, i] = lows[d, slots[i]], highs[d, slots[i]]
    order = np.arange(m)
    tile_boxes(own_lows, own_highs, order, starts)
    firsts, counts, heights, nodes = _measure_trees(starts)
    boxes = np.empty((nodes, 2 * dimensions), np.int64)
    for i in range(m):
        for d in range(dimensions):
            boxes[i, d] = own_lows[d, order[i]]
            boxes[i, dimensions + d] = own_highs[d, order[i]]
    for t in range(heights.shape[0]):
        for level in range(1, heights[t]):
            below = firsts[t, level - 1]
            for i in range(counts[t, level]):
                begin = below + i * FANOUT
                end = min(begin + FANOUT, below + counts[t, level - 1])
                _cover(boxes, firsts[t, level] + i, begin, end)
    return Forest(boxes, slots[order], firsts, counts, heights)


# ---- search --------------------------------------------------------------------------
@inlined
def room_for_search() -> I64:
    """The stack of a search: (level, first node, its end) of nodes still to be looked at."""
    return np.empty((_LEVELS * FANOUT, 3), np.int64)


@inlined
def push_root(heights: I64, counts: I64, tree: int, stack: I64) -> int:
    """Put the top level of a tree on the stack; how many entries it has."""
    level = heights[tree] - 1
    stack[0, 0], stack[0, 1], stack[0, 2] = level, 0, counts[tree, level]
    return 1


@inlined
def push_children(counts: I64, tree: int, level: int, node: int, stack: I64, top: int) -> int:
    """Put the children of a node of `level` on the stack; how many entries it has."""
    stack[top, 0], stack[top, 1] = level - 1, node * FANOUT
    stack[top, 2] = min((node + 1) * FANOUT, counts[tree, level - 1])
    return top + 1


@inlined
def stab_tree(forest: Forest, tree: int, point: I64, stack: I64, items: I64) -> int:
    """Write the items with boxes that contain a point; return their number."""
    boxes, firsts, counts, found = forest.boxes, forest.firsts, forest.counts, 0
    dimensions = point.shape[0]
    top = push_root(forest.heights, counts, tree, stack)
    while top:
        top -= 1
        level, begin, end = stack[top, 0], stack[top, 1], stack[top, 2]
        first = firsts[tree, level]
        for node in range(begin, end):
            at, inside = first + node, True
            for d in range(dimensions):
                inside = inside and boxes[at, d] <= point[d] <= boxes[at, dimensions + d]
            if inside and level == 0:
                items[found] = at
                found += 1
            elif inside:
                top = push_children(counts, tree, level, node, stack, top)
    return found
