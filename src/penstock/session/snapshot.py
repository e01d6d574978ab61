"""Snapshots: a session as one value, or as a file in a checkpoint directory.

The engine's state is its arena; the rest is the catalog and the positions of readers. Restoring a
snapshot builds the same operators again and puts the arrays back.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.engine import blocks as b
from penstock.errors import StateError
from penstock.files.sinks import Sink
from penstock.inprocess.waiting_sink import Waiting
from penstock.logical.udf import Udf
from penstock.roomy import roomy
from penstock.session.books import Books
from penstock.session.directory import writing
from penstock.session.readers import Readers
from penstock.session.templates import template_block
from penstock.sql.catalog import StreamDef, TableDef
from penstock.sql.statements import CreateSink
from penstock.state.private import make_private
from penstock.state.sealed import read_object, write_sealed

_FILE = "session.pickle"
OpenSink = Callable[[CreateSink, bool], Sink]
"""Opens a sink; if the flag is true, the sink continues after what it has written."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All data of a session."""

    version: str
    arrays: dict[str, Any]
    relations: dict[str, Any]
    udfs: dict[str, Udf]
    registry: Any
    changelogs: dict[int, Any]
    meters: dict[str, Any]
    sinks: list[Any]
    readers: dict[int, Readers]
    waiting: dict[str, Waiting]  # by sink


@roomy
def take(books: Books) -> Snapshot:
    """Copy the session as it is between two calls."""
    sinks = books.delivery.sinks
    state = Snapshot(
        __version__,
        books.engine.arena.snapshot(),
        books.catalog.relations,
        books.catalog.udfs,
        books.queries.registry,
        books.delivery.logs,
        books.catalog.meters,
        sinks.statements(),
        books.delivery.readers,
        {create.name: sink.waiting for create, sink in sinks.waiting() if sink.waiting},
    )
    try:
        copy: Snapshot = pickle.loads(pickle.dumps(state))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StateError(
            f"the session cannot be saved: {error}",
            code="PS-STATE-012",
            remedy="define user-defined functions at the top level of a module",
        ) from error
    return copy


@roomy
def put_back(books: Books, snapshot: Snapshot, open_sink: OpenSink) -> None:
    """Fill empty books from a snapshot."""
    if snapshot.version != __version__:
        raise StateError(
            f"the state was written by version {snapshot.version}; this is {__version__}",
            code="PS-STATE-002",
            remedy="open it with that version, or start from an empty checkpoint",
        )
    snapshot = pickle.loads(pickle.dumps(snapshot))
    books.catalog.relations.update(snapshot.relations)
    books.catalog.udfs.update(snapshot.udfs)
    books.queries.registry = snapshot.registry
    books.delivery.logs = snapshot.changelogs
    books.catalog.meters = snapshot.meters
    for meter in books.catalog.meters.values():
        meter.last_push = time.time_ns() // 1000  # being closed is not silence
    books.engine.apply(build_blocks(books, snapshot.arrays))
    books.engine.arena.restore(snapshot.arrays)
    books.delivery.readers = snapshot.readers
    sinks = books.delivery.sinks
    for create in snapshot.sinks:
        sinks.add(create, open_sink(create, True))
    for create, sink in sinks.waiting():
        sink.take(snapshot.waiting.get(create.name, ()))


def build_blocks(books: Books, arrays: dict[str, Any]) -> list[b.Block]:
    """Blocks that rebuild an engine with the same operators; failed queries have no state."""
    blocks: list[b.Block] = [b.AddUdf(udf) for udf in books.catalog.udfs.values()]
    for relation in books.catalog.relations.values():
        if isinstance(relation, StreamDef):
            blocks.append(b.AddStream(relation.name, relation.schema, relation.retain or 0))
        elif isinstance(relation, TableDef):
            blocks.append(b.AddTable(relation.name, relation.schema))
    for info in books.queries.registry.templates.values():
        if f"templates/{info.key}/clock" not in arrays:
            continue
        blocks.append(template_block(info))
    return blocks


def settle(books: Books, directory: Path | None) -> None:
    """Write waiting changes of sinks and the checkpoint, if there is one.

    Raise what still waits.
    """
    errors = books.delivery.sinks.catch_up()
    if directory is not None:
        save(books, directory)
    if errors:
        raise errors[0]


@roomy
def save(books: Books, directory: Path) -> None:
    """Write the session into a checkpoint directory; a reader sees all of it or the former one."""
    data = pickle.dumps(take(books))
    with writing(directory):
        make_private(directory, (_FILE,))
        write_sealed(directory / _FILE, data)


@roomy
def load(directory: Path) -> Snapshot | None:
    """The saved session of a checkpoint directory; None if there is none."""
    path = directory / _FILE
    if not path.exists():
        return None
    return read_object(path, Snapshot, "session")
