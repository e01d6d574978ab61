"""The files of a source and their batches, as in Spark's file source.

A path is a file, a directory or a glob. Files with names that begin with `.` or `_` are ignored.
New files form batches in order of modification: `maxFilesPerTrigger` files each, or
`maxBytesPerTrigger` bytes, else all in one.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penstock.errors import DataError
from penstock.sql.source_options import CODE

_UNITS = {unit: 1 << (10 * n) for n, unit in enumerate(("", "k", "m", "g", "t", "p"))}
_ON_SPARK = ("cleansource", "sourcearchivedir")


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is now."""

    path: str
    written: int  # ns
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Where files are, and how many make a batch."""

    path: str
    only: str = "*"
    recursive: bool = False
    latest_first: bool = False
    by_name: bool = False  # independent of the folder
    most_files: int | None = None
    most_bytes: int | None = None

    @staticmethod
    def of(path: str, options: Mapping[str, str], what: str) -> Listing:
        """The listing for checked options (names in lower case)."""
        for name in _ON_SPARK:
            if options.get(name, "off").lower() != "off":
                raise DataError(
                    f"{what}: option {name} needs Spark's reader", code=CODE,
                    remedy="run on Spark, or remove the option: files are left in place",
                )  # fmt: skip
        files, size = options.get("maxfilespertrigger"), options.get("maxbytespertrigger")
        return Listing(
            path, options.get("pathglobfilter", "*"), _is_true(options, "recursivefilelookup"),
            _is_true(options, "latestfirst"), _is_true(options, "filenameonly"),
            int(files) if files else None, _in_bytes(size) if size else None,
        )  # fmt: skip

    def exists(self) -> bool:
        """Whether the path exists; a glob may match files later."""
        return bool(glob.has_magic(self.path)) or os.path.exists(self.path)

    def files(self) -> list[File]:
        """The existing files, by name."""
        roots = glob.glob(self.path, recursive=True) if glob.has_magic(self.path) else [self.path]
        found = {path for root in roots for path in self._below(root)}
        return [file for path in sorted(found) if (file := _file(path)) is not None]

    def _below(self, root: str) -> Iterator[str]:
        if not os.path.isdir(root):
            yield root
            return
        for path, folders, names in os.walk(root):
            folders[:] = [f for f in folders if _is_shown(f) and (self.recursive or "=" in f)]
            for name in names:
                if _is_shown(name) and fnmatchcase(name, self.only):
                    yield os.path.join(path, name)

    def key(self, file: File) -> str:
        """The identity of a file; a rewritten file is not read again."""
        return os.path.basename(file.path) if self.by_name else os.path.abspath(file.path)

    def batches(self, seen: Container[str]) -> Iterator[list[File]]:
        """The new files in batches, oldest first; each batch in order of names."""
        new = [f for f in self.files() if self.key(f) not in seen]
        new.sort(key=lambda f: (f.written, f.path), reverse=self.latest_first)
        batch: list[File] = []
        for file in new:
            if batch and self._is_full(batch, file):
                yield sorted(batch, key=lambda f: f.path)
                batch = []
            batch.append(file)
        if batch:
            yield sorted(batch, key=lambda f: f.path)

    def _is_full(self, batch: list[File], file: File) -> bool:
        if self.most_files is not None and len(batch) >= self.most_files:
            return True
        size = sum(f.size for f in batch) + file.size
        return self.most_bytes is not None and size > self.most_bytes


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and ("=" in name or not name.startswith("_"))


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _in_bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)\s*([a-z]?)b?", text.lower()).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS.get(unit if unit != "b" else "", 1)


def _file(path: str) -> File | None:
    """None if the path is gone or is not a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return File(path, found.st_mtime_ns, found.st_size) if os.path.isfile(path) else None
