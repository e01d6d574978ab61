"""FIFO store: entries that expire in the order they were added (WKS edges, DESIGN §5.3).

Entries lie in order of expiry between two marks of a flat array; adding appends, expiring
moves the head. Rows of a query added with history may be older than what is there: then, and
only then, the entries are merged by expiry.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.delta import I64
from penstock.state.arena import Scope

_HEAD, _TAIL = 0, 1


class Fifo:
    """Entries (exp, words) in order of expiry."""

    structure = "FIFO"

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("exp", 16)
        scope.array("words", (16, width))
        scope.array("regs", 2)

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def __len__(self) -> int:
        regs = self._arr("regs")
        return int(regs[_TAIL] - regs[_HEAD])

    def add(self, exp: I64, words: I64) -> None:
        """Append entries, merging by expiry when they are not all later than the last one."""
        n = exp.shape[0]
        if n == 0:
            return
        last = self._last_exp()
        if exp[0] < last or (n > 1 and bool(np.any(exp[1:] < exp[:-1]))):
            old_exp, old_words = self.entries()
            exp = np.concatenate([old_exp, exp])
            words = np.concatenate([old_words, words])
            order = np.argsort(exp, kind="stable")
            self._arr("regs")[:] = 0
            self._append(exp[order], words[order])
        else:
            self._append(exp, words)

    def _last_exp(self) -> int:
        regs = self._arr("regs")
        empty = regs[_HEAD] == regs[_TAIL]
        return int(np.iinfo(np.int64).min if empty else self._arr("exp")[regs[_TAIL] - 1])

    def _append(self, exp: I64, words: I64) -> None:
        regs = self._arr("regs")
        n, head, tail = exp.shape[0], int(regs[_HEAD]), int(regs[_TAIL])
        need = tail + n
        if need > self._arr("exp").shape[0] and head:
            live = tail - head
            need = 2 * (live + n)  # moving down pays for as many again
            for name in ("exp", "words"):
                array = self._arr(name)
                array[:live] = array[head:tail].copy() if live > head else array[head:tail]
            regs[_HEAD], regs[_TAIL] = 0, live
            tail = live
        self._scope.reserve("exp", need)
        self._scope.reserve("words", need)
        self._arr("exp")[tail : tail + n] = exp
        self._arr("words")[tail : tail + n] = words
        regs[_TAIL] = tail + n

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Append entries whose words are [lin, row…], the rows column-major."""
        words = np.empty((exp.shape[0], 1 + rows.shape[0]), np.int64)
        words[:, 0] = lin
        words[:, 1:] = rows.T
        self.add(exp, words)

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until, oldest first."""
        exp, places = self.take(until)
        return exp, self._arr("words")[places]

    def take(self, until: int) -> tuple[I64, I64]:
        """As expire, giving places in `words` that stay readable until something is added."""
        regs = self._arr("regs")
        head, tail = int(regs[_HEAD]), int(regs[_TAIL])
        exp = self._arr("exp")
        end = head + int(np.searchsorted(exp[head:tail], until, side="right"))
        regs[_HEAD] = end
        return exp[head:end].copy(), np.arange(head, end)

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""
        return self._arr("words")

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove one equal entry for each given one; 1 where there was one."""
        found = np.zeros(exp.shape[0], np.int64)
        for i in range(exp.shape[0]):
            mine, all_words = self.entries()
            hit = np.flatnonzero((mine == exp[i]) & (all_words == words[i]).all(axis=1))
            if hit.shape[0]:
                found[i] = 1
                self.filter(np.delete(np.arange(mine.shape[0]), hit[0]))
        return found

    def entries(self) -> tuple[I64, I64]:
        """All entries, oldest first."""
        regs = self._arr("regs")
        part = slice(int(regs[_HEAD]), int(regs[_TAIL]))
        return self._arr("exp")[part], self._arr("words")[part]

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions."""
        exp, words = self.entries()
        exp, words = exp[keep], words[keep]
        self._arr("regs")[:] = 0
        self._append(exp, words)
