"""Snapshots: a session as one value, and as a file in a checkpoint directory.

The engine's state is its arena; the rest is the catalogue and what readers have seen. Restoring
builds the same operators again and puts the arrays back.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import __version__
from penstock.engine import blocks as b
from penstock.errors import PenstockError, StateError
from penstock.inprocess.waiting_sink import Waiting, WaitingSink
from penstock.logical.udf import Udf
from penstock.roomy import roomy
from penstock.session import registration
from penstock.session.directory import writing
from penstock.session.readers import Readers
from penstock.sql.catalog import StreamDef, TableDef
from penstock.sql.statements import CreateSink
from penstock.state.private import make_private
from penstock.state.sealed import damaged, read_sealed, write_sealed

if TYPE_CHECKING:
    from penstock.session.session import Session

_FILE = "session.pickle"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a session is made of."""

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
def take(session: Session) -> Snapshot:
    """A copy of the session as it is between two calls."""
    state = Snapshot(
        __version__,
        session._engine.arena.snapshot(),
        session._catalog.relations,
        session._catalog.udfs,
        session._registry,
        session._changelogs,
        session._meters,
        [create for create, _ in session._sinks.values()],
        session._readers,
        {create.name: sink.waiting for create, sink in _waiting(session) if sink.waiting},
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
def put_back(session: Session, snapshot: Snapshot) -> None:
    """Make an empty session what the snapshot says."""
    if snapshot.version != __version__:
        raise StateError(
            f"the state was written by version {snapshot.version}; this is {__version__}",
            code="PS-STATE-002",
            remedy="open it with that version, or start from an empty checkpoint",
        )
    snapshot = pickle.loads(pickle.dumps(snapshot))
    session._catalog.relations.update(snapshot.relations)
    session._catalog.udfs.update(snapshot.udfs)
    session._registry = snapshot.registry
    session._changelogs = snapshot.changelogs
    session._meters = snapshot.meters
    for meter in session._meters.values():
        meter.last_push = time.time_ns() // 1000  # nobody was there to bring anything
    session._engine.apply(build_blocks(session, snapshot.arrays))
    session._engine.arena.restore(snapshot.arrays)
    session._readers = snapshot.readers
    for create in snapshot.sinks:
        session._sinks[create.name] = (create, session._open_sink(create, again=True))
    for create, sink in _waiting(session):
        sink.take(snapshot.waiting.get(create.name, ()))


def build_blocks(session: Session, arrays: dict[str, Any]) -> list[b.Block]:
    """What makes an engine with the same operators; templates of failed queries have no state."""
    blocks: list[b.Block] = [b.AddUdf(udf) for udf in session._catalog.udfs.values()]
    for relation in session._catalog.relations.values():
        if isinstance(relation, StreamDef):
            blocks.append(b.AddStream(relation.name, relation.schema, relation.retain or 0))
        elif isinstance(relation, TableDef):
            blocks.append(b.AddTable(relation.name, relation.schema))
    for info in session._registry.templates.values():
        if f"templates/{info.key}/clock" not in arrays:
            continue
        blocks.append(registration.template_block(info))
    return blocks


def settle(session: Session, directory: Path | None) -> None:
    """Write what sinks could not take, and the checkpoint if there is one; say what still waits."""
    errors: list[PenstockError] = []
    for _, sink in _waiting(session):
        try:
            sink.catch_up()
        except PenstockError as error:
            errors.append(error)
    if directory is not None:
        save(session, directory)
    if errors:
        raise errors[0]


def _waiting(session: Session) -> list[tuple[CreateSink, WaitingSink]]:
    """The sinks that this session writes itself."""
    sinks = session._sinks.values()
    return [(create, sink) for create, sink in sinks if isinstance(sink, WaitingSink)]


@roomy
def save(session: Session, directory: Path) -> None:
    """Write the session into a checkpoint directory, all or nothing."""
    data = pickle.dumps(take(session))
    with writing(directory):
        make_private(directory, (_FILE,))
        write_sealed(directory / _FILE, data)


@roomy
def load(directory: Path) -> Snapshot | None:
    """The saved session of a checkpoint directory, None when there is none."""
    path = directory / _FILE
    if not path.exists():
        return None
    data = read_sealed(path)
    try:
        found = pickle.loads(data)
    except Exception as error:  # whole, but of functions or classes that are not here
        raise damaged(path, str(error)) from error
    if not isinstance(found, Snapshot):
        raise damaged(path, "it does not hold a session")
    return found
