"""External sources: streaming frames by format, and a user's own frame as a stream.

Columns keep the types of the source; admission in `pack` converts them or quarantines the row.
Text formats put records that they cannot parse into `_malformed`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.engine.admission import MALFORMED
from penstock.errors import DataError, PenstockError
from penstock.files.fitting import check_files
from penstock.files.formats import FileFormat, check_delimiter
from penstock.schema import Schema
from penstock.spark.config import KAFKA_REMEDY, SETTINGS, SparkError
from penstock.spark.failure import cause, translated
from penstock.spark.found_files import found_files, readable
from penstock.spark.kafka import check_source
from penstock.sql.catalog import StreamDef
from penstock.sql.source_options import SOURCES, check_options
from penstock.types import Kind, SqlType

_TYPES: dict[Kind, t.DataType] = {
    Kind.BOOLEAN: t.BooleanType(),
    Kind.INT: t.IntegerType(),
    Kind.BIGINT: t.LongType(),
    Kind.FLOAT: t.FloatType(),
    Kind.DOUBLE: t.DoubleType(),
    Kind.STRING: t.StringType(),
    Kind.DATE: t.DateType(),
    Kind.TIMESTAMP: t.TimestampNTZType(),
}
_FILES = ("parquet", "json", "csv", "orc", "text")
_CSV = {"header": "true", "enforceschema": "false"}
"""As in process: CSV has a header, and columns that do not match it are an error."""
_JSON_VALUE = ("kafka", "socket")
"""Formats with a text column `value` that holds a JSON object."""


def spark_type(type_: SqlType) -> t.DataType:
    """The Spark type of a column."""
    if type_.kind is Kind.DECIMAL:
        return t.DecimalType(type_.precision, type_.scale)
    return _TYPES[type_.kind]


def spark_schema(schema: Schema) -> t.StructType:
    """A schema for Spark."""
    return t.StructType([t.StructField(c.name, spark_type(c.type)) for c in schema])


@dataclass(frozen=True, slots=True)
class Source:
    """A streaming frame of rows, or of names of files that hold them (`found_files`).

    Spark can add sources to a job if all have names. `under` opens the source under a name; a
    user's frame keeps the names it was made with. `place` is the path or topic in its errors.
    """

    frame: DataFrame | None
    files: FileFormat | None = None
    under: Callable[[str | None], DataFrame] | None = None
    place: str = ""
    family: str = ""  # a word that occurs in errors of such sources, if there is one

    def can_be_named(self) -> bool:
        """Whether Spark can identify the source by name."""
        return self.under is not None or all(self.names(""))

    def names(self, own: str) -> tuple[str | None, ...]:
        """The name that we give the source in Spark."""
        return (own,) if self.under is not None else tuple(_names(self.frame))

    def open(self, name: str | None) -> DataFrame:
        """The frame, opened under a name if possible."""
        if self.under is not None:
            return self.under(name)
        assert self.frame is not None
        return self.frame


def source_name(stream: str) -> str:
    """A stream's name in characters that Spark accepts."""
    plain = (c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in stream)
    return f"penstock_{''.join(plain)}"


def _names(frame: DataFrame | None) -> Iterator[str | None]:
    """The name of each source that a frame reads."""
    assert frame is not None
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        if leaf.isStreaming():
            name = leaf.sourceIdentifyingName().nameOpt()
            yield str(name.get()) if name.isDefined() else None


def open_source(spark: SparkSession, stream: StreamDef, known: bool = False) -> Source:
    """The source of CREATE STREAM … FROM format OPTIONS (…).

    A `known` source existed before: it is checked only when it is opened.
    """
    assert stream.format is not None
    kind = stream.format.lower()
    options = {k.lower(): v for k, v in stream.options}
    if not known:
        _check(stream, kind, options)
    if kind == "csv":
        options = {**_CSV, **options}
    files = _files(spark, stream.name, kind, options, known)

    def opened(name: str | None) -> DataFrame:
        with SETTINGS, _of_stream(stream.name, kind), translated():
            reader = spark.readStream if name is None else spark.readStream.name(name)
            if files is not None:
                return found_files(reader, options)
            reader = reader.format(kind).options(**options)
            return _rows(reader, kind, stream.name, stream.schema)

    place, family = _place(kind, options), "Kafka" if kind == "kafka" else ""
    if known:
        return Source(None, files, opened, place, family)
    source = Source(opened(None), files, opened, place, family)
    if files is not None:
        check_files(stream, files, options)
    if kind == "kafka":
        check_source(spark, options, f"stream {stream.name} cannot read kafka", "PS-DATA-008")
    return source


def _check(stream: StreamDef, kind: str, options: Mapping[str, str]) -> None:
    """Refuse options that the source does not have."""
    if kind in _FILES and not options.get("path"):
        raise DataError(
            f"stream {stream.name} needs a path", code="PS-SRC-002",
            remedy=f"FROM {kind} OPTIONS (path 'in')",
        )  # fmt: skip
    check_options(kind, dict(stream.options), f"stream {stream.name}")
    check_delimiter(options, f"stream {stream.name}")


def _files(
    spark: SparkSession, stream: str, kind: str, options: Mapping[str, str], known: bool
) -> FileFormat | None:
    """How tasks read the files themselves, if they can."""
    try:
        with _of_stream(stream, kind), translated():
            return readable(spark, kind, options)
    except PenstockError:
        if not known:
            raise
        return None


def _place(kind: str, options: Mapping[str, str]) -> str:
    """The path or topic in errors of the source."""
    if kind in _FILES:
        path = re.split(r"[*?\[{]", options.get("path", ""))[0]
        path = path.removeprefix("file:")
        return path if "://" in path else os.path.abspath(path)
    if kind == "kafka":
        return options.get("subscribe", "")
    return "" if kind in SOURCES else kind


def _rows(reader: DataStreamReader, kind: str, stream: str, schema: Schema) -> DataFrame:
    """The rows of a source as Spark reads them."""
    if kind == "csv":  # as text: admission reports values that do not fit
        texts = [t.StructField(c.name, t.StringType()) for c in schema]
        reader = reader.schema(t.StructType([*texts, _corrupt()]))
        return reader.option("columnNameOfCorruptRecord", MALFORMED).load()
    if kind == "json":
        reader = reader.schema(_json_schema(schema))
        frame = reader.option("columnNameOfCorruptRecord", MALFORMED).load()
        return frame.withColumn(MALFORMED, f.make_valid_utf8(MALFORMED))
    if kind in _FILES:
        return reader.schema(spark_schema(schema)).load()
    frame = reader.load()
    return parsed_values(frame, schema) if kind in _JSON_VALUE else _chosen(frame, stream, schema)


def _chosen(frame: DataFrame, stream: str, schema: Schema) -> DataFrame:
    """The declared columns of a source that has its own."""
    had = {column.lower(): column for column in frame.columns}
    missing = [column for column in schema.names if column.lower() not in had]
    if missing:
        told = ", ".join(f"{c.name} {c.dataType.simpleString().upper()}" for c in frame.schema)
        raise DataError(
            f"stream {stream} declares column {missing[0]}, but its source has no such column",
            code="PS-SRC-009",
            remedy=f"the source has {told}",
        )
    return frame.select(*(f.col(f"`{had[c.lower()]}`").alias(c) for c in schema.names))


@contextmanager
def _of_stream(name: str, kind: str) -> Iterator[None]:
    try:
        yield
    except SparkError as error:
        said = cause(error)
        code, remedy = _fault(kind, said)
        raise DataError(
            f"stream {name} cannot read {kind}: {said}", code=code, remedy=remedy
        ) from None


def _fault(kind: str, said: str) -> tuple[str, str]:
    """The error code and remedy for a source that cannot be opened."""
    if kind == "kafka" and "NOT_ENABLED" in said:
        return "PS-DATA-008", KAFKA_REMEDY
    if said.startswith("[DATA_SOURCE_NOT_FOUND]"):
        return "PS-SRC-001", (
            "use parquet, json, csv, orc, kafka, socket, rate, or the format of a package that "
            "Spark has loaded (spark.jars.packages)"
        )
    if said.startswith("[PATH_NOT_FOUND]"):
        return "PS-SRC-004", "create the directory first; files may come later"
    return "PS-DATA-008", "check FROM and its OPTIONS"


def _corrupt() -> t.StructField:
    return t.StructField(MALFORMED, t.StringType())


def _json_schema(schema: Schema) -> t.StructType:
    """The fields of a JSON object; times are text, which admission reads with or without a zone."""
    fields = [
        t.StructField(
            c.name, t.StringType() if c.type.kind is Kind.TIMESTAMP else spark_type(c.type)
        )
        for c in schema
    ]
    return t.StructType([*fields, _corrupt()])


def parsed_values(frame: DataFrame, schema: Schema) -> DataFrame:
    """The fields of the JSON object in column `value`; other values become `_malformed` text.

    Spark's parser would ignore text after the first object.
    """
    text = f.col("value").cast("string")
    listed = f.concat(f.lit("["), f.try_validate_utf8(text), f.lit("]"))
    one = f.when(f.json_array_length(listed) == 1, text)
    parsed = f.from_json(one, _json_schema(schema), {"columnNameOfCorruptRecord": MALFORMED})
    return frame.select(parsed.alias("row"), f.make_valid_utf8(text).alias("text")).select(
        *[f.col(f"row.`{c.name}`").alias(c.name) for c in schema],
        f.when(f.col("row").isNull(), f.col("text"))
        .otherwise(f.col(f"row.{MALFORMED}"))
        .alias(MALFORMED),
    )


def checked_frame(frame: Any, name: str) -> DataFrame:
    """Check that an object is a streaming frame."""
    if not isinstance(frame, DataFrame):
        raise DataError(
            f"stream() takes a DataFrame, not a {type(frame).__name__}",
            code="PS-DATA-014",
            remedy="make it with spark.readStream, or push() its rows",
        )
    if not frame.isStreaming:
        raise DataError(
            f"the DataFrame for stream {name} is not streaming",
            code="PS-DATA-014",
            remedy="make it with spark.readStream, or push() its rows",
        )
    return frame


def frame_columns(frame: DataFrame, name: str) -> list[tuple[str, str]]:
    """Names and SQL types of a frame's columns."""
    found = []
    for field in frame.schema.fields:
        found.append((field.name, _sql_type(field, name)))
    return found


def _sql_type(field: t.StructField, name: str) -> str:
    match field.dataType:
        case t.BooleanType():
            return "BOOLEAN"
        case t.ByteType() | t.ShortType() | t.IntegerType():
            return "INT"
        case t.LongType():
            return "BIGINT"
        case t.FloatType():
            return "FLOAT"
        case t.DoubleType():
            return "DOUBLE"
        case t.DecimalType() as d if d.precision <= 18:
            return f"DECIMAL({d.precision},{d.scale})"
        case t.StringType():
            return "STRING"
        case t.DateType():
            return "DATE"
        case t.TimestampType() | t.TimestampNTZType():
            return "TIMESTAMP"
    raise SparkError(
        f"column {field.name} of stream {name} has type {field.dataType.simpleString()}",
        code="PS-DATA-009",
        remedy="select or cast it to a type that Penstock has (docs/sql.md)",
    )
