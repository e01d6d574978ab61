"""Ordered multisets in one pool: treaps with counts and subtree sizes, O(log n) per operation.

They serve rows that leave in any order, and medians. Each multiset is one state word, its root (0
when empty). Slot 0 of the pool is not a node: its words are registers. Strings are ordered by their
bytes, everything else as int64. Priorities come from a counter, so a replay repeats them.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.strings import U8, compare_strings

KEY, COUNT, SIZE, LEFT, RIGHT, RANK = 0, 1, 2, 3, 4, 5
"""Words of a node: key, count, size of the subtree, children, heap priority."""
USED, FREE, FREED, MADE = 1, 2, 3, 4
"""Registers in slot 0: highest node ever used, first free node, free nodes, nodes created."""
WORDS = 6
DEPTH = 512
"""Length of the path scratch; a treap that fits in memory is far shallower."""


@kernel
def _new(pool: I64, key: int) -> int:
    node = pool[0, FREE]
    if node != 0:
        pool[0, FREE] = pool[node, LEFT]
        pool[0, FREED] -= 1
    else:
        node = pool[0, USED] + 1
        pool[0, USED] = node
    pool[0, MADE] += 1
    h = np.uint64(pool[0, MADE]) * np.uint64(0x9E3779B97F4A7C15)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    pool[node, KEY] = key
    pool[node, COUNT] = 1
    pool[node, SIZE] = 1
    pool[node, LEFT] = 0
    pool[node, RIGHT] = 0
    pool[node, RANK] = np.int64(h >> np.uint64(1))
    return int(node)


@kernel
def _free(pool: I64, node: int) -> None:
    pool[node, KEY] = 0
    pool[node, LEFT] = pool[0, FREE]
    pool[0, FREE] = node
    pool[0, FREED] += 1


@kernel
def _size(pool: I64, node: int) -> int:
    return pool[node, SIZE] if node != 0 else 0


@kernel
def _measure(pool: I64, node: int) -> None:
    below = _size(pool, pool[node, LEFT]) + _size(pool, pool[node, RIGHT])
    pool[node, SIZE] = below + pool[node, COUNT]


@kernel
def _lift(pool: I64, node: int, side: int) -> int:
    """Rotate the child on `side` above `node`; returns it."""
    other = RIGHT if side == LEFT else LEFT
    child = pool[node, side]
    pool[node, side] = pool[child, other]
    pool[child, other] = node
    _measure(pool, node)
    _measure(pool, child)
    return int(child)


@kernel
def _hang(pool: I64, root: int, parent: int, old: int, new: int) -> int:
    """Replace the child `old` of `parent` (0: the root) by `new`; returns the root."""
    if parent == 0:
        return new
    pool[parent, LEFT if pool[parent, LEFT] == old else RIGHT] = new
    return root


@kernel
def descend(pool: I64, root: int, key: int, path: I64) -> int:
    """Find `key`: path[: depth + 1] is the path from the root; returns depth.

    The last element of the path is the node of `key`, or 0 if there is none. Then path[depth + 1]
    is the side of its parent on which the key belongs.
    """
    node, depth, side = root, 0, LEFT
    while node != 0 and pool[node, KEY] != key:
        path[depth] = node
        depth += 1
        side = LEFT if key < pool[node, KEY] else RIGHT
        node = pool[node, side]
    path[depth] = node
    path[depth + 1] = side
    return depth


@kernel
def descend_text(
    pool: I64, root: int, code: int, starts: I64, lengths: I64, heap: U8, path: I64
) -> int:
    """Find the string `code`; the result is that of `descend`."""
    node, depth, side = root, 0, LEFT
    while node != 0 and pool[node, KEY] != code:
        path[depth] = node
        depth += 1
        order = compare_strings(code, pool[node, KEY], starts, lengths, heap)
        side = LEFT if order < 0 else RIGHT
        node = pool[node, side]
    path[depth] = node
    path[depth + 1] = side
    return depth


@kernel
def insert_key(pool: I64, root: int, key: int, depth: int, path: I64) -> int:
    """Add `key` once, after `descend` found its place; returns the root."""
    for i in range(depth):
        pool[path[i], SIZE] += 1
    node = path[depth]
    if node != 0:
        pool[node, COUNT] += 1
        pool[node, SIZE] += 1
        return root
    node = _new(pool, key)
    if depth == 0:
        return int(node)
    pool[path[depth - 1], path[depth + 1]] = node
    while depth > 0 and pool[path[depth - 1], RANK] < pool[node, RANK]:
        depth -= 1
        parent = path[depth]
        above = path[depth - 1] if depth > 0 else 0
        _lift(pool, parent, LEFT if pool[parent, LEFT] == node else RIGHT)
        root = _hang(pool, root, above, parent, node)
    return root


@kernel
def remove_key(pool: I64, root: int, depth: int, path: I64) -> int:
    """Remove one copy of the key that `descend` found, if any; returns the root."""
    node = path[depth]
    if node == 0:
        return root
    for i in range(depth + 1):
        pool[path[i], SIZE] -= 1
    pool[node, COUNT] -= 1
    if pool[node, COUNT] > 0:
        return root
    parent = path[depth - 1] if depth > 0 else 0
    while pool[node, LEFT] != 0 and pool[node, RIGHT] != 0:
        left, right = pool[node, LEFT], pool[node, RIGHT]
        up = _lift(pool, node, LEFT if pool[left, RANK] > pool[right, RANK] else RIGHT)
        root = _hang(pool, root, parent, node, up)
        parent = up
    child = pool[node, LEFT] if pool[node, LEFT] != 0 else pool[node, RIGHT]
    root = _hang(pool, root, parent, node, child)
    _free(pool, node)
    return root


@kernel
def least(pool: I64, root: int) -> int:
    """The smallest key of a non-empty multiset."""
    while pool[root, LEFT] != 0:
        root = pool[root, LEFT]
    return int(pool[root, KEY])


@kernel
def greatest(pool: I64, root: int) -> int:
    """The largest key of a non-empty multiset."""
    while pool[root, RIGHT] != 0:
        root = pool[root, RIGHT]
    return int(pool[root, KEY])


@kernel
def nth(pool: I64, root: int, index: int) -> int:
    """The key at 0-based position `index` in order, repeats counted."""
    while True:
        before = _size(pool, pool[root, LEFT])
        if index < before:
            root = pool[root, LEFT]
        elif index < before + pool[root, COUNT]:
            return int(pool[root, KEY])
        else:
            index -= before + pool[root, COUNT]
            root = pool[root, RIGHT]


@kernel
def clear_multisets(pool: I64, state: I64, groups: I64, at: int) -> None:
    """Free all nodes of the multisets of `groups`."""
    for i in range(groups.shape[0]):
        node = state[groups[i], at]
        while node != 0:  # rotating left children up needs no stack
            left = pool[node, LEFT]
            if left != 0:
                pool[node, LEFT] = pool[left, RIGHT]
                pool[left, RIGHT] = node
                node = left
            else:
                after = pool[node, RIGHT]
                _free(pool, node)
                node = after
        state[groups[i], at] = 0
