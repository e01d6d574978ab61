"""Streams with a source on Spark: declared, paused, resumed, dropped.

The job keeps what Spark knows of them (`spark/source_set.py`). Streams declared by a former process
are not opened here: if a source cannot be read by now, it is paused when the job starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.errors import DataError
from penstock.session.calls import LoggedCalls
from penstock.session.catalog import SessionCatalog
from penstock.session.vault import Vault
from penstock.spark.job import SparkJob
from penstock.spark.sources import Source, checked_frame, frame_columns, open_source
from penstock.sql import statements as st
from penstock.sql.catalog import StreamDef

FRAME = "dataframe"
"""The format of a stream that reads a user's DataFrame."""
_LOOK_S = 1.0


def is_external(catalog: SessionCatalog, stream: str) -> bool:
    """Whether rows of a stream bypass the session, so that only log entries order them."""
    found = catalog.relation(stream)
    return isinstance(found, StreamDef) and found.format is not None


class SparkSources:
    """The sources that a job reads on Spark.

    While the image of a former process is loaded (`restoring`), sources are not opened.
    """

    def __init__(
        self, spark: Any, job: SparkJob, catalog: SessionCatalog, vault: Vault, calls: LoggedCalls
    ) -> None:
        self.frames: dict[str, Source] = {}
        self.restoring = False
        self._spark, self._job, self._catalog = spark, job, catalog
        self._vault, self._calls = vault, calls

    # ---- what statements ask ---------------------------------------------------------
    def declare(self, stream: StreamDef) -> None:
        """Let the job read the source of a stream."""
        if stream.format is None:
            return
        if stream.format.lower() != FRAME:
            plain = replace(stream, options=self._vault.plain(stream.options))
            self.frames[stream.name] = open_source(self._spark, plain, self.restoring)
        if stream.name in self.frames:
            self._add(stream.name)

    def _add(self, stream: str) -> None:
        """Read a source from the log entry on that declares its stream."""
        loaded = self.restoring and not self._calls.is_repeating
        self._job.sources.add(stream, self.frames[stream], 0 if loaded else self._calls.number)

    def check(self, statement: st.Statement) -> None:
        """Raise an error for dropping a stream with a source that the job still needs."""
        if isinstance(statement, st.Drop) and statement.kind == "STREAM":
            found = self._catalog.relation(statement.name)
            if isinstance(found, StreamDef) and found.name in self.frames:
                self._job.sources.check_drop(found.name)

    def executed(self, statement: st.Statement) -> None:
        """Apply a statement that has run to the sources."""
        number, meters = self._calls.last_number, self._catalog.meters
        match statement:
            case st.CreateStream() if statement.name in meters:
                meters[statement.name].since = meters[statement.name].since or number
            case st.Drop(kind="STREAM"):
                dropped = self._dropped(statement.name)
                if dropped is not None:
                    del self.frames[dropped]
                    self._job.sources.drop(dropped, number)

    def _dropped(self, name: str) -> str | None:
        """The stream that is no longer in the catalog, as it was declared."""
        meters = self._catalog.meters
        gone = (s for s in self.frames if s.lower() == name.lower() and s not in meters)
        return next(gone, None)

    def pause(self, stream: str, paused: bool) -> None:
        """Pause a source, or read it again."""
        if paused:
            self._job.sources.pause(stream)
        else:
            self._job.sources.resume(stream)

    def pause_again(self) -> None:
        """Pause the sources that the user had paused in a former process."""
        for name, meter in self._catalog.meters.items():
            if meter.source.is_off:  # including one that waits for its DataFrame
                self._job.sources.pause(name)

    # ---- what is known of streams ----------------------------------------------------
    def why_paused(self, stream: str) -> str:
        """Why the source of a stream is not read; empty if it is read."""
        return self._job.sources.paused.get(stream, "")

    def has_rows(self, stream: str) -> bool:
        """Whether a stream may have brought rows; those of a running batch do not count."""
        return self._catalog.meters[stream].accepted > 0 or self.unseen(stream) is not None

    def unseen(self, stream: str) -> int | None:
        """The log entry that must have run before this process knows the stream's time."""
        external = is_external(self._catalog, stream)
        return self._calls.number if external and self._job.running else None

    def check_push(self, stream: StreamDef) -> None:
        """Raise an error if rows may not be pushed to a stream because it has another source."""
        if stream.format is not None:
            raise DataError(
                f"stream {stream.name} reads its rows from {stream.format}: push() cannot add any",
                code="PS-DATA-010",
                remedy="declare the stream without FROM to push its rows",
            )

    def add_frame(
        self, name: str, frame: Any, clauses: dict[str, Any], sql: Callable[[str], Any]
    ) -> None:
        """Declare a stream that reads a streaming DataFrame.

        After a restart, give it its frame again.
        """
        self.frames[name] = Source(checked_frame(frame, name))
        known = self._catalog.relation(name)
        if isinstance(known, StreamDef) and known.format == FRAME:
            self._add(name)
            return
        columns = ", ".join(f'"{c}" {t}' for c, t in frame_columns(frame, name))
        time = clauses.pop("time", None)
        if time is None:
            raise DataError(
                f"stream {name} needs a time column", code="PS-DATA-014", remedy='pass time="ts"'
            )
        rest = " ".join(f"{k.replace('_', ' ').upper()} {v}" for k, v in clauses.items())
        sql(f'CREATE STREAM {name} ({columns}) TIMESTAMP BY "{time}" {rest} FROM {FRAME}')


class Retrying:
    """A thread that regularly tries to read failed sources again."""

    def __init__(self, retry: Callable[[], None]) -> None:
        self._retry = retry
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._retry()

    def end(self) -> None:
        """Stop the thread."""
        self._over.set()
