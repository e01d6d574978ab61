"""Row list: entries in order of insertion, without an order of expiry (Golab & Özsu 2005, §2.3.2).

Every question about expiry scans all entries, and so does every −1 row. The store of the direct
approach, and the plainest of the three: the others are compared with it.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.kernels.row_list import cancel_rows, find_due, part_due
from penstock.state.arena import Scope

_COUNT = 0  # the register


class RowList:
    """Entries (exp, words) in order of insertion."""

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("exp", 16)
        scope.array("words", (16, width))
        scope.array("regs", 1)

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def __len__(self) -> int:
        return int(self._arr("regs")[_COUNT])

    def add(self, exp: I64, words: I64) -> None:
        """Append entries."""
        count, end = len(self), len(self) + exp.shape[0]
        for name, new in (("exp", exp), ("words", words)):
            self._scope.reserve(name, end)[count:end] = new
        self._arr("regs")[_COUNT] = end

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Append entries with words [lin, row…], the rows column-major."""
        self.add(exp, np.column_stack((lin, rows.T)))

    def due(self, until: int) -> bool:
        """Whether an entry expires by `until`."""
        return bool(find_due(self._arr("exp"), len(self), until))

    def take(self, until: int) -> tuple[I64, I64]:
        """Like `expire`, but returns places in `words`, valid until something is added."""
        exp, count = self._arr("exp"), len(self)
        kept = part_due(exp, self.words, count, until)
        self._arr("regs")[_COUNT] = kept
        places = kept + np.argsort(exp[kept:count], kind="stable")
        return exp[places], places

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until, in order of (exp, insertion)."""
        exp, places = self.take(until)
        return exp, self.words.take(places, axis=0)

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""
        return self._arr("words")

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove one equal entry for each given one; returns 1 where there was one, else 0."""
        found, kept = cancel_rows(self._arr("exp"), self.words, len(self), exp, words)
        self._arr("regs")[_COUNT] = kept
        return found

    def entries(self) -> tuple[I64, I64]:
        """All entries, in order of insertion."""
        count = len(self)
        return self._arr("exp")[:count], self.words[:count]

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions."""
        exp, words = self.entries()
        self.replace(exp[keep], words.take(keep, axis=0))

    def replace(self, exp: I64, words: I64) -> None:
        """Keep these entries instead of all others."""
        self._arr("regs")[_COUNT] = 0
        self.add(exp, words)
