"""Files by name: Spark finds the new files of a batch, and pack reads them (`files/formats.py`).

Spark would convert columns to rows and back to hand them to Python, and its CSV and JSON readers
differ from ours. So a source of local files yields file names, and each task reads its share.
The assignment depends only on names and the number of shards, so a repeated batch is read the
same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.files.formats import FORMATS, LISTING, FileFormat, file_format
from penstock.schema import Schema
from penstock.shards.intake import Part

_FOUND = "path string, modificationTime timestamp, length long, content binary"
_DIVISIBLE = 1 << 20
"""Files of at least this many bytes are read by several tasks."""


def readable(spark: SparkSession, kind: str, options: Mapping[str, str]) -> FileFormat | None:
    """How a task opens the files of a source; None if only Spark can."""
    made = file_format(kind, options) if kind in FORMATS else None
    if not isinstance(made, FileFormat):
        return None
    assert spark._jvm is not None
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    path = spark._jvm.org.apache.hadoop.fs.Path(options["path"])
    return made if str(path.getFileSystem(settings).getScheme()) == "file" else None


def found_files(reader: DataStreamReader, options: Mapping[str, str]) -> DataFrame:
    """Names and sizes of files as they appear."""
    listed = {name: value for name, value in options.items() if name in LISTING}
    files = reader.format("binaryFile").schema(_FOUND).options(**listed).load()
    return files.select("path", "length")


def parts_of_files(files: DataFrame, keys: tuple[int, ...], form: FileFormat) -> DataFrame:
    """Files in as many parts as there are keys, and the parts spread over as many tasks."""
    count = len(keys)
    whole = f.lit(not form.divisible) | (f.col("length") < _DIVISIBLE)
    parts = f.when(whole, 1).otherwise(count)
    part = f.explode(f.sequence(f.lit(0), f.col("parts") - 1))
    frame = files.select("path", parts.alias("parts")).select("path", "parts", part.alias("part"))
    task = f.pmod(f.hash("path") + f.col("part"), f.lit(count)).cast("int")
    key = f.element_at(f.array(*map(f.lit, keys)), task + 1)
    return frame.repartition(count, key)


def file_parts(
    batches: Iterable[pa.RecordBatch], form: FileFormat, schema: Schema
) -> Iterator[Part]:
    """The parts that a task is to read."""
    for batch in batches:
        for row in batch.to_pylist():
            path = "/" + row["path"].removeprefix("file:").lstrip("/")
            yield from form.parts(path, row["part"], row["parts"], schema)
