"""Chain ids for the rows of a join: by equality columns, or by buckets of a bounded band.

Both sides share one key table, so a row stored in a chain also probes that chain. A join with only
a bounded band stores rows by bucket and probes the buckets that the band covers.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Delta
from penstock.kernels.join import FLOAT_BAND, INT_BAND, Test
from penstock.kernels.join_keys import (
    equi_keys,
    float_buckets,
    float_probes,
    int_buckets,
    int_probes,
)
from penstock.state.arena import Scope
from penstock.state.join_side import JoinSide, release_chains
from penstock.state.keytable import KeyTable

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_RESOLUTION = 2.0**45  # bucket widths from zero up to which doubles tell buckets apart


def _bucket_width(test: Test) -> float:
    """Width of the band's buckets; 0 when the band is open, empty or too narrow for buckets."""
    if test.kind == INT_BAND:
        span = test.high - test.low + 1
        return span if test.low > _MIN and test.high < _MAX and 0 < span < 2**53 else 0
    if test.kind == FLOAT_BAND:
        width = test.high_float - test.low_float or 1.0
        bounds = abs(test.high_float) + abs(test.low_float)
        return width if 0 < width < np.inf and bounds < _RESOLUTION * width else 0
    return 0


class JoinKeys:
    """Chain ids of both sides' rows; the key includes the lineage when both sides are `tagged`."""

    def __init__(
        self, scope: Scope, equi: tuple[tuple[int, int], ...], test: Test, tagged: bool
    ) -> None:
        self._scope, self._test, self._tagged = scope, test, tagged
        self._columns = tuple(np.array([pair[side] for pair in equi], np.int64) for side in (0, 1))
        self._width = 0 if equi else _bucket_width(test)
        words = (len(equi) or int(self._width > 0)) + int(tagged)
        self._table = KeyTable(scope, words)

    @property
    def bucketed(self) -> bool:
        """Whether rows are chained by buckets of the band."""
        return self._width > 0

    @property
    def capacity(self) -> int:
        """An upper bound: every id is below it."""
        return self._table.capacity

    def assign(self, delta: Delta, is_left: bool) -> I64:
        """Chain of each row; −1 for a row that cannot match or that retracts an unknown row."""
        keys, good = self._keys(delta, is_left)
        plus = delta.sign > 0
        if good.all() and plus.all():
            return self._table.assign(keys)
        ids = np.full(len(delta), -1, np.int64)
        ids[good & plus] = self._table.assign(keys[good & plus])
        ids[good & ~plus] = self._table.find(keys[good & ~plus])
        return ids

    def find(self, delta: Delta, is_left: bool) -> I64:
        """Chain of each row; −1 when no row of the other side can match it."""
        keys, good = self._keys(delta, is_left)
        ids = self._table.find(keys)
        ids[~good] = -1
        return ids

    def probes(self, delta: Delta, is_left: bool) -> I64:
        """Chains that each row must probe (n × p); p = 0 means only the row's own chain."""
        if not self.bucketed:
            return np.empty((len(delta), 0), np.int64)
        test = self._test
        values = delta.rows[1 + (test.left_column if is_left else test.right_column)]
        side = (is_left, self._tagged)
        if test.kind == INT_BAND:
            width = int(self._width)
            keys, good = int_probes(values, delta.lin, test.low, test.high, width, *side)
        else:
            low, high = test.low_float, test.high_float
            keys, good = float_probes(values, delta.lin, low, high, self._width, *side)
        ids = self._table.find(keys)
        ids[~good] = -1
        return ids.reshape(len(delta), -1) if len(delta) else np.empty((0, 1), np.int64)

    def release(self, sides: list[JoinSide], dropped: I64) -> None:
        """Recycle chains that became empty because their rows were dropped."""
        self._table = release_chains(self._table, self._scope, sides, dropped)

    def _keys(self, delta: Delta, is_left: bool) -> tuple[I64, Bool]:
        """Key words of each row, and whether the row can match (a NULL key never does)."""
        test = self._test
        columns = self._columns[0 if is_left else 1]
        banded = test.left_column if is_left else test.right_column
        tested = [*columns.tolist(), banded] if test.kind else columns.tolist()
        good = ~delta.has_null(tested)
        if not self.bucketed:
            return equi_keys(delta.rows, delta.lin, columns, self._tagged), good
        values = delta.rows[1 + banded]
        if test.kind == INT_BAND:
            return int_buckets(values, delta.lin, int(self._width), self._tagged), good
        keys, finite = float_buckets(values, delta.lin, self._width, self._tagged)
        return keys, good & finite
