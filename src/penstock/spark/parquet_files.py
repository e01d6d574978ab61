"""Parquet files by name: Spark finds the new files of a batch, and pack reads them by column.

Spark would turn columns into rows and back into columns to hand them to Python. So a source of
local files gives their names, and each task reads its share of their row groups. Which task reads
what depends on names and the number of shards alone, so a batch that is run again is read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader

from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.shards.messages import Place
from penstock.types import arrow_type

_FOUND = "path string, modificationTime timestamp, length long, content binary"
_OPTIONS = {
    "path", "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst", "filenameonly",
    "cleansource", "sourcearchivedir", "pathglobfilter", "recursivefilelookup",
}  # fmt: skip
"""Options that say which files there are; others are for Spark's own reader."""
_DIVISIBLE = 1 << 20
"""Bytes from which on a file is read by several tasks."""
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def can_read(spark: SparkSession, options: Mapping[str, str]) -> bool:
    """Whether the files of a source can be opened by any process of the job."""
    if set(options) - _OPTIONS:
        return False
    assert spark._jvm is not None
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    path = spark._jvm.org.apache.hadoop.fs.Path(options["path"])
    return str(path.getFileSystem(settings).getScheme()) == "file"


def found_files(reader: DataStreamReader, options: Mapping[str, str]) -> DataFrame:
    """Names and sizes of files as they appear."""
    files = reader.format("binaryFile").schema(_FOUND).options(**options).load()
    return files.select("path", "length")


def parts_of_files(files: DataFrame, keys: tuple[int, ...]) -> DataFrame:
    """Files in as many parts as there are keys, and the parts spread over as many tasks."""
    count = len(keys)
    parts = f.when(f.col("length") < _DIVISIBLE, 1).otherwise(count)
    part = f.explode(f.sequence(f.lit(0), f.col("parts") - 1))
    frame = files.select("path", parts.alias("parts")).select("path", "parts", part.alias("part"))
    task = f.pmod(f.hash("path") + f.col("part"), f.lit(count)).cast("int")
    key = f.element_at(f.array(*map(f.lit, keys)), task + 1)
    return frame.repartition(count, key)


def file_parts(batches: Iterable[pa.RecordBatch], schema: Schema) -> Iterator[FilePart]:
    """The parts that a task is to read."""
    for batch in batches:
        for row in batch.to_pylist():
            path = "/" + row["path"].removeprefix("file:").lstrip("/")
            yield FilePart(path, row["part"], row["parts"], schema)


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a file: part `number` of `count`."""

    path: str
    number: int
    count: int
    schema: Schema

    @property
    def place(self) -> Place:
        """Files in the order of their names."""
        return self.path, self.number

    def read(self, columns: frozenset[str] | None) -> pa.Table:
        """The rows; columns that the file lacks are NULL, or what the folder's name says."""
        try:
            with pq.ParquetFile(self.path, coerce_int96_timestamp_unit="us") as file:
                return self._read(file, columns)
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"{self.path} cannot be read as Parquet: {error}".replace("\n", " "),
                code="PS-SRC-005",
                remedy="repair the file or put it back; the batch is then read again",
            ) from None

    def _read(self, file: pq.ParquetFile, columns: frozenset[str] | None) -> pa.Table:
        groups = file.num_row_groups
        share = range(self.number * groups // self.count, (self.number + 1) * groups // self.count)
        named = _names(self.schema, file.schema_arrow)
        chosen = {
            field.name: named[field.name]
            for field in self.schema
            if field.name in named
            and (columns is None or field.name in columns or not _fits(field, named, file))
        }
        rows = file.read_row_groups(list(share), columns=[*chosen.values()], use_threads=False)
        count = sum(file.metadata.row_group(group).num_rows for group in share)
        found = {name: rows.column(theirs) for name, theirs in chosen.items()}
        absent = [name for name in self.schema.names if name not in named]
        return pa.table(found | {name: self._of_folder(name, count) for name in absent})

    def _of_folder(self, name: str, rows: int) -> pa.Array:
        """A column that is not in the file: what a folder `name=value` says, or NULL."""
        values = [p for p in self.path.split("/")[:-1] if p.startswith(f"{name}=")]
        if not values or values[-1].endswith(f"={_NO_VALUE}"):
            return pa.nulls(rows)
        return pa.repeat(unquote(values[-1].partition("=")[2]), rows)


def _names(schema: Schema, file: pa.Schema) -> dict[str, str]:
    """The file's name of each column that it has; case counts only where both are there."""
    folded = {name.lower(): name for name in file.names}
    return {
        name: name if name in file.names else folded[name.lower()]
        for name in schema.names
        if name.lower() in folded
    }


def _fits(field: Field, named: Mapping[str, str], file: pq.ParquetFile) -> bool:
    """Whether every value of a column is one of the type."""
    return bool(file.schema_arrow.field(named[field.name]).type == arrow_type(field.type))
