"""An arena in memory-mapped files, handed from process to process (DESIGN §5.4, §5.6 point 2).

A directory holds one folder per committed arena, named by its nonce. A process claims a folder by
renaming it, which succeeds for one process only. A commit writes everything and then renames the
folder to its new ready name. So a folder with a ready name is complete, and the folder of a dead
process has no ready name. It is a cache: nothing is synced, and ready names are valid only until
the machine restarts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from penstock.errors import StateError
from penstock.state.arena import Arena, Array
from penstock.state.arena_pack import LARGE, U8, ArrayEntry, Contents, read_table, small_array
from penstock.state.mapped import File, data_ranges, file_of, map_file, size_of

_READY, _CLAIMED = "ready-", "claim-"
_CONTENTS = "contents"
_SIZES = struct.Struct("<16sQQQQ")  # series, next file, bytes of table, config, small arrays
_ROOM = 16 << 20  # least free space for a new file: a full disk would kill the process


class _Folder:
    """A claimed folder, locked while its process lives and accessed by descriptor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.fd)
            self.fd = -1
            raise

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in the folder."""
        return os.open(name, flags, 0o600, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Delete a file; existing mappings stay valid."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.fd)

    def close(self) -> None:
        """Release the lock, also in forked children."""
        if self.fd >= 0:
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            os.close(self.fd)
            self.fd = -1

    def delete(self) -> None:
        """Delete the folder as far as possible."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)


class FileArena(Arena):
    """An arena with large arrays in files of a claimed folder; without one, on the heap.

    Between a commit and the next claim it may be read, but not written.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folder: _Folder | None = None
        self._series = b""  # the folder's identity across renames; it numbers its files
        self._next = 0
        self._files: set[int] = set()  # that exist
        self._nonce: str | None = None  # of the content that this process committed, if unchanged
        self._config = b""
        self._entries: list[ArrayEntry] = []
        self._table = b"[]"  # of those entries

    @property
    def held(self) -> bool:
        """Whether a folder is claimed."""
        return self._folder is not None

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """A new array; on the heap when it is small or no file can be made."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        if self._folder is not None and size_of(shape, dtype) >= LARGE:
            try:
                return self._create(self._folder, shape, dtype)
            except OSError:
                pass  # the cache must not fail the step; the commit reports it
        return np.zeros(shape, dtype)

    def _create(self, folder: _Folder, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        size = size_of(shape, dtype)
        space = os.fstatvfs(folder.fd)
        if space.f_bavail * space.f_frsize < size + _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder.path))
        file, self._next = self._next, self._next + 1
        fd = folder.open(_name(file), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.ftruncate(fd, size)  # nothing but a hole yet
            array = map_file(fd, (self._series, file), shape, dtype)
        finally:
            os.close(fd)
        self._files.add(file)
        return array

    def release(self, array: Array) -> None:
        """Delete the file of an array that has left."""
        if self._folder is None:
            self._nonce = None  # the content is no longer what was committed
            return
        file = file_of(array, self._series)
        if file in self._files:
            self._files.remove(file)
            self._folder.remove(_name(file))

    def extents(self, array: Array) -> list[tuple[int, int]]:
        """Where the file of an array has data: reading holes would fill them."""
        file = file_of(array, self._series)
        if self._folder is None or file not in self._files:
            return super().extents(array)
        fd = self._folder.open(_name(file), os.O_RDONLY)
        try:
            return data_ranges(fd)
        finally:
            os.close(fd)

    # ---- commit ------------------------------------------------------------------------
    def _settle(self, folder: _Folder) -> dict[str, int]:
        """Every large array in a file of its own; their numbers. Other files are deleted."""
        numbers: dict[str, int] = {}
        used: set[int] = set()
        for name, array in list(self._arrays.items()):
            if array.nbytes < LARGE:
                continue
            file = file_of(array, self._series)
            if file in used or file not in self._files:
                new = self._create(folder, array.shape, array.dtype)
                new[...] = array
                self._arrays[name] = new
                file = file_of(new, self._series)
            numbers[name] = file
            used.add(file)
        for file in self._files - used:
            folder.remove(_name(file))
        self._files = used
        return numbers

    def _write(self, folder: _Folder, config: bytes) -> None:
        """Write all that is not in files yet."""
        contents = Contents.of(self._arrays, self._settle(folder))
        if contents.entries != self._entries:
            self._entries, self._table = contents.entries, contents.table()
        small = contents.small
        sizes = _SIZES.pack(self._series, self._next, len(self._table), len(config), len(small))
        folder.remove(_CONTENTS)  # ext4 would begin to write a truncated file to disk at once
        with open(folder.open(_CONTENTS, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(sizes + self._table + config)
            file.write(small)

    # ---- claim -------------------------------------------------------------------------
    def _read(self, folder: _Folder) -> None:
        """Take over the content of a folder, keeping the mappings of files known already."""
        with open(folder.open(_CONTENTS, os.O_RDONLY), "rb") as file:
            sizes = file.read(_SIZES.size)
            series, after, table_size, config_size, small_size = _SIZES.unpack(sizes)
            table, config = file.read(table_size), file.read(config_size)
            small: U8 = np.empty(small_size, np.uint8)
            read = len(table) + len(config) + file.readinto(cast(Any, small))
            if read != table_size + config_size + small_size:
                raise ValueError("the contents are cut off")
        entries = self._entries if table == self._table else read_table(table)
        mapped = {file_of(array, series): array for array in self._arrays.values()}
        arrays: dict[str, Array] = {}
        for entry in entries:
            name, dtype, shape, place = entry
            if place < 0:
                arrays[name] = small_array(entry, small)
                continue
            found = mapped.get(place)
            if found is None or (found.dtype.str, found.shape) != (dtype, shape):
                found = _open(folder, (series, place), shape, np.dtype(dtype))
            arrays[name] = found
        self._arrays = arrays
        self._series, self._next, self._config = series, after, config
        self._entries, self._table = entries, table
        self._files = {place for *_, place in entries if place >= 0}


def _name(file: int) -> str:
    return f"{file}.array"


def _open(folder: _Folder, file: File, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    fd = folder.open(_name(file[1]), os.O_RDWR)
    try:
        return map_file(fd, file, shape, dtype)
    finally:
        os.close(fd)


# ---- hand-over -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """An arena taken over, and what was committed with it."""

    arena: FileArena
    config: bytes


def claim(directory: Path, nonce: str, cached: FileArena | None) -> Claim | None:
    """The arena committed under `nonce`; None if it is missing, claimed or dirty.

    `cached` is an arena that this process used for the directory before. The claim updates the
    content of that object, so engines over it continue; if the result is None, it is unchanged.
    """
    if cached is not None:
        abandon(cached)  # a step that failed on it
    folder = _take(directory, _ready_name(nonce))
    if folder is None:
        return None
    arena = FileArena() if cached is None else cached
    if arena._nonce != nonce:
        try:
            arena._read(folder)
        except (OSError, ValueError, TypeError, struct.error):
            folder.delete()
            return None
    arena._folder, arena._nonce = folder, None
    return Claim(arena, arena._config)


def create(directory: Path) -> FileArena:
    """An empty arena, already claimed."""
    path = _fresh(directory)
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.mkdir(mode=0o700, parents=True)
    arena = FileArena()
    arena._folder = _Folder(path)
    arena._series = uuid.uuid4().bytes
    return arena


def commit(arena: FileArena, nonce: str, config: bytes) -> None:
    """Publish a claimed arena under a new nonce. After an OSError (disk full): `abandon` it."""
    folder = arena._folder
    if folder is None:
        raise StateError("an arena that is not claimed cannot be committed")
    ready = folder.path.with_name(_ready_name(nonce))
    arena._write(folder, config)
    folder.path.rename(ready)
    folder.close()
    arena._folder, arena._nonce, arena._config = None, nonce, config


def abandon(arena: FileArena) -> None:
    """Delete the folder of a claimed arena (best effort)."""
    if arena._folder is not None:
        arena._folder.delete()
        arena._folder, arena._files = None, set()


def sweep(directory: Path, keep: set[str], older: float = 60.0) -> None:
    """Delete ready folders of nonces not in `keep`, and claims of dead processes.

    Only claims older than `older` seconds are checked: a new one may not be locked yet.
    """
    kept = {_ready_name(nonce) for nonce in keep}
    for path in list(directory.glob(f"{_READY}*")):
        if path.name not in kept and (folder := _take(directory, path.name)) is not None:
            folder.delete()
    for path in list(directory.glob(f"{_CLAIMED}*")):
        try:
            if time.time() - path.stat().st_ctime >= older:
                _Folder(path).delete()
        except OSError:
            continue  # held, or gone


def _take(directory: Path, ready: str) -> _Folder | None:
    """Rename a ready folder to a private name; None if another process was faster."""
    path = _fresh(directory)
    try:
        (directory / ready).rename(path)
        return _Folder(path)
    except OSError:
        return None


def _fresh(directory: Path) -> Path:
    return directory / f"{_CLAIMED}{uuid.uuid4().hex}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


_BOOT = _boot()


def _ready_name(nonce: str) -> str:
    """A name valid until reboot: after a crash of the machine, files may lack their content."""
    if not nonce or not nonce.replace("-", "").isalnum():
        raise StateError(f"{nonce!r} cannot be the nonce of an arena")
    return f"{_READY}{nonce}-{_BOOT}"
