"""Handing on what a step brought: changelogs, failures, subscribers and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.engine import blocks as b
from penstock.errors import PenstockError
from penstock.session.changelog import Changelog

if TYPE_CHECKING:
    from penstock.session.session import Session


def publish(session: Session, output: b.Output) -> None:
    """Keep the changes of a step, tell who listens, and note the queries that failed."""
    for key, changes in output.changes:
        if len(changes):
            session._changelogs[key].add(output.batch, changes, session._engine.strings)
    touched = {key for key, changes in output.changes if len(changes)}
    errors = _deliver(session, output.batch, touched)
    for failure in output.failures:
        for name in session._registry.members(failure.template, failure.qid):
            handle = session._handles[name]
            handle._final = session._changes(handle)
        session._registry.fail(failure.template, failure.qid, failure.reason)
    session._engine.collect_strings()
    _complain(errors)


def hand_out(session: Session, batch: int, touched: set[int]) -> None:
    """Tell who listens to the templates that a batch changed."""
    _complain(_deliver(session, batch, touched))


def _complain(errors: list[tuple[str, Exception]]) -> None:
    if errors:
        raise PenstockError(
            f"a subscriber of {errors[0][0]} raised {errors[0][1]!r}; the rows were applied",
            code="PS-RUN-002",
            remedy="mend the function given to subscribe()",
        ) from errors[0][1]


def _deliver(session: Session, batch: int, touched: set[int]) -> list[tuple[str, Exception]]:
    """Changes of this step to every subscriber and sink; what subscribers raised."""
    errors: list[tuple[str, Exception]] = []
    sinks = [(create.view, sink) for create, sink in session._sinks.values()]
    listening = {*session._subscribers, *(view for view, _ in sinks)}
    for name in sorted(listening):
        info = session._registry.queries.get(name)
        if info is None or info.template not in touched:
            continue
        table = _fresh_changes(session, name, batch)
        if not table.num_rows:
            continue
        errors += tell(session, name, table)
        for view, sink in sinks:
            if view == name:
                sink.write(table, batch)
    return errors


def _fresh_changes(session: Session, name: str, batch: int) -> pa.Table:
    info = session._registry.queries[name]
    return of_batch(session._changelogs[info.template], info.qid, name, batch)


def of_batch(log: Changelog, qid: int, name: str, batch: int) -> pa.Table:
    """The changes of a query in the last batch."""
    start = log.end
    while start > log.first and log.batches[start - 1 - log.first].number == batch:
        start -= 1
    return log.read(qid, name, start)


def tell(session: Session, name: str, table: pa.Table) -> list[tuple[str, Exception]]:
    """Call every subscriber of a query; what they raised."""
    errors: list[tuple[str, Exception]] = []
    for callback in session._subscribers.get(name, []):
        try:
            callback(table)
        except Exception as error:  # one subscriber must not starve the others
            errors.append((name, error))
    return errors
