"""The checkpoint directory of an in-process session. One session at a time may have it open.

lock            held while the session is open
session.id      part of the names of files that its sinks write, so that a restart finds its own
session.pickle  the session as of the last flush() or close()
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import StateError
from penstock.state.directory_lock import DirectoryLock
from penstock.state.private import make_private

_ID = "session.id"


@dataclass(frozen=True, slots=True)
class SessionDirectory:
    """An open checkpoint directory."""

    path: Path
    id: str
    lock: DirectoryLock

    def close(self) -> None:
        """Release the directory for other sessions."""
        self.lock.release()


def open_directory(path: Path) -> SessionDirectory:
    """Lock a directory; create it if it does not exist."""
    with writing(path):
        make_private(path, (_ID, "session.pickle"))
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if (path / "penstock.json").exists():
            raise StateError(
                f"{path} is a checkpoint of the Spark runner",
                code="PS-STATE-013",
                remedy='connect() without runner="inprocess", or use another directory',
            )
        lock = DirectoryLock(path)
        try:
            return SessionDirectory(path, _identify(path / _ID), lock)
        except BaseException:
            lock.release()
            raise


def _identify(path: Path) -> str:
    """Read the id from a file; write a new one if there is none."""
    found = path.read_text(errors="replace").strip() if path.exists() else ""
    if found:
        return found
    made = uuid.uuid4().hex
    staged = path.with_suffix(".new")
    staged.write_text(made)
    staged.replace(path)
    return made


@contextmanager
def writing(directory: Path) -> Iterator[None]:
    """A context that turns errors of the file system into errors of the checkpoint."""
    try:
        yield
    except OSError as error:
        raise StateError(
            f"{directory} cannot hold a checkpoint: {error.strerror}",
            code="PS-STATE-001",
            remedy="name a directory that you can create and write",
        ) from error
