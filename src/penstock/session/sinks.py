"""The sinks of a session by name, each with the statement that made it.

If Spark writes the sinks itself (`fed` is false), this session sends them no changes.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.errors import DataError, PenstockError
from penstock.files.sinks import Sink
from penstock.inprocess.waiting_sink import WaitingSink
from penstock.sql.statements import CreateSink

WHOLE = "whole_template"
"""The option of a sink that takes the changes of all queries that share a plan."""


def is_whole(create: CreateSink) -> bool:
    """Whether a sink takes the changes of all queries that share a plan."""
    given = {key.lower(): value for key, value in create.options}
    return given.get(WHOLE, "false").lower() != "false"


def write(sink: Sink, table: pa.Table, batch: int) -> list[BaseException]:
    """Write changes to a sink, even if empty, since earlier ones may wait.

    Return what it raised.
    """
    try:
        sink.write(table, batch)
    except (PenstockError, KeyboardInterrupt) as error:  # the other sinks must get the changes
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
        """Add a sink that has been opened."""
        self._named[create.name] = (create, sink)

    def fed(self) -> Collection[tuple[CreateSink, Sink]]:
        """The sinks that receive their changes from this session."""
        return self._named.values() if self._fed else ()

    def waiting(self) -> list[tuple[CreateSink, WaitingSink]]:
        """The sinks that this session writes itself and that may hold changes back."""
        sinks = self._named.values()
        return [(create, sink) for create, sink in sinks if isinstance(sink, WaitingSink)]

    def drop(self, name: str) -> None:
        """Close a sink for good; raise an error if it still cannot write waiting changes."""
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
        """Write the changes that wait in sinks.

        Return errors for those that still cannot be written.
        """
        errors: list[PenstockError] = []
        for _, sink in self.waiting():
            try:
                sink.catch_up()
            except PenstockError as error:
                errors.append(error)
        return errors

    def close(self) -> None:
        """Close all sinks, then raise an error if some changes could not be written."""
        errors: list[PenstockError] = []
        while self._named:
            _, (_, sink) = self._named.popitem()
            try:
                sink.close()
            except PenstockError as error:
                errors.append(error)
        if errors:
            raise errors[0]
