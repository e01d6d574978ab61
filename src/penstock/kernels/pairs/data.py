"""What the kernels of the index over pairs of streams take and give (Agarwal et al. 2009, §2-§4).

Rows of one stream *probe* rows of another, their *partners*, for many queries at once. A query
takes a partner if low ≤ gap ≤ high, where gap is the partner's value on the *axis*, less the
shift of the probing row if the join is a band join. It may also ask intervals of columns of the
probing row (*own*) and of further columns of the partner (*rest*).

All values and bounds are ordered words (`penstock.predicates.terms.ordered`): for floats, the
order of the words is the order of the floats, with NaN last. No array is written to.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64, Bool

LEAST: int = int(np.iinfo(np.int64).min)
MOST: int = int(np.iinfo(np.int64).max)
NAN: int = int(np.float64(np.nan).view(np.int64))
"""The word of the float NaN, above the words of all other floats."""


class Entries(NamedTuple):
    """Partners in sorted runs: run r is at [offsets[r], offsets[r + 1]).

    A run is in order of (key, value), and of value alone if the join has no key: `keys` is empty
    then. Some entries may lie outside the positions that a probing row sees; they are passed over.
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
    skip: Bool  # rows that have no partners; empty: none of them
    floor: int
    is_float: bool = False  # whether the gap of a band is a difference of floats
    undefined: int = NAN  # the word of a gap that is NaN


class Queries(NamedTuple):
    """What the queries ask, by slot."""

    low: I64
    high: I64
    own_low: I64  # [own condition, slot]
    own_high: I64
    rest_low: I64  # [rest condition, slot]
    rest_high: I64
    rest_columns: I64  # of the partner's rows
    rest_float: I64  # 1: the column holds floats, whose words are not in order yet
    lengths: I64  # of the partner's window; empty: all rows at `floor` and above are in it
    since: I64  # the first epoch whose rows a query sees; empty: it sees all rows


class Grouping(NamedTuple):
    """Stabbing groups: the point of a group is in the interval of each of its queries.

    A slot without a group has −1: a scattered query, or one with an empty interval.
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
