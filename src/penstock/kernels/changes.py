"""Kernels of the changelog: merge arrivals with expirations in time order."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I32, I64, Bool
from penstock.kernels.jit import kernel
from penstock.kernels.rows import first_equal

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
def _kind(sign: int) -> int:
    return INSERT if sign == 1 else DELETE if sign == -1 else PREIMAGE if sign < 0 else POSTIMAGE


@kernel
def _merge_order(ts: I64, sign: I8, gone_at: I64) -> tuple[I32, I64, I8]:
    """Merge arrivals with expirations: source (an arrival, or n + an expiration), time, kind."""
    n, m = ts.shape[0], gone_at.shape[0]
    source = np.empty(n + m, np.int32)
    time = np.empty(n + m, np.int64)
    kind = np.empty(n + m, np.int8)
    i, j, k = 0, 0, 0
    while i < n and j < m:  # no branch: it would be unpredictable
        expires = gone_at[j] <= ts[i]
        source[k] = n + j if expires else i
        time[k] = gone_at[j] if expires else ts[i]
        kind[k] = DELETE if expires else _kind(sign[i])
        j += expires
        i += 1 - expires
        k += 1
    for rest in range(j, m):
        source[k], time[k], kind[k] = n + rest, gone_at[rest], DELETE
        k += 1
    for rest in range(i, n):
        source[k], time[k], kind[k] = rest, ts[rest], _kind(sign[rest])
        k += 1
    return source, time, kind


@kernel
def merge_changes(
    rows: I64, ts: I64, sign: I8, lin: I64, gone_at: I64, gone: I64, words: I64, one: int,
    nulls: bool,
) -> tuple[I64, I64, I8, I64]:  # fmt: skip
    """Merge arrivals and expired entries into one changelog by time, expirations first.

    First the order is computed; then, column by column, both kinds are copied into one buffer and
    gathered from it. `one` is the query of all rows if there is only one (else −1). Without `nulls`
    all NULL words are 0.
    """
    n, m, width = ts.shape[0], gone_at.shape[0], rows.shape[0]
    source, time, kind = _merge_order(ts, sign, gone_at)
    out = np.empty((width, n + m), np.int64)
    who = np.empty(n + m, np.int64)
    both = np.empty(n + m, np.int64)
    if one >= 0:
        who[:] = one
    if not nulls:
        out[0] = 0
    for c in range(-1, width):
        if (c < 0 and one >= 0) or (c == 0 and not nulls):
            continue
        both[:n] = lin if c < 0 else rows[c]
        for j in range(m):
            both[n + j] = words[gone[j], 1 + c]
        column = who if c < 0 else out[c]
        for k in range(n + m):
            column[k] = both[source[k]]
    return out, time, kind, who


@kernel
def _net(words: I64, kind: I8) -> I64:
    """Positions of the rows left after cancelling each against an equal one of opposite kind."""
    first, n = first_equal(words), words.shape[0]
    newest = np.full(n, -1, np.int64)  # by first row with a content: the last, cancelled or not
    older = np.full(n, -1, np.int64)
    kept = np.ones(n, np.bool_)
    for i in range(n):
        last = newest[first[i]]
        while last >= 0 and not kept[last]:
            last = older[last]
        leaving = kind[i] == DELETE or kind[i] == PREIMAGE
        left = last >= 0 and (kind[last] == DELETE or kind[last] == PREIMAGE)
        if last >= 0 and leaving != left:
            kept[i] = False
            kept[last] = False
        else:
            older[i] = last
            newest[first[i]] = i
    return np.flatnonzero(kept)


def is_leaving(kind: I8) -> Bool:
    """Marks the changes that remove a row from the answer."""
    return np.asarray((kind == DELETE) | (kind == PREIMAGE))


def net_changes(rows: I64, lin: I64, kind: I8) -> I64:
    """Positions of the changes left after insertions are cancelled against deletions."""
    return _net(view_words(rows, lin, np.arange(lin.shape[0])), kind)


def mend_pairs(kind: I8, kept: I64) -> I8:
    """Kinds of the kept changes; half a replacement becomes an insertion or deletion."""
    out = kind[kept].copy()
    pre = np.flatnonzero(kind == PREIMAGE)
    there = np.zeros(kind.shape[0] + 1, np.bool_)
    there[kept] = True
    broken = np.zeros(kind.shape[0] + 1, np.bool_)
    broken[pre] = broken[pre + 1] = there[pre] != there[pre + 1]
    out[broken[kept] & (out == PREIMAGE)] = DELETE
    out[broken[kept] & (out == POSTIMAGE)] = INSERT
    return out
