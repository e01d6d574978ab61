"""Kernels of sets that are prefixes of ranked lists: their members, ascending.

List l has its members, ascending, at [offsets[l], offsets[l + 1]). A prefix has those with a rank
below its length. Set i has the segments at [starts[i], starts[i + 1]): segment j is the prefix of
list ``lists[j]`` that has length ``lengths[j]``.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I32, I64
from penstock.kernels.jit import inlined, kernel

Words = I32 | I64
_SPARSE = 16  # a prefix of at most one in so many members is sorted, not looked for in its list


@kernel
def places_by_rank(offsets: I64, ranks: I64) -> I64:
    """The place of each list's members in order of rank."""
    places = np.empty(ranks.shape[0], np.int64)
    for i in range(offsets.shape[0] - 1):
        for k in range(offsets[i], offsets[i + 1]):
            places[offsets[i] + ranks[k]] = k
    return places


@inlined
def _sort_few(words: I64, n: int) -> None:
    """Sort the first n words (Shell 1959)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            word, j = words[i], i
            while j >= gap and words[j - gap] > word:
                words[j] = words[j - gap]
                j -= gap
            words[j] = word
        gap //= 3


@inlined
def _write_prefix(
    begin: int, end: int, length: int, members: I64, ranks: I64, places: I64, spare: I64,
    out: Words, n: int,
) -> int:  # fmt: skip
    """Write the members of a prefix from place n of `out` on; the end."""
    if length == end - begin:
        for k in range(begin, end):
            out[n + k - begin] = members[k]
    elif length * _SPARSE <= end - begin:
        for k in range(length):
            spare[k] = places[begin + k]
        _sort_few(spare, length)
        for k in range(length):
            out[n + k] = members[spare[k]]
    else:
        at = n
        for k in range(begin, end):  # no branch: it would be unpredictable
            out[at] = members[k]
            at += ranks[k] < length
    return n + length


@inlined
def _merge_runs(out: Words, begin: int, middle: int, end: int, spare: I64) -> None:
    """Merge two ascending runs that follow each other."""
    for k in range(middle, end):
        spare[k - middle] = out[k]
    i, j = middle - 1, end - middle - 1
    for k in range(end - 1, begin - 1, -1):
        if j < 0:
            break
        if i >= begin and out[i] > spare[j]:
            out[k] = out[i]
            i -= 1
        else:
            out[k] = spare[j]
            j -= 1


@kernel
def expand_prefixes(
    starts: I64, lists: I64, lengths: I64, offsets: I64, members: I64, ranks: I64, places: I64,
    out: Words,
) -> I64:  # fmt: skip
    """Write the members of each set, ascending, to `out`, which has room for one more; the ends."""
    longest = 1
    for i in range(lists.shape[0]):
        longest = max(longest, lengths[i])
    spare, ends, n = np.empty(longest, np.int64), np.zeros(starts.shape[0], np.int64), 0
    for i in range(starts.shape[0] - 1):
        for j in range(starts[i], starts[i + 1]):
            begin, middle = offsets[lists[j]], n
            n = _write_prefix(
                begin, offsets[lists[j] + 1], lengths[j], members, ranks, places, spare, out, n
            )
            if middle > ends[i]:
                _merge_runs(out, ends[i], middle, n, spare)
        ends[i + 1] = n
    return ends


@kernel
def copy_lists(who: I64, offsets: I64, items: Words) -> tuple[I32, I32]:
    """The items of each row's set one after another, as Arrow counts them: offsets, items."""
    n = who.shape[0]
    ends = np.zeros(n + 1, np.int32)
    for i in range(n):
        ends[i + 1] = ends[i] + (offsets[who[i] + 1] - offsets[who[i]])
    out = np.empty(ends[n], np.int32)
    for i in range(n):
        begin, at = offsets[who[i]], ends[i]
        for k in range(ends[i + 1] - at):
            out[at + k] = items[begin + k]
    return ends, out
