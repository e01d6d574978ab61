"""FIFO store: entries that expire in the order they were added (WKS edges, DESIGN §5.3).

Entries are in a ring in order of expiry: adding writes after the last one, expiring moves the head,
and nothing else moves until the ring is full. Rows of a query added with history may expire before
existing entries; only then are the entries merged by expiry.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.state.arena import Scope

_HEAD, _COUNT = 0, 1  # registers: place of the oldest entry, number of entries
Parts = tuple[slice, slice]


class Fifo:
    """Entries (exp, words) in order of expiry."""

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("exp", 16)
        scope.array("words", (16, width))
        scope.array("regs", 2)

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def __len__(self) -> int:
        return int(self._arr("regs")[_COUNT])

    # ---- the ring ------------------------------------------------------------------------
    def _parts(self, start: int, stop: int) -> Parts:
        """Places of the start-th to the stop-th oldest: up to the end of the ring, and the rest."""
        capacity = self._arr("exp").shape[0]
        first = (int(self._arr("regs")[_HEAD]) + start) % capacity
        end = first + stop - start
        return slice(first, min(end, capacity)), slice(0, max(0, end - capacity))

    def _read(self, name: str, parts: Parts) -> I64:
        """The words at these places; a view if they are one piece."""
        before, after = (self._arr(name)[part] for part in parts)
        return np.concatenate([before, after]) if after.shape[0] else before

    def _append(self, exp: I64, words: I64) -> None:
        count, n = len(self), exp.shape[0]
        self._make_room(count + n)
        before, after = self._parts(count, count + n)
        cut = n - after.stop
        for name, new in (("exp", exp), ("words", words)):
            array = self._arr(name)
            array[before], array[after] = new[:cut], new[cut:]
        self._arr("regs")[_COUNT] = count + n

    def _make_room(self, need: int) -> None:
        """Grow the ring (at least twofold); what lay at its beginning moves behind its old end."""
        old = self._arr("exp").shape[0]
        if need > old:
            _, after = self._parts(0, len(self))
            for name in ("exp", "words"):
                array = self._scope.reserve(name, need)
                array[old : old + after.stop] = array[after]

    def _pop(self, until: int) -> Parts:
        """Remove all entries with exp ≤ until; their places."""
        exp, regs = self._arr("exp"), self._arr("regs")
        before, after = self._parts(0, len(self))
        n = int(np.searchsorted(exp[before], until, side="right"))
        if n == before.stop - before.start:
            n += int(np.searchsorted(exp[after], until, side="right"))
        gone = self._parts(0, n)
        regs[_HEAD] = (regs[_HEAD] + n) % exp.shape[0]
        regs[_COUNT] -= n
        return gone

    # ---- adding and expiring ---------------------------------------------------------------
    def add(self, exp: I64, words: I64) -> None:
        """Append entries, merging by expiry when they are not all later than the last one."""
        n = exp.shape[0]
        if n == 0:
            return
        if exp[0] < self._last_exp() or (n > 1 and bool(np.any(exp[1:] < exp[:-1]))):
            old_exp, old_words = self.entries()
            exp = np.concatenate([old_exp, exp])
            words = np.concatenate([old_words, words])
            order = np.argsort(exp, kind="stable")
            self.replace(exp[order], words[order])
        else:
            self._append(exp, words)

    def _last_exp(self) -> int:
        n = len(self)
        if n == 0:
            return int(np.iinfo(np.int64).min)
        last, _ = self._parts(n - 1, n)
        return int(self._arr("exp")[last.start])

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Append entries with words [lin, row…], the rows column-major."""
        words = np.empty((exp.shape[0], 1 + rows.shape[0]), np.int64)
        words[:, 0] = lin
        words[:, 1:] = rows.T
        self.add(exp, words)

    def due(self, until: int) -> bool:
        """Whether the oldest entry expires by `until`."""
        regs = self._arr("regs")
        return bool(regs[_COUNT]) and bool(self._arr("exp")[regs[_HEAD]] <= until)

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until, oldest first."""
        gone = self._pop(until)
        return self._read("exp", gone).copy(), self._read("words", gone).copy()

    def take(self, until: int) -> tuple[I64, I64]:
        """Like `expire`, but returns places in `words`, valid until something is added."""
        gone = self._pop(until)
        places = np.concatenate([np.arange(part.start, part.stop) for part in gone])
        return self._read("exp", gone).copy(), places

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""
        return self._arr("words")

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove one equal entry for each given one; returns 1 where there was one, else 0."""
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
        everything = self._parts(0, len(self))
        return self._read("exp", everything), self._read("words", everything)

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions."""
        exp, words = self.entries()
        self.replace(exp[keep], words.take(keep, axis=0))

    def replace(self, exp: I64, words: I64) -> None:
        """Keep these entries, oldest first, instead of all others."""
        self._arr("regs")[:] = 0
        self._append(exp, words)
