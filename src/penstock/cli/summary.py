"""The summary at the end of a run, also after Ctrl-C or SIGTERM; the same on every runner."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.output import plural
from penstock.errors import PenstockError
from penstock.secret import masked
from penstock.session import Query
from penstock.sql.statements import CreateSink

if TYPE_CHECKING:
    from penstock.cli.app import App

_MOST = 20  # sinks and failed queries in the summary


@dataclass(slots=True)
class Summary:
    """Counts of the batches of this run, and the files that its sinks had before."""

    batches: int = 0
    changes: int = 0
    _before: dict[str, set[str]] = field(default_factory=dict)

    def count(self, record: dict[str, Any]) -> None:
        """Add the record of a batch."""
        self.batches += record["rows_in"] > 0
        self.changes += record["changes_out"]

    def look(self, sinks: Iterable[CreateSink]) -> None:
        """Record the files that exist before the run."""
        self._before = {sink.name: _files(_path(sink)) for sink in sinks}

    def tell(self, app: App, console: Console, stopped: bool) -> None:
        """Rows in and kept out, changes, and what the sinks have written."""

        def say(text: str, style: str = "dim") -> None:
            console.print(masked(text), style=style, highlight=False, soft_wrap=True, markup=False)

        if stopped:
            say("stopped early: the answers do not include the rows that were not read")
        for stream, row in app.session.stats()["streams"].items():
            why = _reason(app, stream) if row["quarantined"] else ""
            say(f"{stream}: {plural(row['received'], 'row')}{_kept_out(row)}{why}{_paused(row)}")
        say(
            f"{plural(self.changes, 'change')} of {plural(len(app.queries), 'query', 'queries')} "
            f"in {plural(self.batches, 'batch', 'batches')}"
        )
        for sink in app.sinks[:_MOST]:
            say(f"sink {sink.name}: {self._written(sink)}")
        if len(app.sinks) > _MOST:
            say(f"and {plural(len(app.sinks) - _MOST, 'sink')} more")
        failed = [query for query in app.queries if query.status == "failed"]
        for query in failed[:_MOST]:
            say(_why_failed(query), "red")
        if len(failed) > _MOST:
            say(f"and {len(failed) - _MOST:,} more queries failed", "red")

    def _written(self, sink: CreateSink) -> str:
        path = _path(sink)
        if not path or "://" in path:
            return f"{sink.format} {path}".rstrip()
        new = _files(path) - self._before.get(sink.name, set())
        return f"{plural(len(new), 'file')} of {sink.format} in {path}"


def _kept_out(row: dict[str, Any]) -> str:
    if not row["late"] + row["quarantined"]:
        return ""
    return f" ({row['late']:,} late, {row['quarantined']:,} quarantined)"


def _reason(app: App, stream: str) -> str:
    """The reason of the last quarantined row."""
    reasons = app.session.quarantine(stream)["_reason"]
    return f"; the last one: {reasons[-1].as_py()}" if len(reasons) else ""


def _why_failed(query: Query) -> str:
    try:
        query.view()
    except PenstockError as error:
        return f"[{error.code}] {error.message}; {error.remedy}"
    return f"{query.name}: failed"


def _paused(row: dict[str, Any]) -> str:
    source = row["source"] or ""
    return f"; its source is {source}" if source.startswith("paused") else ""


def _path(sink: CreateSink) -> str:
    path = next((value for key, value in sink.options if key.lower() == "path"), "")
    return path.removeprefix("file://").removeprefix("file:")


def _files(path: str) -> set[str]:
    """The files of a directory that a sink has finished."""
    with suppress(OSError):
        return {name for name in os.listdir(path) if name[0] not in "._"}
    return set()


def tell_if_possible(summary: Summary, app: App, console: Console, stopped: bool) -> None:
    """Print the summary; the error of a failed job is shown elsewhere."""
    with suppress(PenstockError):
        summary.tell(app, console, stopped)
