"""The session log: the calls of a session as numbered records in append-only segment files.

A record is a call (replayed by the driver) and its blocks (for the shards), written with one
write() before `append` returns. Other processes read the files as they grow, without a
handshake: a record counts once the file is long enough to hold it. So a record that a crash cut
off does not count; a damaged record is an error.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from penstock.errors import StateError

SEGMENT_BYTES = 16 << 20
_HEADER = struct.Struct("<4sQQQII")  # magic, number, bytes of call and blocks, CRC of both, of this
_MAGIC = b"PSL1"
_RESTORE = "restore the directory from a backup, or start from an empty checkpoint"


@dataclass(frozen=True, slots=True)
class RecordPosition:
    """Where a record starts: the segment (by its first number) and the byte in it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """The header of a record, and its place."""

    number: int
    place: RecordPosition
    call: int
    blocks: int
    crc: int

    @property
    def end(self) -> int:
        """The byte after the record."""
        return self.place.offset + _HEADER.size + self.call + self.blocks


def segment_path(directory: Path, first: int) -> Path:
    """The file of the segment that starts with record `first`."""
    return directory / f"{first:020d}.log"


def segments(directory: Path) -> list[int]:
    """The first numbers of all segments, in order."""
    return sorted(int(p.stem) for p in directory.glob("*.log") if p.stem.isdigit())


class LogReader:
    """Follows a log from a record on; each call finds the records appended since the last one."""

    def __init__(
        self, directory: Path, first: int = 1, place: RecordPosition | None = None
    ) -> None:
        self._directory = directory
        self._next = first
        self._place = place
        self._fd, self._open_segment = -1, 0
        if place is None and directory.exists():
            self._seek(first)

    def _seek(self, first: int) -> None:
        """Start at the segment that holds `first`, or will hold it."""
        known = segments(self._directory)
        if not known:
            return
        at = max((s for s in known if s <= first), default=known[0])
        if at > first:
            raise StateError(
                f"records {first} to {at - 1} of the log {self._directory} are gone",
                code="PS-STATE-005",
                remedy=_RESTORE,
            )
        self._next, self._place = at, RecordPosition(at, 0)
        for record in self.poll():
            if record.number == first:
                self._next, self._place = first, record.place
                break

    def poll(self) -> Iterator[Record]:
        """Records after the last one found, as far as they are complete."""
        while (record := self._look()) is not None:
            self._next = record.number + 1
            self._place = RecordPosition(record.place.segment, record.end)
            yield record

    def _look(self) -> Record | None:
        if self._place is None:  # nothing was there yet
            if not segment_path(self._directory, self._next).exists():
                return None
            self._place = RecordPosition(self._next, 0)
        found = self._header(self._place)
        if found is not None or self._next == self._place.segment:
            return found
        if segment_path(self._directory, self._next).exists():
            return self._header(RecordPosition(self._next, 0))
        self._check_is_last(self._place)
        return None

    def _check_is_last(self, place: RecordPosition) -> None:
        """Only the last record may be incomplete."""
        path = segment_path(self._directory, place.segment)
        if path.stat().st_size > place.offset and segments(self._directory)[-1] > place.segment:
            raise damaged(path, place.offset)

    def _header(self, place: RecordPosition) -> Record | None:
        """The record at `place`; None if it is incomplete."""
        fd = self._open(place.segment)
        size = os.fstat(fd).st_size
        if size - place.offset < _HEADER.size:
            return None
        data = os.pread(fd, _HEADER.size, place.offset)
        magic, number, call, blocks, crc, own = _HEADER.unpack(data)
        if data == bytes(_HEADER.size) and _is_blank(fd, place.offset, size):
            return None  # the file was extended for a record that was never written
        if magic != _MAGIC or own != zlib.crc32(data[:-4]) or number != self._next:
            raise damaged(segment_path(self._directory, place.segment), place.offset)
        record = Record(number, place, call, blocks, crc)
        return record if record.end <= size else None

    def read(self, record: Record) -> tuple[bytes, bytes]:
        """Call and blocks of a record, checked."""
        fd = self._open(record.place.segment)
        start = record.place.offset + _HEADER.size
        data = _read_all(fd, start, record.call + record.blocks)
        if len(data) != record.call + record.blocks or zlib.crc32(data) != record.crc:
            raise damaged(segment_path(self._directory, record.place.segment), record.place.offset)
        return data[: record.call], data[record.call :]

    def _open(self, segment: int) -> int:
        if self._fd < 0 or self._open_segment != segment:
            self.close()
            path = segment_path(self._directory, segment)
            try:
                self._fd, self._open_segment = os.open(path, os.O_RDONLY), segment
            except OSError as error:
                raise StateError(
                    f"the log file {path} cannot be read: {error}",
                    code="PS-STATE-005",
                    remedy=_RESTORE,
                ) from error
        return self._fd

    def close(self) -> None:
        """Close the file that is open."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()

    @property
    def end(self) -> RecordPosition | None:
        """The place after the last record found."""
        return self._place


def _read_all(fd: int, start: int, length: int) -> bytes:
    """`length` bytes; one read may give less, and ends at 2 GiB."""
    data = os.pread(fd, length, start)
    while len(data) < length:
        more = os.pread(fd, length - len(data), start + len(data))
        if not more:
            break
        data += more
    return data


def _is_blank(fd: int, start: int, end: int) -> bool:
    step = 1 << 20
    return not any(any(os.pread(fd, min(step, end - at), at)) for at in range(start, end, step))


def damaged(path: Path, offset: int) -> StateError:
    """The error for a damaged record."""
    return StateError(
        f"the log file {path} is damaged at byte {offset}",
        code="PS-STATE-006",
        remedy="restore the file from a backup, or start from an empty checkpoint",
    )


class SessionLog:
    """The single writer of a log; it can also read it."""

    def __init__(
        self, directory: Path, sync: bool = False, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sync = sync
        self._segment_bytes = segment_bytes
        self._fd = -1
        self._size = 0
        self.broken: StateError | None = None  # the caller's state is ahead of the log
        self.last = 0
        known = segments(self.directory)
        if known:
            self._continue(known[-1])

    @property
    def first(self) -> int:
        """The number of the first record that is not trimmed."""
        return next(iter(segments(self.directory)), self.last + 1)

    @property
    def newest(self) -> Path:
        """The last segment, or the directory when there is none."""
        known = segments(self.directory)
        return segment_path(self.directory, known[-1]) if known else self.directory

    def _continue(self, segment: int) -> None:
        """Find the last record, cut off the bytes after it, and continue there."""
        reader = LogReader(self.directory, segment)
        self.last = segment - 1
        for record in reader.poll():
            self.last = record.number
        end = reader.end
        reader.close()
        assert end is not None
        self._fd = os.open(segment_path(self.directory, segment), os.O_WRONLY | os.O_APPEND)
        self._size = end.offset
        os.ftruncate(self._fd, self._size)

    def append(self, call: bytes, blocks: bytes) -> int:
        """Write a record and return its number; after a failure no more can be written."""
        if self.broken is not None:
            raise self.broken
        number = self.last + 1
        crc = zlib.crc32(blocks, zlib.crc32(call))
        head = _HEADER.pack(_MAGIC, number, len(call), len(blocks), crc, 0)
        head = head[:-4] + struct.pack("<I", zlib.crc32(head[:-4]))
        try:
            if self._fd < 0 or self._size >= self._segment_bytes:
                self._new_segment(number)
            self._write(head + call + blocks)
        except OSError as error:
            self.broken = self._cannot_be_written(error)
            raise self.broken from error
        self.last = number
        return number

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            if self._sync:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, self._size)  # remove the partial record
            raise
        self._size += len(data)

    def _cannot_be_written(self, error: OSError) -> StateError:
        return StateError(
            f"the log in {self.directory} cannot be written: {error}",
            code="PS-STATE-007",
            remedy="free disk space, close the session and connect() again: all calls before this "
            "one are saved",
        )

    def _new_segment(self, first: int) -> None:
        path = segment_path(self.directory, first)
        self.close()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        self._size = 0
        if self._sync:
            folder = os.open(self.directory, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    # ---- reading ---------------------------------------------------------------------
    def read_blocks(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Blocks of the records `first` to `last`."""
        for number, _, blocks in self._read(first, last):
            yield number, blocks

    def read_calls(self, first: int) -> Iterator[tuple[int, bytes]]:
        """Calls of the records from `first` on."""
        for number, call, _ in self._read(first, self.last):
            yield number, call

    def _read(self, first: int, last: int) -> Iterator[tuple[int, bytes, bytes]]:
        if first > last:
            return
        reader = LogReader(self.directory, first)
        try:
            for record in reader.poll():
                yield record.number, *reader.read(record)
                if record.number == last:
                    return
            raise StateError(
                f"records up to {last} of the log {self.directory} are gone",
                code="PS-STATE-005",
                remedy=_RESTORE,
            )
        finally:
            reader.close()

    def trim(self, before: int) -> None:
        """Delete the segments that only hold records below `before`."""
        known = segments(self.directory)
        for segment, following in pairwise(known):
            if following <= before:
                segment_path(self.directory, segment).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file that is written."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
