"""Sealed files: a length and a checksum before the data, so that damage is detected.

A file is written to a temporary name and renamed, so it is complete or absent. A reader gets the
bytes that were written, or a StateError that names the file.
"""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import StateError

_SEAL = struct.Struct("<4sQI")  # magic, bytes of the data, CRC of both and the data
_MAGIC = b"PSF1"
T = TypeVar("T")


def sealed(data: bytes) -> bytes:
    """The data with its seal."""
    return _SEAL.pack(_MAGIC, len(data), _crc(data)) + data


def unsealed(whole: bytes, path: Path) -> bytes:
    """The data of a sealed file."""
    if whole[:1] == pickle.PROTO:
        raise StateError(
            f"an earlier version wrote {path}, without a checksum",
            code="PS-STATE-002",
            remedy="open it with that version, or start from an empty checkpoint",
        )
    if len(whole) < _SEAL.size or whole[:4] != _MAGIC:
        raise damaged(path, "it does not start like a file of this version")
    _, size, crc = _SEAL.unpack_from(whole)
    data = whole[_SEAL.size :]
    if len(data) != size:
        raise damaged(path, f"it has {len(data)} bytes instead of {size}")
    if crc != _crc(data):
        raise damaged(path, "its checksum is wrong")
    return data


def read_sealed(path: Path) -> bytes:
    """The data of a sealed file."""
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise damaged(path, f"it cannot be read: {error.strerror}") from error
    return unsealed(whole, path)


def read_object(path: Path, kind: type[T], what: str) -> T:
    """The object of a class that was pickled into a sealed file; `what` it is, in words."""
    data = read_sealed(path)
    try:
        found: Any = pickle.loads(data)
    except Exception as error:  # whole, but of functions or classes that are not here
        raise damaged(path, str(error)) from error
    if not isinstance(found, kind):
        raise damaged(path, f"it does not hold a {what}")
    return found


def write_sealed(path: Path, data: bytes) -> None:
    """Write data to a file, replacing its old contents."""
    with staged(path, data) as beside:
        beside.replace(path)


@contextmanager
def staged(path: Path, data: bytes) -> Iterator[Path]:
    """A context with a temporary sealed file, which is deleted afterwards unless it was renamed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(sealed(data))
        yield beside
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def damaged(path: Path, reason: str) -> StateError:
    """The error for a damaged file."""
    return StateError(
        f"the checkpoint file {path} is damaged: {reason}",
        code="PS-STATE-003",
        remedy="restore the checkpoint directory from a backup, or start from an empty one",
    )


def _crc(data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(len(data).to_bytes(8, "little")))
