"""A SteM for joins by key and by order: rows with a key, sorted by one more column.

Without key columns, all rows are sorted by the one column, including rows with NaN.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.stem_runs import count_keys, key_words
from penstock.logical.stem_kind import StemKind
from penstock.stems.stem import RunStem


class KeyedStem(RunStem):
    """Rows by key columns, then sorted by one column; NaN is the largest value.

    Rows with a NULL in one of these columns have no entry.
    """

    kind = StemKind.KEYED
    _RATIO, _NAN = 4, True

    @property
    def exact_key(self) -> bool:
        """Whether equal key words imply equal keys; if not, readers must compare the rows."""
        return len(self.columns) <= 2

    def words(self, keys: I64) -> I64:
        """The key word of each matrix column; the matrix has a row per key column."""
        return key_words(np.ascontiguousarray(keys))

    def count(self, words: I64) -> I64:
        """The approximate number of rows with each key word; rows out of view may be included."""
        return count_keys(
            np.ascontiguousarray(words), self._all_entries()[0], self._ends("offsets")
        )

    def runs(self) -> tuple[I64, I64, I64, I64]:
        """For kernels: keys (empty without key), values, positions, and the starts of runs.

        Values are ordered integers; runs are sorted by (key, value, position).
        """
        return *self._all_entries(), self._ends("offsets")
