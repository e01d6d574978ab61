"""Schemas: ordered, named, typed columns."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from penstock.errors import PlanError
from penstock.frozen import Hashed, derived, frozen
from penstock.types import SqlType, arrow_type

MAX_COLUMNS = 62
"""One 64-bit word per row holds its NULL bits."""


@frozen
class Field(Hashed):
    """One column."""

    name: str
    type: SqlType


class _Columns(Hashed):
    """Base with slots for the properties that a schema computes once."""

    __slots__ = ("_names", "_string_columns", "_types")


@frozen
class Schema(_Columns):
    """The columns of a stream, table or plan edge. Names may repeat inside a plan."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        if len(self.fields) > MAX_COLUMNS:
            raise PlanError(
                f"{len(self.fields)} columns in one row; at most {MAX_COLUMNS} are supported",
                code="PS-PLAN-007",
                remedy="select fewer columns",
            )

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __getitem__(self, index: int) -> Field:
        return self.fields[index]

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    @derived
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple([f.name for f in self.fields])

    @derived
    def types(self) -> tuple[SqlType, ...]:
        """Column types in order."""
        return tuple([f.type for f in self.fields])

    @derived
    def string_columns(self) -> tuple[int, ...]:
        """Indices of the columns that hold string codes."""
        return tuple([i for i, f in enumerate(self.fields) if f.type.is_string])

    def select(self, indices: tuple[int, ...]) -> Schema:
        """The schema of the chosen columns; plans that choose the same ones share it."""
        return _selected(self, indices)

    def arrow(self) -> pa.Schema:
        """As an Arrow schema."""
        return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in self.fields])


@lru_cache(1_000)
def _selected(schema: Schema, indices: tuple[int, ...]) -> Schema:
    return Schema(tuple([schema.fields[i] for i in indices]))
