"""Identical queries share a row of Q (DESIGN §2).

They have the same parameters and see rows from the same epoch on (0 with history). These form a
key, and the key's number is the row of Q. This module counts the queries of each row. Shards
find identical queries themselves (queries/subscribers.py).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable


class SharedRows:
    """The rows of one template's Q by the key of identical queries, in the arena."""

    def __init__(self, scope: Scope, params: int) -> None:
        self._scope = scope
        self._keys = KeyTable(scope.scope("keys"), 2 + params)
        scope.array("size", 8)  # queries of each row

    def _size(self) -> I64:
        return cast(I64, self._scope["size"])

    def enter(self, params: I64, since: int) -> tuple[I64, I64]:
        """Queries (column-major parameters, NULL word first) that see rows from an epoch on.

        Returns the row of each, and the places of the first query of each new row.
        """
        keys = np.empty((params.shape[1], 1 + params.shape[0]), np.int64)
        keys[:, 0], keys[:, 1:] = since, params.T
        rows = self._keys.assign(keys)
        self._scope.reserve("size", self._keys.capacity)
        new = np.flatnonzero(self._size()[rows] == 0)
        np.add.at(self._size(), rows, 1)
        return rows, new[np.sort(np.unique(rows[new], return_index=True)[1])]

    def leave(self, rows: I64) -> I64:
        """Remove one query from a row for each time the row is given; returns rows without queries.

        Removing the last query frees the arrays.
        """
        np.subtract.at(self._size(), rows, 1)
        empty = np.unique(rows[self._size()[rows] == 0])
        self._keys.release(empty)
        if not len(self._keys):
            self._scope.free()
        return empty
