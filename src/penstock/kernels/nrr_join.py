"""What rows of a stream with retractions joined in a non-retroactive relation.

Each arrival leaves one entry per result, or one unmatched entry, all with its sequence number.
A −1 row recalls the entries of the oldest equal arrival: the table may have changed since.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import I8, I64
from penstock.kernels.jit import kernel
from penstock.kernels.join import DIES, NEXT, REMOVALS, REMOVED


@kernel
def _oldest(chain: int, links: I64, state: I64, head: I64, sequence: int) -> int:
    """The least sequence number in `chain`, −1 when it is empty."""
    least = -1
    row = head[chain]
    while row >= 0:
        if least < 0 or state[row, sequence] < least:
            least = state[row, sequence]
        row = links[row, NEXT]
    return least


@kernel
def _recall(
    chain: int, ts: int, links: I64, state: I64, head: I64, regs: I64, out: I64, n: int
) -> int:  # fmt: skip
    """Unlink the oldest arrival's entries, the matched live ones to out[n:]; the new n."""
    sequence = state.shape[1] - 2
    oldest = _oldest(chain, links, state, head, sequence)
    row, before = head[chain], -1
    while row >= 0:
        following = links[row, NEXT]
        if state[row, sequence] == oldest:
            if before < 0:
                head[chain] = following
            else:
                links[before, NEXT] = following
            links[row, NEXT] = REMOVED
            regs[REMOVALS] += 1
            if state[row, sequence + 1] and links[row, DIES] > ts:
                out[n, 0], out[n, 1], out[n, 2] = row, ts, -1
                n += 1
        else:
            before = row
        row = following
    return n


@kernel
def remember(
    ts: I64, sign: I8, ids: I64, first: I64, slots: I64,
    links: I64, state: I64, head: I64, regs: I64,
) -> I64:  # fmt: skip
    """Link the entries of + rows, recall those of − rows; emitted (slot, ts, sign) in order.

    Row i has the entries slots[first[i]:first[i + 1]], its arrivals the chain ids[i].
    """
    matched = state.shape[1] - 1
    out = np.empty((slots.shape[0] + regs[0], 3), np.int64)
    n = 0
    for i in range(ts.shape[0]):
        chain = ids[i]
        if chain < 0:
            continue
        if sign[i] < 0:
            n = _recall(chain, ts[i], links, state, head, regs, out, n)
            continue
        for k in range(first[i], first[i + 1]):
            slot = slots[k]
            links[slot, NEXT] = head[chain]
            head[chain] = slot
            if state[slot, matched]:
                out[n, 0], out[n, 1], out[n, 2] = slot, ts[i], 1
                n += 1
    return out[:n]
