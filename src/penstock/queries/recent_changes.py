"""Which rows of Q the last changes have touched, so that an index need not look at all of them.

It is no part of the state: where it knows too little, an index compares all rows.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from penstock.arrays import I64

_MOST = 1 << 16
"""So many rows are remembered; to look for more changes costs about as much as a look at all."""


class RecentChanges:
    """Rows by the number of the change that touched them; changes are counted without a gap."""

    def __init__(self) -> None:
        self._changes: deque[tuple[int, I64]] = deque()
        self._rows = 0

    def note(self, version: int, rows: I64) -> None:
        """Remember a change."""
        self._changes.append((version, rows))
        self._rows += rows.shape[0]
        while self._rows > _MOST or len(self._changes) > _MOST:
            self._rows -= self._changes.popleft()[1].shape[0]

    def since(self, version: int) -> I64 | None:
        """The rows touched after a version, ascending; None if some are not known any more."""
        if not self._changes or self._changes[0][0] > version + 1:
            return None
        return np.unique(np.concatenate([rows for at, rows in self._changes if at > version]))
