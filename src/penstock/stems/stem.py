"""SteMs: shared indexes over the log of a stream, by key or by range (CACQ §2.4, §3.3.1).

A SteM copies no row: it stores positions of the source log. Positions of rows at or before the
watermark never change. A join result is found once, when the last of its rows arrives and probes
the rows before it; the argument `limit` says up to which position, and is the sequence-number rule
of the paper. One SteM serves every reader. Each reader passes the `floor` of its own window, and
rows before the floors of all readers may be purged (§3.3.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.kernels.stem import link_rows, search_runs, walk_chains
from penstock.kernels.stem_runs import drop_entries, merge_entries, sort_entries, take_entries
from penstock.logical.stem_kind import StemKind
from penstock.state.arena import Scope
from penstock.state.source_log import SourceLog

_BUILT, _FIRST, _RUNS = 0, 1, 2
_SMALLEST = 64
_MOST_RUNS = 64  # each run is more than twice as large as the next
_MOST_AT_ONCE = 1 << 16  # most rows sorted at once: they fit in a cache
_NO_NULLS: Bool = np.empty(0, np.bool_)
_NO_KEYS: I64 = np.empty(0, np.int64)


class Stem(ABC):
    """An index of the log rows at positions [first, built) by some columns.

    NULLs are not indexed.
    """

    kind: StemKind

    def __init__(self, scope: Scope, log: SourceLog, columns: tuple[int, ...]) -> None:
        self.scope = scope
        self.log = log
        self.columns = columns
        if "regs" not in scope:
            regs = scope.array("regs", 3)
            regs[_BUILT] = regs[_FIRST] = log.discarded

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    @property
    def built(self) -> int:
        """The end of the indexed positions."""
        return int(self._arr("regs")[_BUILT])

    @property
    def first(self) -> int:
        """The start of the indexed positions."""
        return max(int(self._arr("regs")[_FIRST]), self.log.discarded)

    def build(self, until: int) -> None:
        """Index the rows before `until`; none of them may be later than the watermark."""
        start = max(self.built, self.first)
        if until > start:
            self._arr("regs")[_BUILT] = until
            self._extend(start, until)

    def waiting(self, until: int) -> int:
        """The number of rows before `until` that are not indexed yet."""
        return until - max(self.built, self.first)

    def purge(self, before: int) -> None:
        """Forget the rows before this position."""
        regs = self._arr("regs")
        regs[_FIRST] = max(int(regs[_FIRST]), before)

    def reach(self, start: int) -> None:
        """Index the rows from `start` on, including purged rows that the log still has."""
        start = max(start, self.log.discarded)
        if start >= self.first:
            return
        until, regs = self.built, self._arr("regs")
        regs[_BUILT] = regs[_FIRST] = start
        self._clear()
        self.build(until)

    @abstractmethod
    def _extend(self, start: int, until: int) -> None:
        """Index the rows at [start, until)."""

    @abstractmethod
    def _clear(self) -> None:
        """Forget all rows."""

    @abstractmethod
    def rows(self) -> int:
        """The number of rows that occupy memory."""

    @property
    def nbytes(self) -> int:
        """Bytes of the SteM without the log."""
        return self.scope.nbytes


class HashStem(Stem):
    """Rows by the values of some columns: a chain per key through a ring of positions."""

    kind = StemKind.HASH

    def __init__(self, scope: Scope, log: SourceLog, columns: tuple[int, ...]) -> None:
        super().__init__(scope, log, columns)
        self._columns: I64 = np.array(columns, np.int64)
        if "head" not in scope:
            self._clear()

    @property
    def _head(self) -> I32:
        return cast(I32, self.scope["head"])

    @property
    def _gap(self) -> I32:
        return cast(I32, self.scope["gap"])

    @property
    def _skip(self) -> I32:
        return cast(I32, self.scope["skip"])

    def _clear(self) -> None:
        self._allot(_SMALLEST)

    def _allot(self, capacity: int) -> None:
        """Make empty chains for this many rows; a head before `first` means an empty chain."""
        none = np.array(self.first - 1).astype(np.int32)
        self.scope["head"] = np.full(capacity, none, np.int32)
        self.scope["gap"] = np.zeros(capacity, np.int32)
        self.scope["skip"] = np.zeros(capacity, np.int32)

    def _extend(self, start: int, until: int) -> None:
        first, capacity = self.first, self._gap.shape[0]
        live = until - first
        if live > capacity or capacity > max(_SMALLEST, 8 * live):
            self._allot(max(_SMALLEST, 1 << (live - 1).bit_length()))
            start = first
        rows = self.log.read(first, until)[0]
        chains = (self._columns, self._head, self._gap, self._skip)
        link_rows(rows, first, start, until, first, *chains)

    def probe(self, keys: I64, null: Bool | None, floor: int, limit: I64) -> tuple[I64, I64]:
        """Pairs of a probe and a row with its key at floor ≤ position < limit.

        Pairs are in order of probe, then position. `keys` has a matrix row per column; probes
        marked in `null` find nothing.
        """
        floor, built = max(floor, self.first), self.built
        counts, positions = walk_chains(
            np.ascontiguousarray(keys),
            _NO_NULLS if null is None else null,
            floor,
            np.ascontiguousarray(limit),
            self.log.read(floor, built)[0],
            floor,
            built,
            self._columns,
            self._head,
            self._gap,
            self._skip,
        )
        return np.repeat(np.arange(counts.shape[0]), counts), positions

    def chains(self) -> tuple[int, I32, I32, I32]:
        """The arrays for a kernel that follows chains itself: end, heads, gaps and skips."""
        return self.built, self._head, self._gap, self._skip

    def rows(self) -> int:
        """The number of rows in the ring."""
        return max(0, self.built - self.first)


class RunStem(Stem):
    """Entries of rows in sorted runs, each more than `_RATIO` times as large as the next.

    The last column is the value by which the rows with a key are in order; the others, if any,
    are the key. Rows come in order of position, so runs hold consecutive spans of them, the
    oldest first. After a build, at most a quarter of the entries belong to rows that are gone.
    """

    _RATIO: int
    _NAN: bool
    """Whether rows with a NaN as value have entries."""

    def __init__(self, scope: Scope, log: SourceLog, columns: tuple[int, ...]) -> None:
        super().__init__(scope, log, columns)
        *key, self._value = columns
        self._key: I64 = np.array(key, np.int64)
        self._is_float = log.schema[self._value].type.is_float
        self._names = ("keys", "values", "positions") if key else ("values", "positions")
        for name in self._names:
            scope.array(name, _SMALLEST)
        scope.array("offsets", 1 + _MOST_RUNS)  # the start of each run, and the end of the last
        scope.array("born", 1 + _MOST_RUNS)  # the first position of each, and the end

    @property
    def _runs(self) -> int:
        return int(self._arr("regs")[_RUNS])

    @_runs.setter
    def _runs(self, count: int) -> None:
        self._arr("regs")[_RUNS] = count

    def _clear(self) -> None:
        self._runs = 0

    def build(self, until: int) -> None:
        """Index the rows before `until`; none of them may be later than the watermark."""
        if self._runs and 4 * (self.first - int(self._arr("born")[0])) > self.rows():
            self._drop_gone()
        super().build(until)

    def _extend(self, start: int, until: int) -> None:
        for at in range(start, until, _MOST_AT_ONCE):
            self._append(at, min(at + _MOST_AT_ONCE, until))
        self._shrink()

    def _append(self, start: int, until: int) -> None:
        """Index the rows at [start, until) in a new run, then merge runs."""
        fresh = self._taken(self.log.read(start, until)[0], start)
        sort_entries(*fresh)
        offsets, born, run = self._arr("offsets"), self._arr("born"), self._runs
        used = int(offsets[run])
        end = used + fresh[1].shape[0]
        for name, new in zip(self._names, fresh[-len(self._names) :], strict=True):
            self.scope.reserve(name, end)[used:end] = new
        offsets[run + 1], born[run], born[run + 1] = end, start, until
        self._runs = run + 1
        self._merge()

    def _taken(self, rows: I64, start: int) -> tuple[I64, I64, I64]:
        """Keys, values and positions of the entries of logged rows, in order of position."""
        n = rows.shape[0]
        keys = np.empty(n if self._key.shape[0] else 0, np.int64)
        values, positions = np.empty(n, np.int64), np.empty(n, np.int64)
        what = self._key, self._value, self._is_float, self._NAN
        taken = take_entries(rows, start, *what, keys, values, positions)
        return keys[:taken], values[:taken], positions[:taken]

    def _merge(self) -> None:
        """Merge runs until each is large enough compared with the next."""
        offsets, born = self._ends("offsets").tolist(), self._ends("born").tolist()
        for run in range(self._runs - 2, -1, -1):
            begin, middle, end = offsets[run : run + 3]
            if middle - begin <= self._RATIO * (end - middle):
                merge_entries(*self._all_entries(), begin, middle, end)
                del offsets[run + 1], born[run + 1]
        for name, ends in (("offsets", offsets), ("born", born)):
            self._arr(name)[: len(ends)] = ends
        self._runs = len(offsets) - 1

    def _drop_gone(self) -> None:
        """Drop the entries of purged rows, and runs without other entries."""
        born, first = self._arr("born"), self.first
        drop_entries(*self._all_entries(), self._ends("offsets"), first)
        born[0] = max(int(born[0]), first)
        self._merge()
        self._shrink()

    def _ends(self, name: str) -> I64:
        return self._arr(name)[: self._runs + 1]

    def _shrink(self) -> None:
        room = max(_SMALLEST, 2 * self.rows())
        if 2 * room < self._arr("values").shape[0]:
            for name in self._names:
                self.scope[name] = self.scope[name][:room].copy()

    def _all_entries(self) -> tuple[I64, I64, I64]:
        """Keys (empty without a key), values and positions, run by run."""
        keys = self._arr("keys") if self._key.shape[0] else _NO_KEYS
        return keys, self._arr("values"), self._arr("positions")

    def rows(self) -> int:
        """The number of entries in all runs, including those of purged rows not dropped yet."""
        return int(self._arr("offsets")[self._runs])


class OrderedStem(RunStem):
    """Rows sorted by one column; a NaN is in no range."""

    kind = StemKind.ORDERED
    _RATIO, _NAN = 2, False

    def known(self, rows: I64) -> tuple[I64, I64]:
        """The values of log rows as ordered integers, and the rows that have one."""
        return self._taken(rows, 0)[1:]

    def probe(
        self, low: I64, high: I64, null: Bool | None, floor: int, limit: I64
    ) -> tuple[I64, I64]:
        """Pairs of a probe and a row with a value in [low, high] at floor ≤ position < limit.

        Bounds are ordered integers like the stored values; floats are `ordered` words. A NaN is in
        no range. Pairs are in order of probe, then position.
        """
        counts, positions = search_runs(
            np.ascontiguousarray(low),
            np.ascontiguousarray(high),
            _NO_NULLS if null is None else null,
            max(floor, self.first),
            np.ascontiguousarray(limit),
            *self.runs(),
        )
        return np.repeat(np.arange(counts.shape[0]), counts), positions

    def runs(self) -> tuple[I64, I64, I64, I64]:
        """The arrays for a kernel that searches runs itself: entries, starts, first positions."""
        return *self._all_entries()[1:], self._ends("offsets"), self._ends("born")
