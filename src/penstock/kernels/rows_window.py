"""The kernel of count windows: finds the stored row that each new row displaces, per partition."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel


@kernel
def displace_rows(
    ids: I64, slots: I64, limit: int, heads: I64, tails: I64, counts: I64, nxt: I64
) -> I64:
    """Append slot i to the queue of partition ids[i]; return the displaced slot, or −1."""
    n = ids.shape[0]
    out = np.full(n, -1, np.int64)
    for i in range(n):
        p, slot = ids[i], slots[i]
        nxt[slot] = -1
        if counts[p] == 0:
            heads[p] = slot
        else:
            nxt[tails[p]] = slot
        tails[p] = slot
        counts[p] += 1
        if counts[p] > limit:
            out[i] = heads[p]
            heads[p] = nxt[heads[p]]
            counts[p] -= 1
    return out
