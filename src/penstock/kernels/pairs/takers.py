"""Two sorted lists of (row, position, query), merged into one."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel


@kernel
def merge_takers(
    rows: I64, positions: I64, qids: I64, more_rows: I64, more_positions: I64, more_qids: I64
) -> tuple[I64, I64, I64]:
    """Merge two lists in order of (row, position, query), which share no entry."""
    n, m = rows.shape[0], more_rows.shape[0]
    out_rows, out_positions = np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    out_qids, i, j = np.empty(n + m, np.int64), 0, 0
    for k in range(n + m):
        first = j == m
        if i < n and not first:
            first = rows[i] < more_rows[j]
            if rows[i] == more_rows[j]:
                first = positions[i] < more_positions[j]
                if positions[i] == more_positions[j]:
                    first = qids[i] < more_qids[j]
        if first:
            out_rows[k], out_positions[k], out_qids[k] = rows[i], positions[i], qids[i]
            i += 1
        else:
            out_rows[k] = more_rows[j]
            out_positions[k], out_qids[k] = more_positions[j], more_qids[j]
            j += 1
    return out_rows, out_positions, out_qids
