"""Monotonic deques in one pool: the largest key of each sliding window in amortised O(1).

They serve rows that leave in order of arrival. The keys of a deque never increase from front to
back; equal neighbours share a node with a count. A key that leaves is either at the front or has
been removed already by a larger key. Slot 0 of the pool is not a node: its words are registers. A
deque is three words of its group's state row; the front of an empty deque is 0.
"""

from __future__ import annotations

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel
from penstock.kernels.memory import prefetch
from penstock.kernels.strings import U8, compare_strings

FRONT, LAST, TOP = 0, 1, 2
"""State words: first node, last node, and a copy of the first node's key, which is read often."""
STATE_WORDS = 3
KEY, COUNT, BACK, NEXT = 0, 1, 2, 3
"""Words of a node: key, count, previous node, next node (or next free node)."""
USED, FREE, FREED = 1, 2, 3
"""Registers in slot 0: highest node ever used, first free node, number of free nodes."""
WORDS = 4


@inlined
def ask_node(pool: I64, state: I64, g: int, at: int, comes: bool) -> None:
    """Prefetch the first node that a row of group g reads."""
    prefetch(pool, state[g, at + (LAST if comes else FRONT)], 0)


@inlined
def ask_neighbour(pool: I64, state: I64, g: int, at: int, comes: bool) -> None:
    """Prefetch the node that the row reads next."""
    node = state[g, at + (LAST if comes else FRONT)]
    prefetch(pool, pool[node, BACK if comes else NEXT], 0)


@inlined
def free_node(pool: I64, node: int) -> None:
    """Put a node on the free list."""
    pool[node, KEY] = 0
    pool[node, NEXT] = pool[0, FREE]
    pool[0, FREE] = node
    pool[0, FREED] += 1


@inlined
def append_node(pool: I64, back: int, key: int) -> int:
    """Append a node after `back` (0: the deque is empty). The pool must have room."""
    node = pool[0, FREE]
    if node != 0:
        pool[0, FREE] = pool[node, NEXT]
        pool[0, FREED] -= 1
    else:
        node = pool[0, USED] + 1
        pool[0, USED] = node
    pool[node, KEY] = key
    pool[node, COUNT] = 1
    pool[node, BACK] = back
    pool[node, NEXT] = 0
    if back != 0:
        pool[back, NEXT] = node
    return int(node)


@inlined
def settle_back(pool: I64, state: I64, g: int, at: int, back: int, key: int) -> None:
    """Make `key` the last one, after `back`, the last node that it does not displace."""
    if back != 0 and pool[back, KEY] == key:
        pool[back, COUNT] += 1
        pool[back, NEXT] = 0
        state[g, at + LAST] = back
        return
    node = append_node(pool, back, key)
    state[g, at + LAST] = node
    if back == 0:
        state[g, at + FRONT] = node
        state[g, at + TOP] = key


@inlined
def push(pool: I64, state: I64, g: int, at: int, key: int) -> None:
    """Add a row with this key."""
    back = state[g, at + LAST]
    while back != 0 and pool[back, KEY] < key:
        before = pool[back, BACK]
        free_node(pool, back)
        back = before
    settle_back(pool, state, g, at, back, key)


@kernel
def push_string(
    pool: I64, state: I64, g: int, at: int, code: int, flip: bool,
    starts: I64, lengths: I64, heap: U8,
) -> None:  # fmt: skip
    """Add a row with the string `code`; with `flip` the least string is at the front."""
    back = state[g, at + LAST]
    while back != 0:
        order = compare_strings(pool[back, KEY], code, starts, lengths, heap)
        if order <= 0 if flip else order >= 0:
            break
        before = pool[back, BACK]
        free_node(pool, back)
        back = before
    settle_back(pool, state, g, at, back, code)


@inlined
def leave(pool: I64, state: I64, g: int, at: int, key: int) -> None:
    """Remove the oldest row, which has this key."""
    front = state[g, at + FRONT]
    if front == 0 or state[g, at + TOP] != key:
        return
    pool[front, COUNT] -= 1
    if pool[front, COUNT] > 0:
        return
    after = pool[front, NEXT]
    free_node(pool, front)
    state[g, at + FRONT] = after
    if after == 0:
        state[g, at + LAST] = 0
    else:
        pool[after, BACK] = 0
        state[g, at + TOP] = pool[after, KEY]


@kernel
def clear_deques(pool: I64, state: I64, groups: I64, at: int) -> None:
    """Free all nodes of the deques of `groups`."""
    for i in range(groups.shape[0]):
        g = groups[i]
        node = state[g, at + FRONT]
        while node != 0:
            after = pool[node, NEXT]
            free_node(pool, node)
            node = after
        for word in range(STATE_WORDS):
            state[g, at + word] = 0
