"""Calendar store: entries that expire in any order (WK and STR edges, DESIGN §5.3).

The number of partitions and their width are tuned to what is stored (Golab & Özsu 2005,
§5.4.2): a few entries per partition, so that adding is O(1) and expiring sorts short chains.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.delta import I64, NEVER
from penstock.kernels.calendar import (
    COUNT,
    DAY,
    FREED,
    TUNED,
    USED,
    WIDTH,
    cancel_calendar,
    insert_calendar,
    insert_calendar_rows,
    rank_chains,
    take_expired,
)
from penstock.state.arena import Scope

_PER_PARTITION = 4
_LEAST = 64
_ENTRY = ("exp", "words", "next", "free")


class Calendar:
    """Entries (exp, words) partitioned by expiry."""

    structure = "calendar"

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("exp", 16, fill=FREED)
        scope.array("words", (16, width))
        scope.array("next", 16)
        scope.array("free", 16)
        scope.array("heads", _LEAST + 1, fill=-1)
        scope.array("tails", _LEAST + 1, fill=-1)
        if "regs" not in scope:
            regs = scope.array("regs", 6)
            regs[WIDTH], regs[DAY] = 1, FREED

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def __len__(self) -> int:
        return int(self._arr("regs")[COUNT])

    def _state(self) -> tuple[I64, ...]:
        return tuple(self._arr(n) for n in (*_ENTRY, "heads", "tails", "regs"))

    def add(self, exp: I64, words: I64) -> None:
        """Insert entries."""
        if exp.shape[0]:
            self._reserve(exp.shape[0])
            insert_calendar(exp, words, *self._state())
            self._tune_if_grown()

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Insert entries whose words are [lin, row…], the rows column-major."""
        if exp.shape[0]:
            self._reserve(exp.shape[0])
            insert_calendar_rows(exp, lin, rows, *self._state())
            self._tune_if_grown()

    def _reserve(self, more: int) -> None:
        need = int(self._arr("regs")[USED]) + more
        self._scope.reserve("exp", need, fill=FREED)
        for name in _ENTRY[1:]:
            self._scope.reserve(name, need)

    def _tune_if_grown(self) -> None:
        if len(self) > 2 * self._arr("regs")[TUNED] and len(self) > _LEAST:
            self._tune()

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until, in order of (exp, insertion)."""
        exp, slots = self.take(until)
        return exp, self._arr("words")[slots]

    def take(self, until: int) -> tuple[I64, I64]:
        """As expire, giving places in `words` that stay readable until something is added."""
        return take_expired(until, *self._state())

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""
        return self._arr("words")

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove one equal entry for each given one; 1 where there was one."""
        return cancel_calendar(exp, words, *self._state())

    def entries(self) -> tuple[I64, I64]:
        """All entries, in slot order."""
        used = int(self._arr("regs")[USED])
        slots = np.flatnonzero(self._arr("exp")[:used] != FREED)
        return self._arr("exp")[slots], self._arr("words")[slots]

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions of `entries()`."""
        exp, words = self.entries()
        self._rebuild(exp[keep], words[keep])

    def _rebuild(self, exp: I64, words: I64) -> None:
        day, width = (int(self._arr("regs")[r]) for r in (DAY, WIDTH))
        self._arr("exp")[:] = FREED
        self._arr("heads")[:] = -1
        self._arr("tails")[:] = -1
        regs = self._arr("regs")
        regs[:] = 0
        regs[DAY], regs[WIDTH], regs[TUNED] = day, width, exp.shape[0]
        insert_calendar(exp, words, *self._state())

    def _tune(self) -> None:
        """Choose partitions for what is stored now and redistribute, in insertion order."""
        order = self._insertion_order()
        exp, words = self._arr("exp")[order], self._arr("words")[order]
        finite = exp[exp != NEVER]
        partitions = _LEAST
        while partitions * _PER_PARTITION < 2 * exp.shape[0]:
            partitions *= 2
        width = 1
        if finite.shape[0]:
            low, high = np.quantile(finite, [0.0, 0.95], method="lower")
            width = max(1, -(-(int(high) - int(low)) // (partitions // 2)))
        regs = self._arr("regs")
        now = int(regs[DAY]) * int(regs[WIDTH]) if regs[DAY] != FREED else None
        self._scope["heads"] = np.full(partitions + 1, -1, np.int64)
        self._scope["tails"] = np.full(partitions + 1, -1, np.int64)
        regs[WIDTH] = width
        regs[DAY] = FREED if now is None else now // width
        self._rebuild(exp, words)

    def _insertion_order(self) -> I64:
        """Slots in an order that keeps entries of equal expiry in insertion order."""
        used = int(self._arr("regs")[USED])
        slots = np.flatnonzero(self._arr("exp")[:used] != FREED)
        rank = rank_chains(self._arr("heads"), self._arr("next"), used)
        return slots[np.argsort(rank[slots], kind="stable")]
