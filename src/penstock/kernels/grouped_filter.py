"""Lists of the queries that take each row (CSR), made from bit matrices and turned into pairs."""

from __future__ import annotations

import numpy as np

from penstock.arrays import I8, I64
from penstock.delta import Sets
from penstock.kernels.grouped_filter_bits import U64, lowest_bit
from penstock.kernels.grouped_filter_rank import Ranked, rank_rows
from penstock.kernels.grouped_filter_scan import Intervals, fill_matrix, tile_of
from penstock.kernels.jit import inlined, kernel


@kernel
def list_queries(
    values: I64, rows: I64, chunk: Ranked, asked: Intervals, queries: I64, counts: I64
) -> I64:
    """The queries that take each of the `rows`, ascending; writes their number to `counts[row]`."""
    most = chunk.order.shape[1]
    matrix = np.empty((most, (queries.shape[0] + 63) >> 6), np.uint64)
    tile = tile_of(asked)
    qids = np.empty(0, np.int64)
    used = np.int64(0)
    for start in range(0, rows.shape[0], most):
        part = rows[start : start + most]
        rank_rows(values, part, chunk)
        total = used + fill_matrix(chunk, asked, tile, matrix)
        if total > qids.shape[0]:
            rest = (rows.shape[0] - start) // part.shape[0]  # number of chunks still to come
            room = np.empty(max(total + (total - used) * rest, 2 * used), np.int64)
            room[:used] = qids[:used]
            qids = room
        _list_matrix(matrix, part, queries, qids[used:total], counts)
        used = total
    return qids[:used]


@kernel
def _list_matrix(matrix: U64, rows: I64, queries: I64, qids: I64, counts: I64) -> None:
    k = 0
    for i in range(rows.shape[0]):
        start = k
        for block in range(matrix.shape[1]):
            word = matrix[i, block]
            while word:
                qids[k] = queries[block * 64 + np.int64(lowest_bit(word))]
                word &= word - np.uint64(1)
                k += 1
        counts[rows[i]] = k - start


@kernel
def pair_up(offsets: I64, qids: I64, sign: I8) -> tuple[I64, I64, I8]:
    """Signed pairs for rows with replacements (−2, +2); the queries of both halves are merged.

    If a query takes only one half, that half becomes ±1.
    """
    rows = np.empty(qids.shape[0], np.int64)
    merged = np.empty(qids.shape[0], np.int64)
    signs = np.empty(qids.shape[0], np.int8)
    k = 0
    i = 0
    while i < sign.shape[0]:
        pair = sign[i] == -2
        a, a_end = offsets[i], offsets[i + 1]
        b, b_end = (a_end, offsets[i + 2]) if pair else (a_end, a_end)
        while a < a_end or b < b_end:
            first = a < a_end and (b == b_end or qids[a] <= qids[b])
            second = b < b_end and (a == a_end or qids[b] <= qids[a])
            if first:
                rows[k], merged[k] = i, qids[a]
                signs[k] = sign[i] if (second or not pair) else -1
                a += 1
                k += 1
            if second:
                rows[k], merged[k] = i + 1, qids[b]
                signs[k] = 2 if first else 1
                b += 1
                k += 1
        i += 2 if pair else 1
    return rows, merged, signs


def signed_pairs(sets: Sets, sign: I8, keyed: bool) -> tuple[I64, I64, I8]:
    """(row, query) pairs with signs, in the same order and with the same signs as `match_queries`.

    `sets` has the queries of each row, ascending.
    """
    if keyed and (sign == -2).any():
        return pair_up(sets.offsets, sets.items, sign)
    return sets.owners, sets.items, np.repeat(sign, sets.sizes)


@kernel
def append_rows(counts: I64, qids: I64, ends: I64, merged: I64) -> None:
    """Append each row's queries to its list in `merged`; `ends` has the end of each list."""
    k = 0
    for i in range(counts.shape[0]):
        at = ends[i]
        for _ in range(counts[i]):
            merged[at] = qids[k]
            at += 1
            k += 1
        ends[i] = at


@kernel
def unite_rows(offsets: I64, qids: I64, more_offsets: I64, more: I64) -> tuple[I64, I64]:
    """The union of two lists of queries for each row, ascending."""
    ends = np.zeros_like(offsets)
    united = np.empty(qids.shape[0] + more.shape[0], np.int64)
    k = 0
    for i in range(offsets.shape[0] - 1):
        a, a_end = offsets[i], offsets[i + 1]
        b, b_end = more_offsets[i], more_offsets[i + 1]
        while a < a_end or b < b_end:
            first = a < a_end and (b == b_end or qids[a] <= more[b])
            second = b < b_end and (a == a_end or more[b] <= qids[a])
            united[k] = qids[a] if first else more[b]
            a += first
            b += second
            k += 1
        ends[i + 1] = k
    return ends, united[:k].copy()


def unite(one: Sets, other: Sets) -> Sets:
    """The union of two sets of queries for each row."""
    return Sets(*unite_rows(one.offsets, one.items, other.offsets, other.items))


@kernel
def sort_rows(offsets: I64, qids: I64, most: int) -> None:
    """Sort the queries of each row in place; all must be below `most`."""
    seen = np.zeros((most >> 6) + 1, np.uint64)
    for i in range(offsets.shape[0] - 1):
        start, end = offsets[i], offsets[i + 1]
        k = start + 1
        while k < end and qids[k - 1] < qids[k]:
            k += 1
        if k >= end:
            continue
        if end - start <= 24:
            for j in range(k, end):
                _insert(qids, start, j)
        elif (end - start) * 4 < seen.shape[0]:
            qids[start:end].sort()
        else:
            _sort_by_bits(qids[start:end], seen)


@inlined
def _insert(qids: I64, start: int, j: int) -> None:
    qid = qids[j]
    while j > start and qids[j - 1] > qid:
        qids[j] = qids[j - 1]
        j -= 1
    qids[j] = qid


@kernel
def _sort_by_bits(qids: I64, seen: U64) -> None:
    """Sort distinct numbers by a scan over a bitmap; `seen` is empty before and after."""
    for j in range(qids.shape[0]):
        seen[qids[j] >> 6] |= np.uint64(1) << np.uint64(qids[j] & 63)
    k = 0
    for w in range(seen.shape[0]):
        word = seen[w]
        while word:
            qids[k] = w * 64 + np.int64(lowest_bit(word))
            word &= word - np.uint64(1)
            k += 1
        seen[w] = np.uint64(0)
