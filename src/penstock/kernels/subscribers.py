"""Kernels of subscribers: the queries that each row of Q serves, as linked lists in flat arrays.

`row` is indexed by query. `after` and `before` link the queries of a row in order of arrival, from
its `head` to its `tail` (−1: none).
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import inlined, kernel


@inlined
def _link(
    query: int, into: int, row: I64, after: I64, before: I64, head: I64, tail: I64, size: I64
) -> None:
    last = tail[into]
    row[query], after[query], before[query] = into, -1, last
    if last >= 0:
        after[last] = query
    else:
        head[into] = query
    tail[into] = query
    size[into] += 1


@kernel
def link_queries(
    queries: I64, rows: I64, row: I64, after: I64, before: I64, head: I64, tail: I64, size: I64
) -> None:
    """Append each query to the list of its row."""
    for i in range(queries.shape[0]):
        _link(queries[i], rows[i], row, after, before, head, tail, size)


@kernel
def link_to_fresh(
    queries: I64, rows: I64, fresh: I64, row: I64, after: I64, before: I64, head: I64, tail: I64,
    size: I64,
) -> tuple[I64, I64]:  # fmt: skip
    """Link the queries of rows without queries, and mark these rows as `fresh`.

    Returns the place of each such row's first query, and the places of queries of other rows.
    """
    n = queries.shape[0]
    first, others = np.empty(n, np.int64), np.empty(n, np.int64)
    new = left = 0
    for i in range(n):
        into = rows[i]
        if size[into] == 0:
            fresh[into] = 1
            first[new] = i
            new += 1
        if fresh[into] == 1:
            _link(queries[i], into, row, after, before, head, tail, size)
        else:
            others[left] = i
            left += 1
    return first[:new].copy(), others[:left].copy()


@kernel
def unlink_queries(
    queries: I64, row: I64, after: I64, before: I64, head: I64, tail: I64, size: I64
) -> None:
    """Remove each query (distinct, linked) from the list of its row."""
    for i in range(queries.shape[0]):
        query = queries[i]
        previous, following = before[query], after[query]
        if previous >= 0:
            after[previous] = following
        else:
            head[row[query]] = following
        if following >= 0:
            before[following] = previous
        else:
            tail[row[query]] = previous
        size[row[query]] -= 1
        row[query] = -1


@kernel
def queries_of_rows(rows: I64, after: I64, head: I64, size: I64) -> tuple[I64, I64]:
    """The queries of each row, concatenated, and the start and end of each row's part."""
    n = rows.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        offsets[i + 1] = offsets[i] + size[rows[i]]
    found = np.empty(offsets[n], np.int64)
    for i in range(n):
        query = head[rows[i]]
        for at in range(offsets[i], offsets[i + 1]):
            found[at] = query
            query = after[query]
    return offsets, found
