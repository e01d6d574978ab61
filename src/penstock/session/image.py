"""The driver's part of a checkpoint: the session as of an entry of its log, in one file.

The shards' state is in Spark's store; here are the catalogue, tables, Q and the books of the
session. What came after the entry is repeated from the log.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.arrays import I64
from penstock.eddy.eddy import Routing
from penstock.errors import StateError
from penstock.queries.registry import Group
from penstock.roomy import roomy
from penstock.session import registration, snapshot
from penstock.session.directory import writing
from penstock.session.inbox import Leaving
from penstock.session.placement import Deployed
from penstock.session.readers import Readers
from penstock.shards.entries import Deploy
from penstock.spark.pickling import dumps
from penstock.sql.catalog import StreamDef
from penstock.sql.statements import CreateSink
from penstock.state.sealed import damaged, read_sealed, write_sealed

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark

_FILE = "session.pickle"


@dataclass(frozen=True, slots=True)
class Image:
    """Everything the driver knows."""

    version: str
    entry: int
    batch: int  # the last one whose results are in the books
    last_rows: int
    routing: Routing
    arrays: dict[str, Any]
    relations: dict[str, Any]
    udfs: dict[str, Any]
    registry: Any
    meters: dict[str, Any]
    sinks: list[CreateSink]
    deployed: dict[int, Deploy]
    retired: list[tuple[int, Deploy]]
    leaving: list[tuple[int, Group, I64]]  # entry, and places in a group


def save(session: OnSpark, directory: Path) -> int:
    """Write the image, all or nothing; the entry it stands for."""
    made = Image(
        __version__,
        session._job.next_entry - 1,
        session._received,
        session._last_rows,
        session._engine.flows.routing,
        session._engine.arena.snapshot(),
        session._catalog.relations,
        session._catalog.udfs,
        session._registry,
        session._meters,
        [create for create, _ in session._sinks.values()],
        dict(session._deployed),
        session._retired,
        [(gone.entry, gone.readers.group, gone.places) for gone in session._leaving],
    )
    data = dumps(made)
    with writing(directory):
        write_sealed(directory / _FILE, data)
    return made.entry


@roomy
def load(session: OnSpark, directory: Path, first: int) -> int:
    """Make an empty session what the image says; the entry it stands for, 0 without one.

    `first` is the first entry of the log: what was before it is in the image only.
    """
    path = directory / _FILE
    if not path.exists():
        if first > 1:
            raise damaged(path, "it is missing")
        return 0
    image = _read(path)
    session._last_rows, session._received = image.last_rows, image.batch
    session._engine.flows.routing = image.routing
    session._catalog.relations.update(image.relations)
    session._catalog.udfs.update(image.udfs)
    session._registry = image.registry
    session._meters = image.meters
    for meter in session._meters.values():
        meter.last_push = meter.last_tick = time.time_ns() // 1000
    for relation in image.relations.values():
        if isinstance(relation, StreamDef):
            session._declare(relation)
    session._engine.apply(snapshot.build_blocks(session, image.arrays))
    session._engine.arena.restore(image.arrays)
    session._deployed, session._retired = Deployed(image.deployed), image.retired
    for info in image.registry.templates.values():
        session._changelogs[info.key] = log = registration.new_log(session, info)
        for group in session._registry.of_template(info.key):  # who read what comes from now on
            session._readers[group.number] = Readers.of(group, log)
    for create in image.sinks:
        session._sinks[create.name] = (create, session._open_sink(create))
    _take_leave(session, image)
    return image.entry


def _take_leave(session: OnSpark, image: Image) -> None:
    """Queries whose drop may not have been run yet: their numbers stay taken until it is."""
    for entry, group, places in image.leaving:
        log = session._changelogs.get(group.template)
        if log is not None:
            readers = session._readers.get(group.number) or Readers.of(group, log)
            session._leaving.append(Leaving(entry, readers, places))


def _read(path: Path) -> Image:
    data = read_sealed(path)
    try:
        found = pickle.loads(data)
    except Exception as error:  # whole, but of functions or classes that are not here
        raise damaged(path, str(error)) from error
    if not isinstance(found, Image):
        raise damaged(path, "it does not hold a session")
    if found.version != __version__:
        raise StateError(
            f"the state was written by version {found.version}; this is {__version__}",
            code="PS-STATE-002",
            remedy="open it with that version, or start from an empty checkpoint",
        )
    return found
