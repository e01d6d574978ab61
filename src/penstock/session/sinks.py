"""The sinks of a session by name, each with the statement that made it.

Where Spark writes the sinks itself (`fed` is false), no change reaches them from here.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.errors import DataError, PenstockError
from penstock.files.sinks import Sink
from penstock.inprocess.waiting_sink import WaitingSink
from penstock.sql.statements import CreateSink

WHOLE = "whole_template"
"""Option of a sink that takes the changes of all queries that share a plan."""


def is_whole(create: CreateSink) -> bool:
    """Whether a sink takes the changes of all queries that share a plan."""
    given = {key.lower(): value for key, value in create.options}
    return given.get(WHOLE, "false").lower() != "false"


def write(sink: Sink, table: pa.Table, batch: int) -> list[BaseException]:
    """Hand changes to a sink, also none: others may wait there; what it could not do."""
    try:
        sink.write(table, batch)
    except (PenstockError, KeyboardInterrupt) as error:  # one sink must not starve the others
        return [error]
    return []


class SinkBook:
    """The open sinks."""

    def __init__(self, fed: bool = True) -> None:
        self._fed = fed
        self._named: dict[str, tuple[CreateSink, Sink]] = {}

    def __len__(self) -> int:
        return len(self._named)

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def statement(self, name: str) -> CreateSink:
        """The statement that made a sink."""
        return self._named[name][0]

    def statements(self) -> list[CreateSink]:
        """The statements that made the sinks."""
        return [create for create, _ in self._named.values()]

    def add(self, create: CreateSink, sink: Sink) -> None:
        """Enter a sink that has been opened."""
        self._named[create.name] = (create, sink)

    def fed(self) -> Collection[tuple[CreateSink, Sink]]:
        """The sinks that get their changes from this session."""
        return self._named.values() if self._fed else ()

    def waiting(self) -> list[tuple[CreateSink, WaitingSink]]:
        """The sinks that this session writes itself, which may hold changes back."""
        sinks = self._named.values()
        return [(create, sink) for create, sink in sinks if isinstance(sink, WaitingSink)]

    def drop(self, name: str) -> None:
        """Close a sink for good; say so if changes wait there that it still cannot take."""
        _, sink = self._named.pop(name)
        try:
            sink.close()
        except PenstockError as error:
            raise DataError(
                f"sink {name} was dropped with unwritten changes, which are lost: {error.message}",
                code=error.code,
                remedy="the view is unaffected; a new sink gets the changes from now on",
            ) from error

    def catch_up(self) -> list[PenstockError]:
        """Write what sinks could not take before; what they still cannot take."""
        errors: list[PenstockError] = []
        for _, sink in self.waiting():
            try:
                sink.catch_up()
            except PenstockError as error:
                errors.append(error)
        return errors

    def close(self) -> None:
        """Close all sinks; then say what could not be written."""
        errors: list[PenstockError] = []
        while self._named:
            _, (_, sink) = self._named.popitem()
            try:
                sink.close()
            except PenstockError as error:
                errors.append(error)
        if errors:
            raise errors[0]
