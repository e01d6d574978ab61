"""Input and output of the kernels of the index over pairs of streams (Agarwal et al. 2009, §2-§4).

Rows of one stream *probe* rows of another, their *partners*, for many queries at once. A query
takes a partner if low ≤ gap ≤ high. The gap is the partner's value on the *axis*; in a band join,
it is that value minus the shift of the probing row. A query may also have intervals for columns of
the probing row (*own*) and for further columns of the partner (*rest*). If a band is not the axis,
its gap is one of the rest.

All values and bounds are ordered words (`penstock.predicates.terms.ordered`): for floats, the order
of the words is the order of the floats, with NaN last. Kernels do not write to these arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64, Bool

LEAST: int = int(np.iinfo(np.int64).min)
MOST: int = int(np.iinfo(np.int64).max)
NAN: int = int(np.float64(np.nan).view(np.int64))
"""The word of the float NaN, above the words of all other floats."""
INTEGER, FLOAT, GAP = 0, 1, 2
"""Kinds of rest conditions."""
NO_SHIFTS: I64 = np.empty(0, np.int64)


class Entries(NamedTuple):
    """Partners in sorted runs: run r is at [offsets[r], offsets[r + 1]).

    A run is sorted by (key, value), or by value only if the join has no key: then `keys` is empty.
    Entries outside the positions that a probing row sees are skipped.
    """

    keys: I64
    values: I64
    positions: I64  # in the partner's log, absolute
    offsets: I64


class Partner(NamedTuple):
    """The partner's log: the row at position p is `rows[p - base]`, the word of its NULLs first.

    `rows` may be empty if no query asks rest conditions, `ts` if all windows are of one length,
    and `epoch` if all queries see the same rows.
    """

    rows: I64
    ts: I64
    epoch: I64
    base: int


class Probes(NamedTuple):
    """Rows that probe: row i sees the partners at positions in [floor, limits[i])."""

    keys: I64  # empty if the join has no key
    shifts: I64  # empty if the join is not a band join
    own: I64  # [own condition, row]
    instants: I64  # may be empty if all windows are of one length
    epochs: I64  # may be empty if all queries see the same rows
    limits: I64
    skip: Bool  # marks rows without partners; empty: no row is marked
    floor: int
    is_float: bool = False  # whether the gap of a band is a difference of floats
    undefined: int = NAN  # the word of a gap that is NaN
    rest_shifts: I64 = NO_SHIFTS  # of a band that is not the axis


class Queries(NamedTuple):
    """The conditions of queries, by slot."""

    low: I64
    high: I64
    own_low: I64  # [own condition, slot]
    own_high: I64
    rest_low: I64  # [rest condition, slot]
    rest_high: I64
    rest_columns: I64  # of the partner's rows
    rest_kinds: I64  # `INTEGER`, `FLOAT` (words that are not ordered yet), or the `GAP` of a band
    lengths: I64  # length of the partner's window; empty: it has all rows from `floor` on
    since: I64  # the first epoch that a query sees; empty: it sees all rows


class Grouping(NamedTuple):
    """Stabbing groups: a group has a point that is in the interval of each of its queries.

    A slot without a group has −1: its query is scattered, or has an empty interval.
    """

    groups: I64  # by slot
    points: I64  # by group


class Found(NamedTuple):
    """Pairs by probing row, not in order: `words` of `order[i]` are at [starts[i], starts[i + 1]).

    A word is (position − floor) << bits | slot.
    """

    words: I64
    starts: I64


class Triples(NamedTuple):
    """Pairs of rows and the queries that take them, in order of (row, position, slot)."""

    rows: I64
    positions: I64
    slots: I64
