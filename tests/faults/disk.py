"""Disks that are full, files that are damaged: tools of the fault suite."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """No file of this process can grow beyond `room` bytes: as on a full disk, without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path | None]:
    """A file system of its own of that size; None where this process may not mount one."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def read_only(directory: Path) -> Iterator[bool]:
    """Nothing can be written into a directory for a while; False where that cannot be had.

    Permissions do not stop the superuser: for that, it is mounted anew.
    """
    if os.geteuid():
        directory.chmod(0o500)
        try:
            yield True
        finally:
            directory.chmod(0o700)
        return
    place = str(directory)
    if subprocess.run(
        ["mount", "--bind", place, place], capture_output=True, check=False
    ).returncode:
        yield False
        return
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        yield True
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def truncated(part: float) -> Callable[[bytes], bytes]:
    """Only the first part of a file is there."""
    return lambda data: data[: int(len(data) * part)]


def flipped(part: float) -> Callable[[bytes], bytes]:
    """One bit of a file is another."""

    def flip(data: bytes) -> bytes:
        if not data:
            return b"\x01"
        at = min(int(len(data) * part), len(data) - 1)
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]

    return flip


def blank(data: bytes) -> bytes:
    """As long as it was, but nothing of it was written."""
    return bytes(len(data))


def torn(data: bytes) -> bytes:
    """Written up to a page, and blank from there on."""
    half = len(data) // 2
    return data[:half] + bytes(len(data) - half)


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "missing": None,
    "empty": truncated(0),
    "cut in half": truncated(0.5),
    "short by a little": lambda data: data[:-1],
    "longer": lambda data: data + b"\x00",
    "flipped at the start": flipped(0.01),
    "flipped in the middle": flipped(0.5),
    "flipped at the end": flipped(1.0),
    "torn": torn,
    "blank": blank,
}
"""What may become of a file; None: it is gone."""


@contextmanager
def damaged(path: Path, kind: str) -> Iterator[None]:
    """A file is damaged for a while."""
    before = path.read_bytes()
    change = DAMAGES[kind]
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(before))
    try:
        yield
    finally:
        path.write_bytes(before)
