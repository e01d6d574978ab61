"""A lock for one session of one process on a directory; it ends with the process.

The kernel locks the file `lock` in the directory (flock), so a crash leaves no lock behind. Its
text names the owning process, for messages only.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from penstock.errors import StateError

_FILE = "lock"


class DirectoryLock:
    """Holds a directory until it is released, collected, or the process ends."""

    def __init__(self, directory: Path) -> None:
        lock = os.open(directory / _FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read(lock)
            os.close(lock)
            raise _in_use(directory, holder) from error
        self.release = weakref.finalize(self, _release, lock, os.getpid())
        os.truncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def _release(lock: int, holder: int) -> None:
    """Release the lock, also if a forked process still has the file open."""
    if os.getpid() == holder:
        fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)


def _read(lock: int) -> str:
    return os.pread(lock, 20, 0).decode("ascii", "replace").strip()


def _in_use(directory: Path, holder: str) -> StateError:
    here = holder == str(os.getpid())
    process = "another process" if not holder.isdigit() else f"process {holder}"
    return StateError(
        f"the checkpoint {directory} is in use by "
        + ("another session of this process" if here else process),
        code="PS-STATE-004",
        remedy="close() the other session first, or use another checkpoint"
        if here
        else f"stop {'it' if holder.isdigit() else 'the other process'}, or use another checkpoint",
    )
