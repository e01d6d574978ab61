"""Streams with a source on Spark: declared, paused, read again, dropped.

The job keeps what Spark knows of them (`spark/source_set.py`). When a former process
declared a stream it is not opened here: a source that is bad by now is paused when the job starts.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.spark.sources import Source, open_source
from penstock.sql import statements as st
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark

FRAME = "dataframe"
"""The format of a stream whose rows come from a DataFrame of the user's."""
_LOOK_S = 1.0


def declare(session: OnSpark, stream: StreamDef) -> None:
    """Have the job read the source of a stream."""
    if stream.format is None:
        return
    if stream.format.lower() != FRAME:
        plain = replace(stream, options=session._vault.plain(stream.options))
        session._frames[stream.name] = open_source(session._spark, plain, session._restoring)
    if stream.name in session._frames:
        add(session, stream.name, session._frames[stream.name])


def add(session: OnSpark, stream: str, source: Source) -> None:
    """Read a source, from the entry on that declares its stream."""
    loaded = session._restoring and not session._repeated
    session._spark_job.sources.add(stream, source, 0 if loaded else session._number)


def execute(session: OnSpark, statement: st.Statement) -> None:
    """What a statement that was run means for the sources."""
    number = session._repeated or session._spark_job.next_entry - 1
    match statement:
        case st.CreateStream() if statement.name in session._meters:
            meter = session._meters[statement.name]
            meter.since = meter.since or number
        case st.Drop(kind="STREAM"):
            dropped = _dropped(session, statement.name)
            if dropped is not None:
                del session._frames[dropped]
                session._spark_job.sources.drop(dropped, number)


def _dropped(session: OnSpark, name: str) -> str | None:
    """The stream that is no longer in the catalogue, as it was declared."""
    gone = (s for s in session._frames if s.lower() == name.lower() and s not in session._meters)
    return next(gone, None)


def check(session: OnSpark, statement: st.Statement) -> None:
    """Refuse to drop a stream whose source the job cannot do without."""
    if isinstance(statement, st.Drop) and statement.kind == "STREAM":
        found = session._catalog.relation(statement.name)
        if isinstance(found, StreamDef) and found.name in session._frames:
            session._spark_job.sources.check_drop(found.name)


def pause(session: OnSpark, stream: str, paused: bool) -> None:
    """Read no more of a source, or read it again."""
    if paused:
        session._spark_job.sources.pause(stream)
    else:
        session._spark_job.sources.resume(stream)


def pause_again(session: OnSpark) -> None:
    """What the user paused in a former process stays so."""
    for name, meter in session._meters.items():
        if meter.source.is_off:  # also one that waits for its DataFrame
            session._spark_job.sources.pause(name)


class Retrying:
    """Looks now and then, in a thread, whether a source that failed can be read again."""

    def __init__(self, session: OnSpark) -> None:
        self._session = session
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._session._spark_job.sources.retry()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
