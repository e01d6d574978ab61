"""Calendar store: entries that expire in any order (WK and STR edges, DESIGN §5.3).

The number of partitions and their width (a power of two) are tuned to what is stored (Golab &
Özsu 2005, §5.4.2): wide partitions where entries only expire, so that memory is read in
sequence; fine ones where −1 rows look for their entry, so that little is scanned.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.kernels.calendar import (
    BLOCKS,
    COUNT,
    DAY,
    FREE,
    NO_DAY,
    SHIFT,
    TUNED,
    cancel_calendar,
    list_slots,
    place_entries,
    take_expired,
    write_entries,
    write_rows,
)
from penstock.state.arena import Scope

_LEAST, _MOST = 16, 1 << 20  # partitions
_FINE, _COARSE = (4, 4), (4096, 32)  # entries per partition, slots per block


class Calendar:
    """Entries (exp, words) partitioned by expiry."""

    def __init__(self, scope: Scope, width: int, searched: bool = True) -> None:
        self._scope = scope
        self._per_partition, self._block = _FINE if searched else _COARSE
        scope.array("exp", 4 * self._block)
        scope.array("words", (4 * self._block, width))
        scope.array("next", 4)
        scope.array("free", 4)
        scope.array("heads", _LEAST + 1, fill=-1)
        scope.array("tails", _LEAST + 1)
        if "regs" not in scope:
            scope.array("regs", 6)[DAY] = NO_DAY

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def __len__(self) -> int:
        return int(self._arr("regs")[COUNT])

    def _state(self) -> tuple[int, I64, I64, I64, I64, I64, I64, I64]:
        return (
            self._block, self._arr("exp"), self._arr("words"), self._arr("next"),
            self._arr("free"), self._arr("heads"), self._arr("tails"), self._arr("regs"),
        )  # fmt: skip

    def add(self, exp: I64, words: I64) -> None:
        """Insert entries."""
        if exp.shape[0]:
            self._reserve(exp)
            write_entries(place_entries(exp, *self._state()), words, self._arr("words"))
            self._tune_if_grown()

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Insert entries with words [lin, row…], the rows column-major."""
        if exp.shape[0]:
            self._reserve(exp)
            write_rows(place_entries(exp, *self._state()), lin, rows, self._arr("words"))
            self._tune_if_grown()

    def _reserve(self, exp: I64) -> None:
        """Reserve room for new entries, even if each partition needs a new block."""
        if self._mostly_holes():
            self._tune()
        regs, more = self._arr("regs"), exp.shape[0]
        partitions = 2 + (int(exp.max()) - int(exp.min()) >> int(regs[SHIFT]))
        partitions = min(partitions, more, self._arr("heads").shape[0])
        fresh = more // self._block + partitions + 1 - int(regs[FREE])
        blocks = int(regs[BLOCKS]) + max(0, fresh)
        self._scope.reserve("next", blocks)
        self._scope.reserve("free", blocks)
        self._scope.reserve("exp", blocks * self._block)
        self._scope.reserve("words", blocks * self._block)

    def due(self, until: int) -> bool:
        """Whether there are entries; the partitions do not show which is the first."""
        return len(self) > 0

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until, in order of (exp, insertion)."""
        exp, slots = self.take(until)
        return exp, self._arr("words")[slots]

    def take(self, until: int) -> tuple[I64, I64]:
        """Like `expire`, but returns places in `words`, valid until something is added."""
        return take_expired(until, *self._state())

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""
        return self._arr("words")

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove one equal entry for each given one; returns 1 where there was one, else 0."""
        found = cancel_calendar(exp, words, *self._state())
        if self._mostly_holes():
            self._tune()
        return found

    def _mostly_holes(self) -> bool:
        """Whether entries of later laps, or cancelled ones, keep blocks from being freed."""
        regs = self._arr("regs")
        blocks = int(regs[BLOCKS] - regs[FREE])
        return blocks > 16 + self._arr("heads").shape[0] + 4 * len(self) // self._block

    def entries(self) -> tuple[I64, I64]:
        """All entries, partition by partition."""
        slots = list_slots(
            self._block, self._arr("exp"), self._arr("next"), self._arr("heads"),
            self._arr("tails"), len(self),
        )  # fmt: skip
        return self._arr("exp")[slots], self._arr("words")[slots]

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions of `entries()`."""
        exp, words = self.entries()
        self.replace(exp[keep], words.take(keep, axis=0))

    def replace(self, exp: I64, words: I64) -> None:
        """Keep these entries instead of all others."""
        self._rebuild(exp, words, self._arr("heads").shape[0] - 1)

    def _rebuild(self, exp: I64, words: I64, partitions: int) -> None:
        self._scope["heads"] = np.full(partitions + 1, -1, np.int64)
        self._scope["tails"] = np.zeros(partitions + 1, np.int64)
        regs = self._arr("regs")
        regs[COUNT] = regs[BLOCKS] = regs[FREE] = 0
        regs[TUNED] = exp.shape[0]
        if exp.shape[0]:
            self._reserve(exp)
            write_entries(place_entries(exp, *self._state()), words, self._arr("words"))

    def _tune_if_grown(self) -> None:
        """A lap has room for twice the span it was tuned to, which grows with what is stored.

        Entries of two laps in one partition would keep its blocks from being freed.
        """
        if len(self) > 2 * self._arr("regs")[TUNED] and len(self) > 64:
            self._tune()

    def _tune(self) -> None:
        """Choose partitions for what is stored now, and distribute it anew."""
        exp, words = self.entries()
        partitions = _LEAST
        while partitions < _MOST and partitions * self._per_partition < 4 * exp.shape[0]:
            partitions *= 2
        shift = 0
        finite = exp[exp != NEVER]
        if finite.shape[0]:
            low, high = np.quantile(finite, [0.0, 0.95], method="lower")
            while (int(high) - int(low)) >> shift >= partitions // 2:
                shift += 1
        regs = self._arr("regs")
        if regs[DAY] != NO_DAY:
            regs[DAY] = int(regs[DAY]) << int(regs[SHIFT]) >> shift
        regs[SHIFT] = shift
        self._rebuild(exp, words, partitions)
