"""The driver's part of a checkpoint: the session as of a log entry, in one file.

The shards' state is in Spark's store. This file has the catalog, tables, Q and the books of the
session. After a restart, the log entries that follow the image are repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.arrays import I64
from penstock.eddy.settings import Settings
from penstock.engine import blocks as b
from penstock.errors import StateError
from penstock.queries.registry import Group
from penstock.roomy import roomy
from penstock.session import snapshot
from penstock.session.books import Books
from penstock.session.calls import LoggedCalls
from penstock.session.directory import writing
from penstock.session.leaving import Leaving, LeavingQueries
from penstock.session.readers import Readers
from penstock.session.runners.shard_steps import ShardSteps
from penstock.session.snapshot import OpenSink
from penstock.spark.pickling import dumps
from penstock.sql.catalog import StreamDef
from penstock.sql.statements import CreateSink
from penstock.state.sealed import damaged, read_object, write_sealed

_FILE = "session.pickle"
Declare = Callable[[StreamDef], None]
"""Lets the job read the source of a stream."""


@dataclass(frozen=True, slots=True)
class Image:
    """Everything that the driver knows."""

    version: str
    entry: int
    batch: int  # the last batch with results in the books
    last_rows: int
    settings: Settings
    arrays: dict[str, Any]
    relations: dict[str, Any]
    udfs: dict[str, Any]
    registry: Any
    meters: dict[str, Any]
    sinks: list[CreateSink]
    deployed: dict[int, b.AddTemplate]
    retired: list[tuple[int, b.AddTemplate]]
    leaving: list[tuple[int, Group, I64]]  # entry, and places in a group


@dataclass(slots=True)
class Driven:
    """The parts of the driver that an image saves beside the books: steps, calls, leaving queries.

    `received` is the last batch with results in the books.
    """

    books: Books
    steps: ShardSteps
    calls: LoggedCalls
    leaving: LeavingQueries
    received: int = 0


def save(driven: Driven, directory: Path, entry: int) -> None:
    """Write the image as of a log entry; a reader sees all of it or the former one."""
    books, steps = driven.books, driven.steps
    made = Image(
        __version__,
        entry,
        driven.received,
        driven.calls.last_rows,
        books.engine.flows.settings,
        books.engine.arena.snapshot(),
        books.catalog.relations,
        books.catalog.udfs,
        books.queries.registry,
        books.catalog.meters,
        books.delivery.sinks.statements(),
        dict(steps.deployed),
        steps.retired,
        [(gone.entry, gone.readers.group, gone.places) for gone in driven.leaving.all()],
    )
    data = dumps(made)
    with writing(directory):
        write_sealed(directory / _FILE, data)


@roomy
def load(driven: Driven, directory: Path, first: int, declare: Declare, open_sink: OpenSink) -> int:
    """Fill empty books from the image and return its log entry; 0 without an image.

    `first` is the first entry of the log; only the image has what earlier entries did.
    """
    path = directory / _FILE
    if not path.exists():
        if first > 1:
            raise damaged(path, "it is missing")
        return 0
    image, books = _read(path), driven.books
    driven.calls.last_rows, driven.received = image.last_rows, image.batch
    books.engine.flows.settings = image.settings
    books.catalog.relations.update(image.relations)
    books.catalog.udfs.update(image.udfs)
    books.queries.registry = image.registry
    books.catalog.meters = image.meters
    for meter in books.catalog.meters.values():
        meter.last_push = meter.last_tick = time.time_ns() // 1000
    for stream in books.catalog.streams():
        declare(stream)
    books.engine.apply(snapshot.build_blocks(books, image.arrays))
    books.engine.arena.restore(image.arrays)
    driven.steps.put_back(image.deployed, image.retired)
    for info in image.registry.templates.values():
        books.delivery.open_log(info)
        for group in image.registry.of_template(info.key):  # they read changes from now on
            books.delivery.read_from_now(group)
    for create in image.sinks:
        books.delivery.sinks.add(create, open_sink(create, True))
    _take_leave(driven, image)
    return image.entry


def _take_leave(driven: Driven, image: Image) -> None:
    """Keep the numbers of dropped queries reserved until the shards have run the drop."""
    delivery = driven.books.delivery
    for entry, group, places in image.leaving:
        log = delivery.logs.get(group.template)
        if log is not None:
            readers = delivery.readers.get(group.number) or Readers.of(group, log)
            driven.leaving.add(Leaving(entry, readers, places))


def _read(path: Path) -> Image:
    found = read_object(path, Image, "session")
    if found.version != __version__:
        raise StateError(
            f"the state was written by version {found.version}; this is {__version__}",
            code="PS-STATE-002",
            remedy="open it with that version, or start from an empty checkpoint",
        )
    return found
