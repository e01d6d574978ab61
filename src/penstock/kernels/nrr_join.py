"""Remembers the results of a join of a stream with retractions and a non-retroactive table.

Each arrival stores one entry per result, or one unmatched entry, all with its sequence number. A −1
row removes the entries of the oldest equal arrival, because the table may have changed since.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64
from penstock.kernels.jit import kernel
from penstock.kernels.join import REMOVALS, REMOVED, Chains


@kernel
def _oldest(chain: int, side: Chains, sequence: int) -> int:
    """The least sequence number in `chain`; −1 if the chain is empty."""
    least = -1
    row = side.head[chain]
    while row >= 0:
        if least < 0 or side.state[row, sequence] < least:
            least = side.state[row, sequence]
        row = side.next[row]
    return least


@kernel
def _recall(chain: int, ts: int, side: Chains, out: I64, n: int) -> int:
    """Unlink the oldest arrival's entries; append the matched live ones to out[n:]; the new n."""
    following, state, head = side.next, side.state, side.head
    sequence = state.shape[1] - 2
    oldest = _oldest(chain, side, sequence)
    row, before = head[chain], -1
    while row >= 0:
        after = following[row]
        if state[row, sequence] == oldest:
            if before < 0:
                head[chain] = after
            else:
                following[before] = after
            following[row] = REMOVED
            side.regs[REMOVALS] += 1
            if state[row, sequence + 1] and side.exp[row] > ts:
                out[n, 0], out[n, 1], out[n, 2] = row, ts, -1
                n += 1
        else:
            before = row
        row = after
    return n


@kernel
def remember(ts: I64, sign: I8, ids: I64, first: I64, slots: I64, side: Chains) -> I64:
    """Link the entries of + rows and remove those of − rows; emits (slot, ts, sign) in order.

    Row i has the entries slots[first[i]:first[i + 1]]; equal arrivals share the chain ids[i].
    """
    following, state, head = side.next, side.state, side.head
    matched = state.shape[1] - 1
    out = np.empty((slots.shape[0] + side.used, 3), np.int64)
    n = 0
    for i in range(ts.shape[0]):
        chain = ids[i]
        if chain < 0:
            continue
        if sign[i] < 0:
            n = _recall(chain, ts[i], side, out, n)
            continue
        for k in range(first[i], first[i + 1]):
            slot = slots[k]
            following[slot] = head[chain]
            head[chain] = slot
            if state[slot, matched]:
                out[n, 0], out[n, 1], out[n, 2] = slot, ts[i], 1
                n += 1
    return out[:n]
