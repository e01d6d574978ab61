"""Rows of Parquet files, by column and in parts: a part is a run of row groups.

All runners use this reader, so that names, missing columns and folders mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import DataError
from penstock.schema import Field, Schema
from penstock.shards.messages import SourcePart
from penstock.types import arrow_type

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a file: part `number` of `count`."""

    path: str
    number: int
    count: int
    schema: Schema

    @property
    def place(self) -> SourcePart:
        """Files in the order of their names."""
        return self.path, self.number

    def read(self, columns: frozenset[str] | None) -> pa.Table:
        """The rows; missing columns are NULL or come from the folder's name."""
        try:
            with pq.ParquetFile(self.path, coerce_int96_timestamp_unit="us") as file:
                return self._read(file, columns)
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.path, "Parquet", error) from None

    def _read(self, file: pq.ParquetFile, columns: frozenset[str] | None) -> pa.Table:
        groups = file.num_row_groups
        share = range(self.number * groups // self.count, (self.number + 1) * groups // self.count)
        named = names_in(self.schema, file.schema_arrow.names)
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
        """A column that is not in the file: the value of a folder `name=value`, or NULL."""
        value = folder_value(self.path, name)
        return pa.nulls(rows) if value is None else pa.repeat(value, rows)


def unreadable(path: str, kind: str, error: Exception) -> DataError:
    """The error for a file that cannot be read."""
    return DataError(
        f"{path} cannot be read as {kind}: {error}".replace("\n", " "),
        code="PS-SRC-005",
        remedy="repair, restore or remove the file; Penstock then tries again",
    )


def folder_value(path: str, name: str) -> str | None:
    """The value of a column in a folder name `name=value` above the file."""
    values = [p for p in path.split("/")[:-1] if p.startswith(f"{name}=")]
    if not values or values[-1].endswith(f"={_NO_VALUE}"):
        return None
    return unquote(values[-1].partition("=")[2])


def names_in(schema: Schema, given: list[str]) -> dict[str, str]:
    """The file's name of each column that it has; case matters only if it has both spellings."""
    folded = {name.lower(): name for name in given}
    return {
        name: name if name in given else folded[name.lower()]
        for name in schema.names
        if name.lower() in folded
    }


def _fits(field: Field, named: Mapping[str, str], file: pq.ParquetFile) -> bool:
    """Whether every value of a column fits the type."""
    return bool(file.schema_arrow.field(named[field.name]).type == arrow_type(field.type))
