"""Monotonic deques in one pool: the largest key of each sliding window in amortised O(1).

For rows that leave in the order they came. Keys of a deque never increase from front to back;
equal neighbours share a node with a count. A key that leaves is at the front, or was driven
out by a larger one (then it is nowhere). Slot 0 of the pool is no node: its words are registers.
A deque is two state words, front and back, 0 when empty.
"""

from __future__ import annotations

from penstock.delta import I64
from penstock.kernels.jit import kernel
from penstock.kernels.strings import U8, compare_strings

KEY, COUNT, BACK, NEXT = 0, 1, 2, 3
"""Words of a node: key, how often, node before, node after (or next free node)."""
USED, FREE, FREED = 1, 2, 3
"""Registers in slot 0: highest node ever used, first free node, number of free nodes."""
WORDS = 4


@kernel
def free_node(pool: I64, node: int) -> None:
    """Give a node back."""
    pool[node, KEY] = 0
    pool[node, NEXT] = pool[0, FREE]
    pool[0, FREE] = node
    pool[0, FREED] += 1


@kernel
def append_node(pool: I64, back: int, key: int) -> int:
    """A new last node behind `back` (0: the first). The pool must have room."""
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


@kernel
def push(pool: I64, back: int, key: int) -> int:
    """A row with `key` came; returns the new last node (the front too if none is before it)."""
    while back != 0 and pool[back, KEY] < key:
        before = pool[back, BACK]
        free_node(pool, back)
        back = before
    if back != 0 and pool[back, KEY] == key:
        pool[back, COUNT] += 1
        pool[back, NEXT] = 0
        return back
    return append_node(pool, back, key)


@kernel
def push_string(
    pool: I64, back: int, code: int, flip: bool, starts: I64, lengths: I64, heap: U8
) -> int:
    """The same for the string `code`; with `flip` the least string is kept in front."""
    while back != 0:
        order = compare_strings(pool[back, KEY], code, starts, lengths, heap)
        if order <= 0 if flip else order >= 0:
            break
        before = pool[back, BACK]
        free_node(pool, back)
        back = before
    if back != 0 and pool[back, KEY] == code:
        pool[back, COUNT] += 1
        pool[back, NEXT] = 0
        return back
    return append_node(pool, back, code)


@kernel
def leave(pool: I64, front: int, key: int) -> int:
    """The oldest row, whose key is `key`, left; returns the new front, 0 when none is left."""
    if front == 0 or pool[front, KEY] != key:
        return front
    pool[front, COUNT] -= 1
    if pool[front, COUNT] > 0:
        return front
    after = pool[front, NEXT]
    if after != 0:
        pool[after, BACK] = 0
    free_node(pool, front)
    return int(after)


@kernel
def clear_deques(pool: I64, state: I64, groups: I64, at: int) -> None:
    """Free all nodes of the deques of `groups`."""
    for i in range(groups.shape[0]):
        g = groups[i]
        node = state[g, at]
        while node != 0:
            after = pool[node, NEXT]
            free_node(pool, node)
            node = after
        state[g, at] = 0
        state[g, at + 1] = 0
