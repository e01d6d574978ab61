"""Blocks on the wire: encodes the words of one engine as Arrow, and decodes Arrow into words.

Only one engine can read its words, because a string is a code of its own table. So the session
encodes the blocks that its engine has taken, and a shard decodes the blocks for its engine. A
block without such words is its own encoding. Encoded blocks are pickled together, as an entry
of the log or a message (`wire.dumps`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.delta import Delta
from penstock.dispatch import case, classes, complete
from penstock.engine import blocks as b
from penstock.frozen import record
from penstock.schema import Schema
from penstock.shards import wire
from penstock.state.convert import fill_column, to_arrow, to_rows
from penstock.state.strings import StringTable

Arrow = bytes | Sequence[pa.RecordBatch]
"""Rows of a stream with their times (`wire.stream_batch`); unpacked, they may be in parts."""
Params = I64 | bytes
"""Parameter rows: a few without strings as words, which all engines share; others as Arrow."""
_FEW = 1 << 10


@record
class Parcel:
    """Rows between the levels as Arrow; values shared by all rows are stored once."""

    data: bytes
    exp: int | None
    sign: int | None
    lin: int | None


Encoded = (
    b.Rows[Arrow] | b.Heartbeat | b.TableChange[bytes] | b.Configure | b.AddStream | b.SetRetain
    | b.AddTable | b.AddUdf | b.AddTemplate | b.AddQueries[Params] | b.DropQueries
    | b.Received[Parcel] | b.Drop | b.Read
)  # fmt: skip
"""The blocks that enter a shard: level 1 takes all but `Received`, level 2 all but `Rows`."""


class _Declared(Protocol):
    @property
    def schema(self) -> Schema:
        """The columns."""


@dataclass(frozen=True, slots=True)
class Codes:
    """The meaning of an engine's words: its strings, and the schemas of named relations."""

    strings: StringTable
    streams: Mapping[str, _Declared]
    tables: Mapping[str, _Declared]
    templates: Mapping[int, b.AddTemplate]

    def received(self, template: int, channel: int) -> Schema:
        """The columns of the rows on a channel."""
        return dict(self.templates[template].received)[channel].schema


ENCODE: dict[type, Callable[[Any, Codes], Any]] = {}
DECODE: dict[type, Callable[[Any, Codes], Any]] = {}


@overload
def encode(block: b.Received[Delta], codes: Codes) -> b.Received[Parcel]: ...
@overload
def encode(block: b.Block, codes: Codes) -> Encoded: ...
def encode(block: b.Block, codes: Codes) -> Encoded:
    """Encode a block so that any engine can decode it."""
    made: Encoded = ENCODE[type(block)](block, codes)
    return made


@overload
def decode(block: b.Rows[Arrow], codes: Codes) -> b.Rows[b.Timed]: ...
@overload
def decode(block: b.TableChange[bytes], codes: Codes) -> b.TableChange[I64]: ...
@overload
def decode(block: b.AddQueries[Params], codes: Codes) -> b.AddQueries[I64]: ...
@overload
def decode(block: b.Received[Parcel], codes: Codes) -> b.Received[Delta]: ...
@overload
def decode(block: Encoded, codes: Codes) -> b.Block: ...
def decode(block: Encoded, codes: Codes) -> b.Block:
    """Decode a block into the words of the engine that `codes` describes."""
    made: b.Block = DECODE[type(block)](block, codes)
    return made


@case(ENCODE, b.Heartbeat, b.Configure, b.AddStream, b.SetRetain, b.AddTable, b.AddUdf)
@case(ENCODE, b.AddTemplate, b.DropQueries, b.Drop)
@case(DECODE, b.Heartbeat, b.Configure, b.AddStream, b.SetRetain, b.AddTable, b.AddUdf)
@case(DECODE, b.AddTemplate, b.DropQueries, b.Drop)
def _same(block: Any, codes: Codes) -> Any:
    return block


# ---- rows of streams -----------------------------------------------------------------
@case(ENCODE, b.Rows)
def _encode_rows(block: b.Rows[b.Timed], codes: Codes) -> b.Rows[Arrow]:
    batch = _batch(block.rows.words, codes.streams[block.stream].schema, codes.strings)
    data = wire.stream_batch(batch, block.rows.ts, None)
    return b.Rows(block.stream, data, block.watermark, block.epoch)


@case(DECODE, b.Rows)
def _decode_rows(block: b.Rows[Arrow], codes: Codes) -> b.Rows[b.Timed]:
    """Decode rows; columns that were not shipped are 0 and never read."""
    schema, batches = codes.streams[block.stream].schema, unpacked(block.rows)
    count = sum(batch.num_rows for batch in batches)
    words, ts = np.zeros((1 + len(schema), count), np.int64), np.empty(count, np.int64)
    end = 0
    for batch in batches:
        start, end = end, end + batch.num_rows
        _fill(batch, schema, codes.strings, words[:, start:end])
        ts[start:end] = batch.column(wire.TIME).to_numpy()
    return b.Rows(block.stream, b.Timed(words, ts), block.watermark, block.epoch)


def unpacked(rows: Arrow) -> Sequence[pa.RecordBatch]:
    """Encoded rows of a stream, in parts."""
    return [wire.unpack_batch(rows)] if isinstance(rows, bytes) else rows


def _fill(batch: pa.RecordBatch, schema: Schema, strings: StringTable, words: I64) -> None:
    for j, column in enumerate(schema):
        at = batch.schema.get_field_index(column.name)
        if at < 0:
            continue
        null = fill_column(batch.column(at), column.type, strings, words[1 + j])
        if null is not None:
            words[0] |= null.astype(np.int64) << j


def _batch(words: I64, schema: Schema, strings: StringTable) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(to_arrow(words, schema, strings), schema=schema.arrow())


# ---- tables --------------------------------------------------------------------------
@case(ENCODE, b.TableChange)
def _encode_table_change(block: b.TableChange[I64], codes: Codes) -> b.TableChange[bytes]:
    batch = _batch(block.insert, codes.tables[block.table].schema, codes.strings)
    return b.TableChange(block.table, block.remove, wire.pack_batch(batch))


@case(DECODE, b.TableChange)
def _decode_table_change(block: b.TableChange[bytes], codes: Codes) -> b.TableChange[I64]:
    batch = wire.unpack_batch(block.insert)
    words = to_rows(batch, codes.tables[block.table].schema, codes.strings)
    return b.TableChange(block.table, block.remove, words)


# ---- queries -------------------------------------------------------------------------
@case(ENCODE, b.AddQueries)
def _encode_queries(block: b.AddQueries[I64], codes: Codes) -> b.AddQueries[Params]:
    schema = codes.templates[block.template].params
    few = block.params.shape[1] <= _FEW and not schema.string_columns
    if few or not len(schema):
        return _with_params(block, block.params)
    return _with_params(block, wire.pack_batch(_batch(block.params, schema, codes.strings)))


@case(DECODE, b.AddQueries)
def _decode_queries(block: b.AddQueries[Params], codes: Codes) -> b.AddQueries[I64]:
    if not isinstance(block.params, bytes):
        return _with_params(block, block.params)
    schema = codes.templates[block.template].params
    return _with_params(block, to_rows(wire.unpack_batch(block.params), schema, codes.strings))


def _with_params(block: b.AddQueries[Any], params: b.R) -> b.AddQueries[b.R]:
    told = block.history, block.qids, block.since, block.unshared
    return b.AddQueries(block.template, params, *told)


# ---- rows between levels -------------------------------------------------------------
@case(ENCODE, b.Received)
def _encode_received(block: b.Received[Delta], codes: Codes) -> b.Received[Parcel]:
    delta, schema = block.delta, codes.received(block.template, block.channel)
    arrays = to_arrow(delta.rows, schema, codes.strings)
    names = [f"c{j}" for j in range(len(arrays))]
    same: dict[str, int | None] = {}
    for name, array in (("exp", delta.exp), ("sign", delta.sign), ("lin", delta.lin)):
        same[name] = int(array[0]) if bool((array == array[0]).all()) else None
        if same[name] is None:
            arrays.append(pa.array(array))
            names.append(name)
    batch = pa.RecordBatch.from_arrays([*arrays, pa.array(delta.ts)], [*names, "ts"])
    return b.Received(block.template, block.channel, Parcel(wire.pack_batch(batch), **same))


@case(DECODE, b.Received)
def _decode_received(block: b.Received[Parcel], codes: Codes) -> b.Received[Delta]:
    parcel, schema = block.delta, codes.received(block.template, block.channel)
    batch = wire.unpack_batch(parcel.data)
    n = batch.num_rows
    width = len(schema)
    ts = _numbers(batch, "ts")

    def column(name: str, same: int | None) -> I64:
        return np.full(n, same) if same is not None else _numbers(batch, name)

    rows = to_rows(batch.select(list(range(width))), schema, codes.strings)
    exp, lin = column("exp", parcel.exp), column("lin", parcel.lin)
    delta = Delta(rows, ts, exp, column("sign", parcel.sign).astype(np.int8), lin)
    return b.Received(block.template, block.channel, delta)


def _numbers(batch: pa.RecordBatch, name: str) -> I64:
    return np.array(batch.column(name).to_numpy(zero_copy_only=False))


complete(ENCODE, classes(b.Block), "way to encode a block")
complete(DECODE, classes(b.Block), "way to decode a block")
