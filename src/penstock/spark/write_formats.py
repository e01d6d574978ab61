"""Sinks besides files: the console, Kafka, any format of Spark, a function.

These cannot detect a repeated batch; readers recognise it by `_batch` and `_seq`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.arrays import BEGINNING
from penstock.errors import DataError, PenstockError
from penstock.files.sinks import Sink
from penstock.spark.batch_files import MICROSECONDS, in_order
from penstock.spark.config import KAFKA_REMEDY
from penstock.spark.kafka import SERVERS, check_sink

BatchFunction = Callable[[DataFrame, int], None]
_JSON = {"ignoreNullFields": "false", "timestampNTZFormat": MICROSECONDS}


@dataclass(frozen=True, slots=True)
class FunctionSink:
    """A function of the user's, called with the changes of a batch and the batch's number.

    The frame may be empty, and is valid until the function returns. An interrupted batch is
    repeated with the same number and changes.
    """

    function: BatchFunction

    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Call the function."""
        try:
            self.function(frame, batch)
        except (PenstockError, PySparkException, Py4JError):
            raise
        except Exception as error:
            raise PenstockError(
                f"the function raised {error!r}",
                code="PS-RUN-002",
                remedy="correct the function given to foreach_batch()",
            ) from error


@dataclass(frozen=True, slots=True)
class ConsoleWriter:
    """Prints the first changes of a batch; the title has the total."""

    sink: Sink
    one_query: bool

    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Print."""
        hidden = {"_batch", "_seq"} | ({"_query"} if self.one_query else set())
        table: pa.Table = frame.toArrow()
        time = pc.fill_null(table["_time"].cast(pa.int64()), BEGINNING)
        table = table.take(pa.array(np.lexsort((table["_seq"].to_numpy(), time.to_numpy()))))
        self.sink.write(table.select([c for c in table.column_names if c not in hidden]), batch)


@dataclass(frozen=True, slots=True)
class KafkaWriter:
    """Sends changes as JSON; the key is the query, so its changes stay in one partition."""

    options: Mapping[str, str]
    key: str

    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Send."""
        rows = kafka_rows(in_order(frame, weight), self.key)
        rows.write.format("kafka").options(**self.options).save()


def kafka_rows(frame: DataFrame, key: str) -> DataFrame:
    """Key and value of each change."""
    return frame.select(
        F.col(f"`{key}`").cast("string").alias("key"),
        F.to_json(F.struct("*"), _JSON).alias("value"),
    )


@dataclass(frozen=True, slots=True)
class FormatWriter:
    """Appends with any format of Spark."""

    format: str
    mode: str
    options: Mapping[str, str]

    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Append."""
        writer = in_order(frame, weight).write.format(self.format).options(**self.options)
        writer.mode(self.mode).save()


def open_kafka(
    spark: SparkSession, given: dict[str, str], name: str, columns: Collection[str]
) -> KafkaWriter:
    """A sink into a Kafka topic, of changes that have these columns."""
    check_format(spark, "kafka")
    writer = kafka_writer(given, name, columns)
    check_sink(spark, writer.options, f"sink {name} cannot write to kafka", "PS-SINK-004")
    return writer


def kafka_writer(given: Mapping[str, str], name: str, columns: Collection[str]) -> KafkaWriter:
    """The writer for the options of a Kafka sink."""
    options = {key.lower(): value for key, value in given.items()}
    key = options.pop("key", "_query")
    wrong, remedy = "", ""
    for option in (SERVERS, "topic"):
        if not options.get(option):
            wrong = f"sink {name} needs the option {option}"
            remedy = f"add OPTIONS ({SERVERS} 'host:9092', topic 'changes')"
    if not wrong and key not in columns:
        wrong = f"sink {name} has no column {key} for the key"
        remedy = f"use one of {', '.join(columns)}"
    if wrong:
        raise DataError(wrong, code="PS-SINK-002", remedy=remedy)
    return KafkaWriter(options, key)


def check_format(spark: SparkSession, format: str) -> None:
    """Refuse a format that Spark does not have."""
    jvm: Any = spark._jvm
    source = jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        source.lookupDataSource(format, spark._jsparkSession.sessionState().conf())
    except (PySparkException, Py4JError):
        remedy = "use parquet, json, csv, console, kafka or a format that Spark has loaded"
        if format == "kafka":
            remedy = KAFKA_REMEDY
        raise DataError(
            f"Spark has no format {format!r}", code="PS-SINK-001", remedy=remedy
        ) from None
