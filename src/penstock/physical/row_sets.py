"""Changelogs with one row per result row and the set of queries that it belongs to (CACQ §2.2).

Rows that carry sets through the plan are shown as they are. Changes that come query by query are
gathered: changes of one instant with equal kind and values become one row. If a query has a change
n times, n rows contain the query. The two halves of a replacement are gathered together.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.changes import Changes, concat_changes
from penstock.delta import Sets, start_offsets
from penstock.kernels.changes import (
    POSTIMAGE,
    PREIMAGE,
    is_leaving,
    mend_pairs,
    net_changes,
    view_words,
)
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.rows import first_equal
from penstock.kernels.sets import count_before
from penstock.state.sets import SetTable


def gather(changes: Changes) -> Changes:
    """Merge equal changes of different queries into one change; `changes` come query by query."""
    heads = np.flatnonzero(changes.kind != POSTIMAGE)
    qid = changes.qid[heads]
    alike = first_equal(_words(changes, heads))
    turn = count_before(first_equal(np.stack([alike, qid], axis=1)))
    found = first_equal(np.stack([alike, turn], axis=1))  # by unit: its representative
    shown = np.flatnonzero(found == np.arange(found.shape[0]))
    place = np.empty(found.shape[0], np.int64)
    place[shown] = np.arange(shown.shape[0])
    which = place[found]
    order = np.lexsort((qid, which))
    sizes = np.bincount(which, minlength=shown.shape[0])
    return _units(changes, heads[shown], Sets(start_offsets(sizes), qid[order]))


def _words(changes: Changes, heads: I64) -> I64:
    """The words that equal units share: time, kind, values, and the values of the other half."""
    own = view_words(changes.rows, changes.time, heads)
    pairs = changes.kind[heads] == PREIMAGE
    parts = [own, changes.kind[heads, None].astype(np.int64)]
    if pairs.any():
        other = np.zeros_like(own)
        other[pairs] = view_words(changes.rows, changes.time, heads[pairs] + 1)
        parts.append(other)
    return np.concatenate(parts, axis=1)


def _units(changes: Changes, heads: I64, sets: Sets) -> Changes:
    """The units that begin at `heads`, each with its set of queries."""
    sizes = 1 + (changes.kind[heads] == PREIMAGE)
    begins = start_offsets(sizes)
    index = np.repeat(heads - begins[:-1], sizes) + np.arange(begins[-1])
    which = np.repeat(np.arange(heads.shape[0]), sizes)
    return Changes(changes.rows[:, index], changes.time[index], changes.kind[index], which, sets)


def decode(changes: Changes, table: SetTable) -> Changes:
    """Replace the set codes in `qid` by the sets themselves."""
    sets, which = table.distinct(changes.qid)
    return Changes(changes.rows, changes.time, changes.kind, which, sets)


def net_sets(changes: Changes, table: SetTable) -> Changes:
    """Cancel insertions against deletions of a batch, for each query; return the remaining changes.

    `changes` have set codes. Only values that are both inserted and deleted are exploded by query.
    """
    mixed = _mixed(changes)
    if not mixed.any():
        return decode(changes, table)
    apart = _explode(changes.take(np.flatnonzero(mixed)), table)
    kept = net_changes(apart.rows, apart.qid, apart.kind)
    netted = apart.take(kept).with_(kind=mend_pairs(apart.kind, kept))
    whole = changes.take(np.flatnonzero(~mixed))
    return concat_changes([decode(whole, table), gather(netted)])


def _explode(changes: Changes, table: SetTable) -> Changes:
    """Changes query by query; pairs stay together."""
    sign = np.where(changes.kind == PREIMAGE, -2, 1).astype(np.int8)
    sets = Sets(*table.explode(changes.qid))
    rows, qids, _ = signed_pairs(sets, sign, keyed=True)
    return changes.take(rows).with_(qid=qids)


def _mixed(changes: Changes) -> Bool:
    """Marks changes of values that are both inserted and deleted, and their other halves."""
    n = len(changes)
    alike = first_equal(view_words(changes.rows, np.zeros(n, np.int64), np.arange(n)))
    leaving = is_leaving(changes.kind)
    goes, comes = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    goes[alike[leaving]] = True
    comes[alike[~leaving]] = True
    mixed = (goes & comes)[alike]
    first = np.flatnonzero(changes.kind == PREIMAGE)
    mixed[first] = mixed[first + 1] = mixed[first] | mixed[first + 1]
    return mixed
