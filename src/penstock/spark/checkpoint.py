"""The checkpoint directory of a job: its identity, and the lock of its driver.

penstock.json   format, version, id, shards; external sources as of the last start
lock            held by the driver while it runs
log/            the session log
manifests/      what is fixed per batch
spark/          Spark's own checkpoint: offsets, commits, state
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock import __version__
from penstock.errors import StateError
from penstock.state.directory_lock import DirectoryLock
from penstock.state.private import make_private
from penstock.state.sealed import damaged

FORMAT = 9
"""Format number of the directory; a checkpoint of another format is refused."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The contents of penstock.json."""

    format: int
    penstock: str
    id: str
    shards: int
    sources: tuple[str, ...] | None  # None until the job is started
    by_name: bool = False  # whether Spark identifies sources by name, so that more can be added
    dropped: Mapping[str, int] = field(default_factory=dict)  # streams, by the entry of the drop


class Checkpoint:
    """An open checkpoint directory; temporary when none is given."""

    def __init__(self, directory: Path | None, shards: int) -> None:
        self.temporary = directory is None
        self.path = Path(tempfile.mkdtemp(prefix="penstock-")) if directory is None else directory
        try:
            make_private(self.path, ("penstock.json",))
            self._lock = DirectoryLock(self.path)
            try:
                self.identity = self._identify(shards)
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise self._cannot_hold(error) from error

    @property
    def log(self) -> Path:
        """The session log."""
        return self.path / "log"

    @property
    def manifests(self) -> Path:
        """Batch manifests."""
        return self.path / "manifests"

    @property
    def spark(self) -> Path:
        """Spark's checkpoint."""
        return self.path / "spark"

    def _identify(self, shards: int) -> Identity:
        path = self.path / "penstock.json"
        if not path.exists():
            if self.spark.exists() or self.log.exists():
                raise damaged(path, "it is missing")
            if (self.path / "session.pickle").exists():
                raise StateError(
                    f"{self.path} is a checkpoint of the in-process runner",
                    code="PS-STATE-013",
                    remedy='connect(runner="inprocess"), or use another directory',
                )
            made = Identity(FORMAT, __version__, uuid.uuid4().hex, shards, None)
            self._write(made)
            return made
        found, checksum = _read_identity(path)
        if (found.format, found.penstock) != (FORMAT, __version__):
            raise StateError(
                f"version {found.penstock} wrote the checkpoint {self.path} (format "
                f"{found.format}); this is {__version__} (format {FORMAT})",
                code="PS-STATE-002",
                remedy="install that version, or start from an empty checkpoint",
            )
        if checksum != _checksum(asdict(found)):
            raise damaged(path, "its checksum is wrong")
        return found

    def _write(self, identity: Identity) -> None:
        staged = self.path / "penstock.json.new"
        told = asdict(identity)
        try:
            staged.write_text(json.dumps({**told, "checksum": _checksum(told)}, indent=1))
            staged.replace(self.path / "penstock.json")
        except OSError as error:
            raise self._cannot_hold(error) from error

    def _cannot_hold(self, error: OSError) -> StateError:
        return StateError(
            f"{self.path} cannot hold a checkpoint: {error.strerror}",
            code="PS-STATE-001",
            remedy="name a directory that you can create and write",
        )

    def note_sources(self, sources: tuple[str, ...], named: bool) -> None:
        """Record the external sources of a start; if Spark numbers them, they must not change."""
        known = self.identity
        if known.sources is None:
            known = replace(known, by_name=named)
        elif not known.by_name and known.sources != sources:
            raise StateError(
                f"the checkpoint {self.path} has the external streams "
                f"{_names(known.sources)}, not {_names(sources)}",
                code="PS-STATE-008",
                remedy="declare the same external streams as at the first start, or start from an "
                "empty checkpoint: a DataFrame with unnamed sources fixes the streams",
            )
        if known.sources != sources:
            changed = replace(known, sources=sources)
            self._write(changed)
            self.identity = changed

    def drop_source(self, stream: str, entry: int) -> None:
        """Record a dropped stream; if Spark numbers sources, its source keeps its number."""
        known = self.identity
        if known.dropped.get(stream, 0) >= entry:
            return  # replayed from the log
        sources = known.sources
        if sources is not None and known.by_name:
            sources = tuple(name for name in sources if name != stream)
        dropped = {**known.dropped, stream: entry}
        changed = replace(known, sources=sources, dropped=dropped)
        self._write(changed)
        self.identity = changed

    def close(self) -> None:
        """Release the lock; delete a temporary directory."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def check_shards(directory: Path, wanted: int) -> None:
    """Refuse a number of shards that a checkpoint does not have."""
    path = directory / "penstock.json"
    found = _read_identity(path)[0].shards if path.exists() else wanted
    if found != wanted:
        raise StateError(
            f"the checkpoint {directory} has {found} shards, not {wanted}",
            code="PS-STATE-011",
            remedy=f"leave shards= out or give {found}; for another number start from an empty "
            "checkpoint",
        )


def _names(sources: tuple[str, ...]) -> str:
    return ", ".join(sources) or "(none)"


def _checksum(told: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(told, sort_keys=True).encode())


def _read_identity(path: Path) -> tuple[Identity, Any]:
    """The contents of the file, and its checksum."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        found = Identity(
            int(data["format"]), str(data["penstock"]), str(data["id"]), int(data["shards"]),
            None if data["sources"] is None else tuple(data["sources"]),
            bool(data.get("by_name", False)),
            {str(name): int(entry) for name, entry in data.get("dropped", {}).items()},
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, str(error)) from error
    return found, data.get("checksum")
