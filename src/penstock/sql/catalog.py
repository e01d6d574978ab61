"""Lookup of names for the binder: streams, tables, views and functions.

Names are compared without case and keep the spelling of their declaration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from penstock.errors import NameError_
from penstock.logical.functions import AGGREGATE_ALIASES, AGGREGATES, ALIASES, FUNCTIONS, VOLATILE
from penstock.logical.nodes import Node
from penstock.logical.udf import Udf
from penstock.schema import Schema
from penstock.sql.statements import CreateStream, CreateTable, Options
from penstock.types import Kind, SqlType

_SYNTAX = ("case", "cast", "exists", "extract", "if", "in", "interval", "try_cast")
"""Words that look like calls but have a syntax of their own."""


@dataclass(frozen=True, slots=True)
class StreamDef:
    """A declared stream; lengths as in CreateStream."""

    name: str
    schema: Schema
    time: str
    delay: int = 0
    max_ahead: int | None = None
    idle_after: int | None = None
    tick: int | None = None
    retain: int | None = None
    format: str | None = None
    options: Options = ()

    @property
    def time_index(self) -> int:
        """The position of the time column."""
        return self.schema.names.index(self.time)

    @property
    def unit_time(self) -> bool:
        """Whether time is a BIGINT that counts plain units."""
        return self.schema[self.time_index].type.kind is Kind.BIGINT


@dataclass(frozen=True, slots=True)
class TableDef:
    """A declared table."""

    name: str
    schema: Schema
    nonretroactive: bool = False


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """An explicit parameter of a query: ``$name``.

    If it is the length of a window, `unit` is the length of one unit (else 0).
    """

    name: str
    type: SqlType
    unit: int = 0


@dataclass(frozen=True, slots=True)
class ViewDef:
    """A view with its plan, which replaces the view's name in queries."""

    name: str
    node: Node
    params: tuple[ParamSpec, ...] = ()


Relation = StreamDef | TableDef | ViewDef


class Catalog(Protocol):
    """Lookup by name, without regard to case."""

    @property
    def names(self) -> list[str]:
        """Of all streams, tables and views."""

    def relation(self, name: str) -> Relation | None:
        """The stream, table or view called `name`."""

    def udf(self, name: str) -> Udf | None:
        """The user-defined function called `name`."""


def check_udf_name(name: str) -> None:
    """Refuse a user-defined function with the name of a built-in one."""
    builtin = {n for n, s in FUNCTIONS.items() if not s.operator}
    if name.lower() in {
        *builtin, *ALIASES, *AGGREGATES, *AGGREGATE_ALIASES, *VOLATILE, *_SYNTAX
    }:  # fmt: skip
        raise NameError_(
            f"{name} is a built-in function",
            code="PS-NAME-008",
            remedy=f"register it under another name, such as my_{name}",
        )


@dataclass
class MemoryCatalog:
    """A catalog in a dictionary."""

    relations: dict[str, Relation] = field(default_factory=dict)
    udfs: dict[str, Udf] = field(default_factory=dict)

    def add(self, item: Relation | Udf) -> None:
        """Declare or replace something under its name."""
        if isinstance(item, Udf):
            check_udf_name(item.name)
            self.udfs[item.name.lower()] = item
        else:
            self.relations[item.name.lower()] = item

    @property
    def names(self) -> list[str]:
        """Of all streams, tables and views."""
        return list(self.relations)

    def relation(self, name: str) -> Relation | None:
        """The stream, table or view called `name`."""
        return self.relations.get(name.lower())

    def udf(self, name: str) -> Udf | None:
        """The user-defined function called `name`."""
        return self.udfs.get(name.lower())


def stream_def(statement: CreateStream) -> StreamDef:
    """The stream a statement declares."""
    s = statement
    return StreamDef(
        s.name, s.schema, s.time, s.delay, s.max_ahead, s.idle_after, s.tick, s.retain,
        s.format, s.options,
    )  # fmt: skip


def table_def(statement: CreateTable) -> TableDef:
    """The table a statement declares."""
    return TableDef(statement.name, statement.schema, statement.nonretroactive)
