"""Handing on what a step brought: changelogs, failures, subscribers and sinks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.changes import Changes, concat_changes
from penstock.engine import blocks as b
from penstock.errors import DataError, PenstockError
from penstock.files.sinks import Sink
from penstock.session.changelog import ChangeBatch, Changelog, label
from penstock.session.query import Callback
from penstock.session.readers import Readers, all_of_batch
from penstock.sql.statements import CreateSink

if TYPE_CHECKING:
    from penstock.session.session import Session

WHOLE = "whole_template"
"""Option of a sink that takes the changes of all queries that share a plan."""


def publish(session: Session, output: b.Output) -> None:
    """Keep the changes of a step, tell who listens, and note the queries that failed."""
    touched: dict[int, list[Changes]] = {}
    for key, changes in output.changes:
        if len(changes):
            touched.setdefault(key, []).append(changes)
    for key, parts in sorted(touched.items()):
        log, strings = session._changelogs[key], session._engine.strings
        log.add(output.batch, concat_changes(parts), strings)
    with keeping(session):
        errors = deliver(session, output.batch, touched)
    for failure in output.failures:
        _fail(session, failure)
    session._engine.collect_strings()
    if errors:
        raise gravest(errors)


def gravest(errors: list[BaseException]) -> BaseException:
    """What to raise: what ends the program, if there is that, else the first error."""
    return next((error for error in errors if not isinstance(error, Exception)), errors[0])


@contextmanager
def keeping(session: Session) -> Iterator[None]:
    """Keep what subscribers read of a batch until all have it: sinks, views, other subscribers."""
    around, session._read_early = session._read_early, []  # a subscriber may push
    try:
        yield
    finally:
        read, session._read_early = session._read_early or [], around
        for log in read:
            let_go(session, log)


def let_go(session: Session, log: Changelog) -> None:
    """Forget the changes that every reader has read, now or when the batch is delivered."""
    if session._read_early is None:
        log.forget()
    else:
        session._read_early.append(log)


def _fail(session: Session, failure: b.Failure) -> None:
    """The queries that a row of Q served have failed."""
    template = session._registry.templates[failure.template]
    members = session._registry.members(failure.template, np.array([failure.qid]))
    for group, places in members:
        session._readers[group.number].leave(places)
        session._leave(template, group.qids[places])
    session._registry.fail(members, failure.reason)


def deliver(session: Session, batch: int, touched: Collection[int]) -> list[BaseException]:
    """Changes of this step to every subscriber and sink; what went wrong there."""
    errors: list[BaseException] = []
    for name in sorted(session._subscribers):
        info = session._registry.find(name)
        if info is not None and info.template in touched:
            log = session._changelogs[info.template]
            errors += tell(session, name, of_batch(log, info.qid, name, batch))
    for create, sink in session._fed_sinks() if touched else ():
        errors += write(sink, _for_sink(session, create, batch, touched), batch)
    for readers, callback in session._listeners:
        if readers.template not in touched:
            continue
        errors += call(callback, readers.of_batch(batch), f"{len(readers)} queries")
    return errors


def _for_sink(
    session: Session, create: CreateSink, batch: int, touched: Collection[int]
) -> pa.Table:
    """The changes of a batch that a sink gets; often none."""
    info = session._registry.find(create.view)
    if info is None or info.template not in touched:
        return pa.table({})
    log = session._changelogs[info.template]
    return (
        all_of_batch(log, batch) if is_whole(create) else of_batch(log, info.qid, info.name, batch)
    )


def is_whole(create: CreateSink) -> bool:
    """Whether a sink takes the changes of all queries that share a plan."""
    given = {key.lower(): value for key, value in create.options}
    return given.get(WHOLE, "false").lower() != "false"


def own_options(session: Session, create: CreateSink, again: bool = False) -> dict[str, str]:
    """The options that are for the sink itself, secrets included; `mode` is for the first time."""
    others = (WHOLE, "mode") if again else (WHOLE,)
    options = session._vault.plain(create.options)
    return {key: value for key, value in options if key.lower() not in others}


def of_batch(log: Changelog, qid: int, name: str, batch: int) -> pa.Table:
    """The changes of a query in the last batch."""
    parts = [b.of(qid) for b in log.of_number(batch)]
    return label(parts, name, log.columns(many=False))


def write(sink: Sink, table: pa.Table, batch: int) -> list[BaseException]:
    """Hand changes to a sink, also none: others may wait there; what it could not do."""
    try:
        sink.write(table, batch)
    except (PenstockError, KeyboardInterrupt) as error:  # one sink must not starve the others
        return [error]
    return []


def close_sinks(session: Session) -> None:
    """Close all sinks; then say what could not be written."""
    errors: list[PenstockError] = []
    while session._sinks:
        _, (_, sink) = session._sinks.popitem()
        try:
            sink.close()
        except PenstockError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def drop_sink(session: Session, name: str) -> None:
    """Close a sink for good; say so if changes wait there that it still cannot take."""
    _, sink = session._sinks.pop(name)
    try:
        sink.close()
    except PenstockError as error:
        raise DataError(
            f"sink {name} was dropped with unwritten changes, which are lost: {error.message}",
            code=error.code,
            remedy="the view is unaffected; a new sink gets the changes from now on",
        ) from error


def tell(session: Session, name: str, table: pa.Table) -> list[BaseException]:
    """Call every subscriber of a query; what they raised."""
    calls = session._subscribers.get(name, [])
    return [error for callback in calls for error in call(callback, table, name)]


def deliver_apart(session: Session, parts: list[tuple[Readers, ChangeBatch]]) -> None:
    """Changes of one template and batch that are not in its changelog, by reader."""
    parts = [(readers, batch) for readers, batch in parts if batch.table.num_rows]
    errors: list[BaseException] = []
    for readers, batch in parts:
        readers.put_aside(batch)
        errors += _tell_batch(session, readers, batch)
    for create, sink in session._fed_sinks() if parts else ():
        info = session._registry.find(create.view)
        if info is not None and info.template == parts[0][0].template and is_whole(create):
            tables = [readers.label([batch]) for readers, batch in parts]
            errors += write(sink, pa.concat_tables(tables), parts[0][1].number)
    if errors:
        raise gravest(errors)


def _tell_batch(session: Session, readers: Readers, batch: ChangeBatch) -> list[BaseException]:
    """Tell changes to who listens to their readers; what they raised."""
    errors: list[BaseException] = []
    for at in np.unique(batch.owners).tolist():
        if readers.names[at] in session._subscribers:
            name = readers.names[at]
            table = label([batch.of(at)], name, readers.log.columns(many=False))
            errors += tell(session, name, table)
    for listening, callback in session._listeners:
        if listening is readers:
            errors += call(callback, readers.label([batch]), f"{len(readers)} queries")
    return errors


def let_listeners_go(session: Session) -> None:
    """Forget who listens to nobody any more."""
    session._listeners = [pair for pair in session._listeners if pair[0].there]


def _in_main_thread() -> bool:
    """Whether Ctrl-C and sys.exit() end the program here."""
    return threading.current_thread() is threading.main_thread()


def call(callback: Callback, table: pa.Table, name: str) -> list[BaseException]:
    """Hand changes to a subscriber, if there are any; what it raised.

    Ctrl-C or sys.exit() there ends the program, but not before the others have the changes.
    """
    try:
        if table.num_rows:
            callback(table)
    except BaseException as error:  # one subscriber must not starve the others
        if not isinstance(error, Exception) and _in_main_thread():
            return [error]  # elsewhere it would end a thread of Spark's, not the program
        said = PenstockError(
            f"a subscriber of {name} raised {error!r}; the batch was applied",
            code="PS-RUN-002",
            remedy="correct the function given to subscribe()",
        )
        said.__cause__ = error
        return [said]
    return []
