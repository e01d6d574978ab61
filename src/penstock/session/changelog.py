"""The changelog of one template's queries: Arrow batches; each query has its own read position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa

from penstock.arrays import BEGINNING, I64
from penstock.changes import Changes
from penstock.delta import PrefixSets, QuerySets, Sets, concat_sets, start_offsets
from penstock.schema import Schema
from penstock.shards.changes import CHANGE_TYPES, META, NUMBERED_NAMES, numbered_lists
from penstock.state.convert import to_arrow
from penstock.state.strings import StringTable

if TYPE_CHECKING:
    from penstock.session.readers import Readers

_SCANNED = 512  # smaller batches are scanned, larger ones sorted
_LARGEST = 1 << 30  # most bytes of a batch that is sorted
_FEW_READERS = 64  # with more readers, batches are dropped by the row limit only
DEFAULT_KEPT_ROWS = 2_000_000
Callback = Callable[[pa.Table], None]


@dataclass(slots=True)
class ChangeBatch:
    """The changes of one step as an Arrow table, and the query of each row.

    With `sets` (EMIT … PER ROW), each row has the index of its set of queries instead. After
    repeated reads the rows are also kept sorted by query.
    """

    number: int
    who: I64
    table: pa.Table
    sets: QuerySets | None = None
    _sorted: tuple[I64, pa.RecordBatch] | None = None
    _ends: tuple[int, int] | None = None

    def may_hold(self, one: int) -> bool:
        """Whether a query may have rows here; a cheap test that rejects most batches."""
        if self._ends is None:
            all_ = self.owners
            self._ends = (int(all_.min()), int(all_.max())) if all_.shape[0] else (0, -1)
        return self._ends[0] <= one <= self._ends[1]

    def of(self, one: int) -> pa.Table:
        """The rows of one query, in order."""
        if self.sets is not None:
            return self.table.filter(pa.array(self.sets.holding(one)[self.who]))
        if self._sorted is None:
            mask = self.who == one
            if mask.all():
                return self.table
            if not mask.any():
                return self.table.slice(0, 0)
            if self.who.shape[0] <= _SCANNED or self.table.nbytes > _LARGEST:
                return self.table.filter(pa.array(mask))
            order = np.argsort(self.who, kind="stable")
            (rows,) = self._take(order).combine_chunks().to_batches()
            self._sorted = self.who[order], rows
        who, rows = self._sorted
        low, high = who.searchsorted([one, one + 1]).tolist()
        # a copy, so that these rows do not keep the whole batch in memory
        return pa.Table.from_batches([pa.concat_batches([rows.slice(low, high - low)])])

    def of_all(self, owners: Sets) -> ChangeBatch:
        """The rows that have owners, once for each owner, tagged with that owner.

        `owners` are listed by query; the last set applies to all queries beyond the list. In a
        batch with sets, a row stays one row, tagged with the set of its owners.
        """
        if self.sets is None:
            found = _owned(self.who, owners)
            rows = None if found.sizes is None else np.repeat(np.arange(len(self.who)), found.sizes)
            return ChangeBatch(self.number, found.items, self._take(rows))
        own = _owned_sets(self.sets, owners)
        sizes = own.sizes[self.who]
        if sizes.all():
            return ChangeBatch(self.number, self.who, self.table, own)
        rows = np.flatnonzero(sizes)
        return ChangeBatch(self.number, self.who[rows], self._take(rows), own)

    def _take(self, rows: I64 | None) -> pa.Table:
        return self.table if rows is None else self.table.take(pa.array(rows))

    @property
    def owners(self) -> I64:
        """The queries that have rows, possibly with repetitions; with sets, perhaps some more."""
        return self.who if self.sets is None else self.sets.items


@dataclass(frozen=True, slots=True)
class _Owned:
    """The owners of some queries, concatenated; `sizes` is None if each query has exactly one."""

    items: I64
    sizes: I64 | None


def _owned(queries: I64, owners: Sets) -> _Owned:
    known = np.minimum(queries, len(owners) - 1)
    if bool((owners.sizes > 1).any()):
        found = owners.take(known)
        return _Owned(found.items, found.sizes)
    only = np.full(len(owners), -1)
    only[owners.sizes == 1] = owners.items
    items = only[known]
    has = items >= 0
    return _Owned(items, None) if has.all() else _Owned(items[has], has.astype(np.int64))


def _owned_sets(sets: QuerySets, owners: Sets) -> QuerySets:
    """The sets with owners, ascending, in place of queries."""
    found = _owned(sets.items, owners)
    if isinstance(sets, PrefixSets):
        return sets.spread(found.items, found.sizes)
    if found.sizes is None:
        return Sets(sets.offsets, found.items).ascending()
    sizes = np.bincount(np.repeat(sets.owners, found.sizes), minlength=len(sets))
    return Sets(start_offsets(sizes), found.items).ascending()


def concat_batches(parts: list[ChangeBatch]) -> ChangeBatch:
    """Concatenate batches into one."""
    sets = [p.sets for p in parts if p.sets is not None]
    before = np.cumsum([0, *map(len, sets)])
    who = [p.who + before[i] if sets else p.who for i, p in enumerate(parts)]
    table = pa.concat_tables([p.table for p in parts])
    both = concat_sets(sets) if sets else None
    return ChangeBatch(parts[-1].number, np.concatenate(who), table, both)


@dataclass(slots=True)
class Changelog:
    """Batches of changes from the slowest reader's position on, up to a limit of rows."""

    schema: Schema
    unit_time: bool
    limit: int = DEFAULT_KEPT_ROWS
    per_row: bool = False  # one row per result row, with the set of its queries
    batches: list[ChangeBatch] = field(default_factory=list)
    first: int = 0  # absolute index of batches[0]
    rows: int = 0
    readers: dict[Readers, None] = field(default_factory=dict)
    left: WeakSet[Readers] = field(default_factory=WeakSet)  # with unread rows of gone queries

    def __getstate__(self) -> dict[str, Any]:
        """The state to save.

        Readers without running queries are left out: no handle can reach them.
        """
        left = [readers for readers in self.left if readers in self.readers]
        return {name: getattr(self, name) for name in self.__slots__} | {"left": left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, WeakSet(value) if name == "left" else value)

    def add(self, number: int, changes: Changes, strings: StringTable) -> ChangeBatch:
        """Convert the changes of a step and append them."""
        return self.keep(self.batch(number, changes, strings))

    def batch(
        self, number: int, changes: Changes, strings: StringTable, first: int = 0
    ) -> ChangeBatch:
        """Convert changes to a batch; rows are numbered from `first` on."""
        table = self._arrow(number, changes, strings, first)
        return ChangeBatch(number, changes.qid, table, changes.sets)

    def keep(self, batch: ChangeBatch) -> ChangeBatch:
        """Append a batch; drop the oldest batches while the row limit is exceeded."""
        self.batches.append(batch)
        self.rows += batch.table.num_rows
        while self.rows > self.limit and len(self.batches) > 1:
            self._drop(1)
        return batch

    def _arrow(self, number: int, changes: Changes, strings: StringTable, first: int) -> pa.Table:
        """Changes as an Arrow table, without the column of query names."""
        n = len(changes)
        time: pa.Array = pa.array(changes.time)
        if n and changes.time[0] == BEGINNING:
            time = pa.array(changes.time, mask=changes.time == BEGINNING)
        if not self.unit_time:
            time = time.cast(pa.timestamp("us"))
        kind = pa.DictionaryArray.from_arrays(pa.array(changes.kind), CHANGE_TYPES)
        seq = pa.array(np.arange(first, first + n)) if first else _counted(n)
        meta = [kind, time, pa.array(np.full(n, number)), seq]
        columns = to_arrow(changes.rows, self.schema, strings)
        names = [*META, *self.schema.names]
        return pa.Table.from_arrays([*meta, *columns], names=names)

    def columns(self, many: bool) -> pa.Schema:
        """The schema of a changelog of one query, or of many."""
        time = pa.int64() if self.unit_time else pa.timestamp("us")
        meta = [
            pa.field("_query", self.query_type(many)),
            pa.field("_change_type", pa.dictionary(pa.int8(), pa.string())),
            pa.field("_time", time),
            pa.field("_batch", pa.int64()),
            pa.field("_seq", pa.int64()),
        ]
        return pa.schema([*meta, *self.schema.arrow()])

    def query_type(self, many: bool) -> pa.DataType:
        """The type of the names of queries."""
        return (
            NUMBERED_NAMES
            if self.per_row
            else pa.dictionary(pa.int32() if many else pa.int8(), pa.string())
        )

    @property
    def end(self) -> int:
        """Absolute index after the last batch."""
        return self.first + len(self.batches)

    def since(self, start: int) -> list[ChangeBatch]:
        """The batches from `start` on, as far as they are kept."""
        return self.batches[max(0, start - self.first) :]

    def holding(self, qid: int, start: int, end: int) -> list[ChangeBatch]:
        """The batches from `start` to `end` in which a query may have rows."""
        start, end = max(0, start - self.first), max(0, end - self.first)
        return [batch for batch in self.batches[start:end] if batch.may_hold(qid)]

    def of_number(self, number: int) -> list[ChangeBatch]:
        """The last batches, which have this number."""
        start = self.end
        while start > self.first and self.batches[start - 1 - self.first].number == number:
            start -= 1
        return self.since(start)

    def forget(self) -> None:
        """Drop batches that every reader has seen."""
        if len(self.readers) + len(self.left) <= _FEW_READERS:
            slowest = min((r.slowest for r in (*self.readers, *self.left)), default=self.end)
            self._drop(min(max(0, slowest - self.first), len(self.batches)))

    def _drop(self, count: int) -> None:
        for readers in list(self.left) if count else ():
            readers.save(self.first + count)
        self.rows -= sum(b.table.num_rows for b in self.batches[:count])
        del self.batches[:count]
        self.first += count


@lru_cache(maxsize=32)
def _numbers(bits: int) -> pa.Array:
    return pa.array(np.arange(1 << bits))


def _counted(n: int) -> pa.Array:
    """The numbers below n; batches of about one size share them."""
    return _numbers(n.bit_length()).slice(0, n)


def label(parts: list[pa.Table], name: str, schema: pa.Schema) -> pa.Table:
    """Changes with the query's name in front."""
    parts = [p for p in parts if p.num_rows]
    if not parts:
        return schema.empty_table()
    table = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    whole = ChangeBatch(0, np.zeros(len(table), np.int8), table)
    if schema.field("_query").type == NUMBERED_NAMES:
        whole.sets = Sets(np.array([0, 1]), np.array([0]))
    return label_all([whole], pa.array([name]), schema)


def label_all(parts: list[ChangeBatch], names: pa.Array, schema: pa.Schema) -> pa.Table:
    """Changes of many queries with the query's name, or all names, in front."""
    parts = [p for p in parts if p.table.num_rows]
    if not parts:
        return schema.empty_table()
    whole = parts[0] if len(parts) == 1 else concat_batches(parts)
    if whole.sets is not None:
        queries = numbered_lists(whole.who.astype(np.int64), whole.sets, names)
    else:
        kind = schema.field("_query").type.index_type
        queries = pa.DictionaryArray.from_arrays(pa.array(whole.who).cast(kind), names)
    return pa.Table.from_arrays([queries, *whole.table.columns], schema=schema)
