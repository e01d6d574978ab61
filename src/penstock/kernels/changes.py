"""Kernels of the changelog: merge arrivals with expirations in time order."""

from __future__ import annotations

import numpy as np

from penstock.delta import I8, I64
from penstock.kernels.jit import kernel

INSERT, DELETE, PREIMAGE, POSTIMAGE = 0, 1, 2, 3


@kernel
def view_words(rows: I64, lin: I64, index: I64) -> I64:
    """Words of a view entry for each chosen row: [lin, NULL word, values…], row-major."""
    n, width = index.shape[0], rows.shape[0]
    out = np.empty((n, 1 + width), np.int64)
    for k in range(n):
        i = index[k]
        out[k, 0] = lin[i]
        for c in range(width):
            out[k, 1 + c] = rows[c, i]
    return out


@kernel
def kinds_of_signs(sign: I8) -> I8:
    """Change kind of each signed row."""
    out = np.empty(sign.shape[0], np.int8)
    for i in range(sign.shape[0]):
        s = sign[i]
        out[i] = INSERT if s == 1 else DELETE if s == -1 else PREIMAGE if s < 0 else POSTIMAGE
    return out


@kernel
def merge_changes(
    rows: I64, ts: I64, sign: I8, lin: I64, gone_at: I64, gone: I64, words: I64
) -> tuple[I64, I64, I8, I64]:
    """Arrivals and expired entries as one changelog in time order, expirations first."""
    n, m, width = ts.shape[0], gone_at.shape[0], rows.shape[0]
    out = np.empty((width, n + m), np.int64)
    time = np.empty(n + m, np.int64)
    kind = np.empty(n + m, np.int8)
    who = np.empty(n + m, np.int64)
    i, j = 0, 0
    for k in range(n + m):
        if j < m and (i >= n or gone_at[j] <= ts[i]):
            slot = gone[j]
            time[k], kind[k], who[k] = gone_at[j], DELETE, words[slot, 0]
            for c in range(width):
                out[c, k] = words[slot, 1 + c]
            j += 1
        else:
            s = sign[i]
            time[k], who[k] = ts[i], lin[i]
            kind[k] = INSERT if s == 1 else DELETE if s == -1 else PREIMAGE if s < 0 else POSTIMAGE
            for c in range(width):
                out[c, k] = rows[c, i]
            i += 1
    return out, time, kind, who
