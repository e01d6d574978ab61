"""Checksums of Spark's records of a job: offsets of batches, files that sources have read.

Spark checks its state, but not all of these files; a lost or changed one would make it read rows
twice or not at all. So the manifest of a batch has their checksums, and a checkpoint with other
checksums is refused.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from penstock.state.sealed import damaged

_LOGGED = re.compile(r"(\d+)(\.compact)?")


class SparkFiles:
    """The immutable files in Spark's part of a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, int] = {}

    def seals(self, batch: int) -> dict[str, int]:
        """Checksums by path of the files that Spark needs to continue from a planned batch."""
        names = [f"offsets/{n}" for n in (batch - 1, batch) if n >= 0]
        for folder in self._sources():
            names += [f"sources/{folder.name}/{name}" for name in _needed(folder)]
        self._known = {name: self._seal(name) for name in names if self._path(name).exists()}
        return dict(self._known)

    def check(self, seals: Mapping[str, int]) -> None:
        """Refuse changed files; a log may have been compacted since."""
        for name, seal in seals.items():
            path = self._path(name)
            if path.exists():
                if zlib.crc32(path.read_bytes()) != seal:
                    raise damaged(path, "its checksum is wrong")
            elif not name.startswith("sources/") or _is_needed(path):
                raise damaged(path, "it is missing")

    def _sources(self) -> list[Path]:
        return [path for path in self._directory.glob("sources/*") if path.is_dir()]

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _seal(self, name: str) -> int:
        known = self._known.get(name)
        return zlib.crc32(self._path(name).read_bytes()) if known is None else known


def _needed(folder: Path) -> list[str]:
    """The log of a source from its last compact file on."""
    matches = (_LOGGED.fullmatch(path.name) for path in folder.iterdir())
    found = {int(m[1]): m[0] for m in matches if m}
    compact = max((n for n, name in found.items() if name.endswith(".compact")), default=0)
    return [name for n, name in sorted(found.items()) if n >= compact]


def _is_needed(path: Path) -> bool:
    """Whether a missing file of a source's log is newer than the last compact one."""
    if not path.parent.is_dir():  # the stream was dropped
        return False
    first = next(iter(_needed(path.parent)), "")
    own = int(path.name.split(".")[0])
    return not first.endswith(".compact") or own >= int(first.split(".")[0])
