"""Directories that belong to one user: checkpoints.

Reading a checkpoint runs code stored in it (pickles), so a checkpoint that another user could have
written is refused. It contains rows, so other users cannot enter it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.errors import StateError

_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(directory: Path, contents: tuple[str, ...] = ()) -> None:
    """Make a directory that only this user can enter.

    An existing directory becomes private if it is empty or holds one of `contents`. It is refused
    if it, or something in it, may come from another user.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    entries = list(directory.iterdir())
    for path, status in [(directory, found), *((e, e.lstat()) for e in entries)]:
        if status.st_uid != os.geteuid():
            raise _refused(f"{path} belongs to another user")
    if entries and found.st_mode & _BY_OTHERS:
        raise _refused(f"other users can write in {directory}")
    ours = not entries or any((directory / name).exists() for name in contents)
    if ours and found.st_mode & _OF_OTHERS:
        directory.chmod(stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)


def _refused(why: str) -> StateError:
    return StateError(
        f"{why}, and opening a checkpoint runs code stored in it",
        code="PS-STATE-009",
        remedy="if you trust its contents, make it yours and private: chown -R and chmod 700",
    )
