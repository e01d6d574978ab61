"""Statements: frozen dataclasses, one per kind. The bodies of queries are bound elsewhere.

`source` is the statement's text and `place` its position in the whole text; neither takes part
in comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.delta import EVERY_CHANGE, Emission
from penstock.errors import Place
from penstock.logical.expr import Literal
from penstock.logical.on_error import OnError
from penstock.logical.strategy import UPA, Strategy
from penstock.schema import Schema
from penstock.sql.body import Body

Options = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Base of all statements."""

    source: str = field(default="", compare=False)
    place: Place = field(default=Place(1, 1), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateStream(Statement):
    """CREATE STREAM; lengths in µs, or plain units when the time column is BIGINT.

    `idle_after` and `tick` are wall-clock µs always. `format` None: the stream is fed by push().
    """

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
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable(Statement):
    """CREATE TABLE … [NONRETROACTIVE]."""

    name: str
    schema: Schema
    nonretroactive: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert(Statement):
    """INSERT INTO table [(columns)] VALUES …; `columns` None means all, in order."""

    table: str
    columns: tuple[str, ...] | None
    rows: tuple[tuple[Literal, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Statement):
    """UPDATE table SET column = expression, … [WHERE …]."""

    table: str
    assignments: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Statement):
    """DELETE FROM table [WHERE …]."""

    table: str
    where: exp.Expr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Statement):
    """A standing query; `emission` is what EMIT says.

    `strategy` is the one that the statement or its caller names; the session's if there is none.
    """

    body: Body
    history: bool = False
    emission: Emission = EVERY_CHANGE
    on_error: OnError | None = None  # None: no clause, which means "fail"
    strategy: Strategy | None = None
    session_strategy: Strategy = UPA

    @property
    def runs_by(self) -> Strategy:
        """The strategy that the query runs by."""
        return self.strategy or self.session_strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateView(Statement):
    """CREATE MATERIALIZED VIEW name AS select."""

    name: str
    select: Select
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSink(Statement):
    """CREATE SINK name FROM view INTO format OPTIONS (…)."""

    name: str
    view: str
    format: str
    options: Options = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Statement):
    """DROP kind name; `kind` is STREAM, TABLE, VIEW or SINK."""

    kind: str
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Show(Statement):
    """SHOW what; `what` is STREAMS, TABLES, QUERIES, SINKS, or LATE or QUARANTINE `of` a stream."""

    what: str
    of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Statement):
    """DESCRIBE name."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain(Statement):
    """EXPLAIN of a SELECT or of a query by name."""

    target: Select | str
