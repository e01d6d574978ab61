"""The results of a batch as a typed DataFrame of changes.

Columns: `_query, _change_type, _time, _batch, _seq` and the query's own. A TIMESTAMP is a
TIMESTAMP_NTZ, because event time has no zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from penstock.arrays import I64
from penstock.delta import Sets
from penstock.schema import Schema
from penstock.shards import wire
from penstock.shards.changes import NAMES, block_table, in_texts, numbered_lists, owners_of
from penstock.shards.wire import Result
from penstock.types import Kind, SqlType, arrow_type

_TYPES: dict[Kind, T.DataType] = {
    Kind.BOOLEAN: T.BooleanType(),
    Kind.INT: T.IntegerType(),
    Kind.BIGINT: T.LongType(),
    Kind.FLOAT: T.FloatType(),
    Kind.DOUBLE: T.DoubleType(),
    Kind.STRING: T.StringType(),
    Kind.DATE: T.DateType(),
    Kind.TIMESTAMP: T.TimestampNTZType(),
    Kind.INTERVAL: T.LongType(),
    Kind.NULL: T.StringType(),  # most formats cannot hold a column without a type
}


def spark_type(type_: SqlType) -> T.DataType:
    """The Spark type of a column."""
    if type_.kind is Kind.DECIMAL:
        return T.DecimalType(type_.precision, type_.scale)
    return _TYPES[type_.kind]


def spark_schema(schema: Schema, unit_time: bool, per_row: bool) -> T.StructType:
    """The columns of a frame of changes."""
    fields = [
        T.StructField("_query", T.ArrayType(T.StringType()) if per_row else T.StringType()),
        T.StructField("_change_type", T.StringType()),
        T.StructField("_time", T.LongType() if unit_time else T.TimestampNTZType()),
        T.StructField("_batch", T.LongType()),
        T.StructField("_seq", T.LongType()),
        *(T.StructField(f.name, spark_type(f.type)) for f in schema),
    ]
    return T.StructType(fields)


@dataclass(frozen=True, slots=True)
class QueryNames:
    """Names by number of query, sorted by number."""

    qids: I64
    names: pa.Array

    @classmethod
    def of(cls, qids: I64, names: pa.Array) -> QueryNames:
        """The name of each number; of two for one number, the last."""
        numbers, last = np.unique(qids[::-1], return_index=True)
        return cls(numbers, names.take(pa.array(len(qids) - 1 - last)))

    @classmethod
    def none(cls) -> QueryNames:
        """No names."""
        return cls(np.empty(0, np.int64), pa.nulls(0, pa.string()))

    def look_up(self, qids: I64) -> pa.Array:
        """The name of each query; NULL if it has none."""
        if not len(self.qids):
            return pa.nulls(len(qids), pa.string())
        place = np.minimum(np.searchsorted(self.qids, qids), len(self.qids) - 1)
        return self.names.take(pa.array(place, mask=self.qids[place] != qids))


@dataclass(frozen=True, slots=True)
class Decode:
    """Blocks of changes of a template (place, data) as rows; of one query, or of all."""

    schema: Schema
    unit_time: bool
    batch: int
    query: str
    qid: int | None
    names: QueryNames | None = None
    per_row: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For mapInArrow."""
        for batch in batches:
            places = batch.column("place").to_pylist()
            for place, data in zip(places, batch.column("data"), strict=True):
                yield from self.rows(place, wire.unpack_batch(data.as_buffer()))

    def rows(self, place: int, data: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The selected rows of a block."""
        rows, names = self._named(*owners_of(data))
        if not len(rows):
            return
        table = block_table(data, place, self.batch, self.schema.names, self.unit_time, rows)
        columns = [
            column.cast(field.type)
            for column, field in zip([names, *table.columns], self._arrow(), strict=True)
        ]
        yield from pa.Table.from_arrays(columns, schema=self._arrow()).to_batches()

    def _named(self, who: I64, sets: Sets | None) -> tuple[I64, pa.Array]:
        """The selected rows, and the names of their queries."""
        if sets is not None:
            return self._listed(who, sets)
        if self.names is None:
            rows = np.flatnonzero(who == self.qid)
            return rows, pa.array([self.query]).take(pa.array(np.zeros(len(rows), np.int64)))
        return np.arange(len(who)), self.names.look_up(who)

    def _listed(self, who: I64, sets: Sets) -> tuple[I64, pa.ChunkedArray]:
        if self.names is None:
            sets = sets.keep(sets.items == self.qid)
            names, members = pa.array([self.query]), np.zeros(sets.items.shape[0], np.int64)
        else:
            known, members = np.unique(sets.items, return_inverse=True)
            names = self.names.look_up(known)
        rows = np.flatnonzero(sets.sizes[who])
        return rows, in_texts(numbered_lists(who[rows], Sets(sets.offsets, members), names))

    def _arrow(self) -> pa.Schema:
        time = pa.int64() if self.unit_time else pa.timestamp("us")
        types = [arrow_type(f.type) for f in self.schema]
        own = [pa.string() if t == pa.null() else t for t in types]
        query = NAMES if self.per_row else pa.string()
        meta = [("_query", query), ("_change_type", pa.string()), ("_time", time)]
        counters = [("_batch", pa.int64()), ("_seq", pa.int64())]
        return pa.schema([*meta, *counters, *zip(self.schema.names, own, strict=True)])


def change_frame(results: DataFrame, template: int, decode: Decode) -> DataFrame:
    """The changes of a template in the results of a batch (`cells.RESULTS`)."""
    wanted = (F.col("kind") == "changes") & (F.col("template") == template)
    blocks = results.where(wanted).select("place", "data")
    return blocks.mapInArrow(decode, spark_schema(decode.schema, decode.unit_time, decode.per_row))


def local_frame(spark: SparkSession, blocks: Iterable[Result], decode: Decode) -> DataFrame | None:
    """The same from blocks on the driver: for few changes a Spark task would cost more.

    None when there are none.
    """
    decoded = [decode.rows(block.order, wire.unpack_batch(block.data)) for block in blocks]
    found = [rows for part in decoded for rows in part]
    if not found:
        return None
    table = pa.Table.from_batches(found)
    return spark.createDataFrame(
        table, spark_schema(decode.schema, decode.unit_time, decode.per_row)
    )
