"""A SteM for joins by key and by order: rows with a key, in order of one more column.

It may have no key column: then all rows are in order of the one column, those with NaN included.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.kernels.stem_runs import count_keys, key_words
from penstock.logical.stem_kind import StemKind
from penstock.stems.stem import RunStem


class KeyedStem(RunStem):
    """Rows by the columns of a key, then by one column in order; NaN is the largest value.

    Rows with a NULL in one of these columns have no entry.
    """

    kind = StemKind.KEYED
    _RATIO, _NAN = 4, True

    @property
    def exact_key(self) -> bool:
        """Whether rows with equal key words have equal keys; else readers must compare the rows."""
        return len(self.columns) <= 2

    def words(self, keys: I64) -> I64:
        """The key word of each column of a matrix with a row per key column."""
        return key_words(np.ascontiguousarray(keys))

    def count(self, words: I64) -> I64:
        """How many rows have each key word, about: also rows that are gone or have not come."""
        return count_keys(
            np.ascontiguousarray(words), self._all_entries()[0], self._ends("offsets")
        )

    def runs(self) -> tuple[I64, I64, I64, I64]:
        """For kernels: keys (empty if it has none), values and positions, and where runs start.

        Values are in the form in which they are ordered; runs are sorted by (key, value, position).
        """
        return *self._all_entries(), self._ends("offsets")
