"""Changelog of one template's queries: Arrow batches, read by each query from its own place."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from penstock.delta import BEGINNING, I64
from penstock.errors import DataError
from penstock.physical.view import Changes
from penstock.schema import Schema
from penstock.shards.changes import CHANGE_TYPES, META
from penstock.state.convert import to_arrow
from penstock.state.strings import StringTable

_SCANNED = 512  # rows of a batch that are scanned rather than sorted
DEFAULT_KEPT_ROWS = 2_000_000


@dataclass(slots=True)
class Batch:
    """Changes of one step as Arrow, with the qid of each row; sorted by qid when it pays."""

    number: int
    qid: I64
    table: pa.Table
    _order: I64 | None = None
    _sorted: I64 | None = None

    def of(self, qid: int) -> pa.Table:
        """The rows of one query, in order."""
        if self._order is None or self._sorted is None:
            mask = self.qid == qid
            if mask.all():
                return self.table
            if self.qid.shape[0] <= _SCANNED:
                return self.table.filter(pa.array(mask))
            self._order = np.argsort(self.qid, kind="stable")
            self._sorted = self.qid[self._order]
        low, high = np.searchsorted(self._sorted, [qid, qid + 1])
        return self.table.take(pa.array(self._order[low:high]))


def change_schema(schema: Schema, unit_time: bool) -> pa.Schema:
    """The columns of a changelog."""
    time = pa.int64() if unit_time else pa.timestamp("us")
    meta = [
        pa.field("_query", pa.dictionary(pa.int8(), pa.string())),
        pa.field("_change_type", pa.dictionary(pa.int8(), pa.string())),
        pa.field("_time", time),
        pa.field("_batch", pa.int64()),
        pa.field("_seq", pa.int64()),
    ]
    return pa.schema([*meta, *schema.arrow()])


@dataclass(slots=True)
class Changelog:
    """Batches of changes since the slowest reader, up to a limit of rows."""

    schema: Schema
    unit_time: bool
    limit: int = DEFAULT_KEPT_ROWS
    batches: list[Batch] = field(default_factory=list)
    first: int = 0  # absolute index of batches[0]
    rows: int = 0

    def add(self, number: int, changes: Changes, strings: StringTable) -> Batch:
        """Convert and keep the changes of a step."""
        return self.keep(Batch(number, changes.qid, self.arrow(number, changes, strings)))

    def keep(self, batch: Batch) -> Batch:
        """Keep a batch, and let the oldest go when there are too many rows."""
        self.batches.append(batch)
        self.rows += batch.table.num_rows
        while self.rows > self.limit and len(self.batches) > 1:
            self.rows -= self.batches.pop(0).table.num_rows
            self.first += 1
        return batch

    def arrow(self, number: int, changes: Changes, strings: StringTable) -> pa.Table:
        """Changes as an Arrow table, without the query's name."""
        n = len(changes)
        time: pa.Array = pa.array(changes.time)
        if n and changes.time[0] == BEGINNING:
            time = pa.array(changes.time, mask=changes.time == BEGINNING)
        if not self.unit_time:
            time = time.cast(pa.timestamp("us"))
        kind = pa.DictionaryArray.from_arrays(pa.array(changes.kind), CHANGE_TYPES)
        meta = [kind, time, pa.array(np.full(n, number)), _counted(n)]
        columns = to_arrow(changes.rows, self.schema, strings)
        names = [*META, *self.schema.names]
        return pa.Table.from_arrays([*meta, *columns], names=names)

    @property
    def end(self) -> int:
        """Absolute index after the last batch."""
        return self.first + len(self.batches)

    def read(self, qid: int, name: str, start: int) -> pa.Table:
        """Changes of one query from batch `start` on."""
        if start < self.first:
            raise DataError(
                f"changes of {name} were dropped: more than {self.limit:,} rows were waiting",
                code="PS-DATA-004",
                remedy="call changes() more often, subscribe(), or raise keep_changes in connect()",
            )
        parts = [b.of(qid) for b in self.batches[start - self.first :]]
        return label(parts, name, change_schema(self.schema, self.unit_time))

    def forget(self, before: int) -> None:
        """Drop batches that every reader has seen."""
        gone = min(max(0, before - self.first), len(self.batches))
        self.rows -= sum(b.table.num_rows for b in self.batches[:gone])
        del self.batches[:gone]
        self.first += gone


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
    table = pa.concat_tables(parts)
    place = pa.array(np.zeros(len(table), np.int8))
    names = pa.DictionaryArray.from_arrays(place, pa.array([name]))
    return pa.Table.from_arrays([names, *table.columns], schema=schema)
