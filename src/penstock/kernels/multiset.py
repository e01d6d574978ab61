"""Ordered multisets in one pool: treaps with counts and subtree sizes, O(log n) each way.

For rows that leave in any order, and for medians. Each multiset is one state word, the root
(0 when empty). Slot 0 of the pool is no node: its words are registers. Strings are ordered by
their bytes, everything else as int64. Priorities come from a counter, so a replay repeats them.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I64
from penstock.kernels.jit import kernel
from penstock.kernels.strings import U8, compare_strings

KEY, COUNT, SIZE, LEFT, RIGHT, RANK = 0, 1, 2, 3, 4, 5
"""Words of a node: key, how often, rows below and here, children, heap priority."""
USED, FREE, FREED, MADE = 1, 2, 3, 4
"""Registers in slot 0: highest node ever used, first free node, free nodes, nodes ever made."""
WORDS = 6
DEPTH = 512
"""Length of the path scratch; a treap of 2⁶⁰ nodes is expected to be far shallower."""


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
def _compare(a: int, b: int, text: bool, starts: I64, lengths: I64, heap: U8) -> int:
    if a == b:
        return 0
    if text:
        return compare_strings(a, b, starts, lengths, heap)
    return -1 if a < b else 1


@kernel
def _hang(pool: I64, state: I64, g: int, at: int, parent: int, old: int, new: int) -> None:
    """Put `new` where `old` hangs below `parent` (0: the root)."""
    if parent == 0:
        state[g, at] = new
    elif pool[parent, LEFT] == old:
        pool[parent, LEFT] = new
    else:
        pool[parent, RIGHT] = new


@kernel
def insert_key(
    pool: I64, state: I64, g: int, at: int, key: int, text: bool,
    starts: I64, lengths: I64, heap: U8, path: I64,
) -> None:  # fmt: skip
    """Add `key` once to the multiset rooted at state[g, at]."""
    node, depth, side = state[g, at], 0, LEFT
    while node != 0:
        pool[node, SIZE] += 1
        order = _compare(key, pool[node, KEY], text, starts, lengths, heap)
        if order == 0:
            pool[node, COUNT] += 1
            return
        path[depth] = node
        depth += 1
        side = LEFT if order < 0 else RIGHT
        node = pool[node, side]
    fresh = _new(pool, key)
    if depth == 0:
        state[g, at] = fresh
        return
    pool[path[depth - 1], side] = fresh
    while depth > 0 and pool[path[depth - 1], RANK] < pool[fresh, RANK]:
        depth -= 1
        parent = path[depth]
        above = path[depth - 1] if depth > 0 else 0
        _lift(pool, parent, LEFT if pool[parent, LEFT] == fresh else RIGHT)
        _hang(pool, state, g, at, above, parent, fresh)


@kernel
def remove_key(
    pool: I64, state: I64, g: int, at: int, key: int, text: bool,
    starts: I64, lengths: I64, heap: U8, path: I64,
) -> bool:  # fmt: skip
    """Take `key` once out of the multiset; False (and nothing done) when it is not there."""
    node, depth = state[g, at], 0
    while node != 0:
        order = _compare(key, pool[node, KEY], text, starts, lengths, heap)
        if order == 0:
            break
        path[depth] = node
        depth += 1
        node = pool[node, LEFT if order < 0 else RIGHT]
    if node == 0:
        return False
    for i in range(depth):
        pool[path[i], SIZE] -= 1
    pool[node, SIZE] -= 1
    pool[node, COUNT] -= 1
    if pool[node, COUNT] > 0:
        return True
    parent = path[depth - 1] if depth > 0 else 0
    while pool[node, LEFT] != 0 and pool[node, RIGHT] != 0:
        left, right = pool[node, LEFT], pool[node, RIGHT]
        up = _lift(pool, node, LEFT if pool[left, RANK] > pool[right, RANK] else RIGHT)
        _hang(pool, state, g, at, parent, node, up)
        parent = up
    child = pool[node, LEFT] if pool[node, LEFT] != 0 else pool[node, RIGHT]
    _hang(pool, state, g, at, parent, node, child)
    _free(pool, node)
    return True


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
        while node != 0:  # turning left children up needs no stack
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
