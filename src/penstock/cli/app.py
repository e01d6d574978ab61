"""The contents of a script: its streams, its queries, and where rows come from.

A stream with an --input is declared without its FROM, so that every runner pushes its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console

from penstock.cli.feed import Input, declared_input, parse_input
from penstock.cli.output import rich_table
from penstock.cli.script import Piece, Script, located, parse
from penstock.errors import NameError_, PenstockError
from penstock.session import Query
from penstock.sql.catalog import StreamDef, stream_def
from penstock.sql.statements import CreateSink, CreateStream, Select, Statement

if TYPE_CHECKING:
    from penstock.session import Session


@dataclass(frozen=True, slots=True)
class Plan:
    """A script that has been read, and the inputs that replace its FROM clauses."""

    script: Script
    statements: list[tuple[Piece, Statement]]
    inputs: dict[str, Input]

    @property
    def streams(self) -> dict[str, StreamDef]:
        """Its streams by name, as written."""
        return {s.name: stream_def(s) for _, s in self.statements if isinstance(s, CreateStream)}


def read_plan(script: Script, given: tuple[str, ...]) -> Plan:
    """Read a script and the --input options that belong to it."""
    plan = Plan(script, parse(script), {})
    names = {name.lower(): name for name in plan.streams}
    for text in given:
        chosen = parse_input(text)
        if chosen.stream.lower() not in names:
            raise NameError_(
                f"the script declares no stream {chosen.stream}",
                remedy=f"its streams are {', '.join(plan.streams) or 'none'}",
            )
        plan.inputs[names[chosen.stream.lower()]] = chosen
    readers = [i.stream for i in sources(plan).values() if i.options.get("path") == "-"]
    if len(readers) > 1:
        raise PenstockError(
            f"{readers[0]} and {readers[1]} both read standard input",
            code="PS-CLI-007",
            remedy="give one of them a file",
        )
    return plan


def sources(plan: Plan) -> dict[str, Input]:
    """FROM clauses, replaced or completed by --input."""
    declared = {s: i for s, d in plan.streams.items() if (i := declared_input(d))}
    return declared | plan.inputs


@dataclass(slots=True)
class App:
    """A script on a session, and the queries that it shows."""

    session: Session
    plan: Plan
    queries: list[Query] = field(default_factory=list)

    @property
    def streams(self) -> dict[str, StreamDef]:
        """The script's streams by name."""
        return self.plan.streams

    def execute(self, console: Console) -> None:
        """Run all statements; SHOW, DESCRIBE and EXPLAIN print at once."""
        for piece, statement in self.plan.statements:
            text = piece.text
            if isinstance(statement, CreateStream) and statement.name in self.plan.inputs:
                text = without_source(statement)
            with located(self.plan.script, piece):
                # a SELECT of a script is a standing query, also one over views only
                run = self.session.query if isinstance(statement, Select) else self.session.sql
                result = run(text)
            match result:
                case Query():
                    self.queries.append(result)
                case pa.Table():
                    console.print(rich_table(result))
                case str():
                    console.print(result, markup=False, highlight=False, soft_wrap=True)

    def pushed(self) -> list[Input]:
        """The inputs given by --input."""
        return list(self.plan.inputs.values())

    def read_here(self) -> list[Input]:
        """The inputs that the session does not read: --input and standard input."""
        found = sources(self.plan).values()
        return [i for i in found if i.stream in self.plan.inputs or i.options.get("path") == "-"]

    @property
    def sinks(self) -> list[CreateSink]:
        """The sinks that the script makes."""
        return [s for _, s in self.plan.statements if isinstance(s, CreateSink)]

    @property
    def reads_sources(self) -> bool:
        """Whether a stream has a source."""
        return any(
            s.format is not None and name not in self.plan.inputs
            for name, s in self.streams.items()
        )


def without_source(statement: CreateStream) -> str:
    """A CREATE STREAM that is fed by push()."""
    columns = ", ".join(f'"{f.name}" {f.type}' for f in statement.schema)
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    parts = [f'CREATE STREAM {exists}"{statement.name}" ({columns})']
    parts.append(f'TIMESTAMP BY "{statement.time}"')
    event = "" if stream_def(statement).unit_time else " MICROSECONDS"
    for clause, length, unit in (
        ("DELAY", statement.delay or None, event),
        ("MAX AHEAD", statement.max_ahead, event),
        ("RETAIN", statement.retain, event),
        ("IDLE AFTER", statement.idle_after, " MICROSECONDS"),
        ("TICK", statement.tick, " MICROSECONDS"),
    ):
        if length is not None:
            parts.append(f"{clause} {length}{unit}")
    return " ".join(parts)
