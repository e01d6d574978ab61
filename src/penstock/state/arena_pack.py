"""Arenas as bytes (DESIGN §5.4, §5.6): a table of contents, small arrays, pieces of large ones.

`pack` gives the same bytes for the same arrays, on the heap or in files. Pieces of zeros are left
out, so the unused part of a grown array costs nothing. `unpack` fills any arena, and refuses
incomplete bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import StateError
from penstock.state.arena import Arena, Array

LARGE = 64 << 10
"""Arrays of at least this many bytes are stored separately."""
CHUNK = 4 << 20
"""The most bytes of a chunk: larger values of a state store are slow (DESIGN §5.6)."""

ArrayEntry = tuple[str, str, tuple[int, ...], int]
"""An array: name, type, shape, and the number of a large one or ~(offset of a small one)."""
U8 = NDArray[np.uint8]

_PIECE = 1 << 20
_ALIGN = 16  # no element type needs more
_SIZES = struct.Struct("<QQ")  # of the head: table of contents, small arrays
_FRAME = struct.Struct("<iQII")  # array, offset in it, bytes, compressed bytes
_HEAD, _END = -1, -2  # instead of an array; the offset of _END is the number of frames
# On stores and hash tables LZ4 takes half to two thirds of the time of zstd 1, and gives
# 1.3 to 1.7 times the bytes, which the state store takes in less than the difference. The raw
# format decompresses several times faster than the framed one.
_CODEC = "lz4_raw"


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of contents of some arrays, and the small ones one after another."""

    entries: list[ArrayEntry]
    small: bytes

    @staticmethod
    def of(arrays: Mapping[str, Array], numbers: Mapping[str, int]) -> Contents:
        """The contents of `arrays`; `numbers` has the large ones."""
        entries: list[ArrayEntry] = []
        parts: list[Any] = []
        offset = 0
        for name, array in arrays.items():
            place = numbers.get(name, -1)
            if place < 0:
                place = ~offset
                parts.append(array if array.flags.c_contiguous else array.copy())
                size = array.nbytes
                offset += size
                if pad := -size % _ALIGN:
                    parts.append(bytes(pad))
                    offset += pad
            entries.append((name, array.dtype.str, array.shape, place))
        return Contents(entries, b"".join(parts))

    def table(self) -> bytes:
        """The entries as bytes."""
        return json.dumps(self.entries, separators=(",", ":")).encode()


def read_table(table: bytes | memoryview) -> list[ArrayEntry]:
    """Decode the bytes of `Contents.table`."""
    return [(n, t, tuple(shape), place) for n, t, shape, place in json.loads(bytes(table))]


def small_array(entry: ArrayEntry, small: U8) -> Array:
    """The small array of an entry, in the memory of `small`."""
    _, dtype, shape, place = entry
    return np.ndarray(shape, dtype, cast(Any, small), ~place)


def pack(arena: Arena) -> Iterator[bytes]:
    """The whole content of an arena in chunks of at most `CHUNK` bytes."""
    chunk = bytearray()
    for frame in _frames(arena):
        if len(chunk) + len(frame) > CHUNK:
            yield bytes(chunk)
            chunk.clear()
        chunk += frame
    yield bytes(chunk)


def _frames(arena: Arena) -> Iterator[bytes]:
    codec = pa.Codec(_CODEC)
    count = 0
    for place, offset, piece in _pieces(arena):
        data = codec.compress(piece, asbytes=True)
        yield _FRAME.pack(place, offset, len(piece), len(data)) + data
        count += 1
    yield _FRAME.pack(_END, count, 0, 0)


def _pieces(arena: Arena) -> Iterator[tuple[int, int, memoryview]]:
    """(array, offset, bytes) of the head, then of every large array where it is not zero."""
    arrays = dict(sorted(arena.arrays().items()))
    large = [name for name, array in arrays.items() if array.nbytes >= LARGE]
    contents = Contents.of(arrays, {name: number for number, name in enumerate(large)})
    table = contents.table()
    head = memoryview(_SIZES.pack(len(table), len(contents.small)) + table + contents.small)
    for start in range(0, len(head), _PIECE):
        yield _HEAD, start, head[start : start + _PIECE]
    for number, name in enumerate(large):
        array = arrays[name]
        data = _bytes_of(array)
        for start in _starts(arena.extents(array)):
            piece = data[start : start + _PIECE]
            if piece.any():
                yield number, start, memoryview(cast(Any, piece))


def _starts(extents: list[tuple[int, int]]) -> Iterator[int]:
    """Where the pieces begin that touch one of the ranges (in order)."""
    done = 0
    for begin, end in extents:
        for start in range(max(done, begin - begin % _PIECE), end, _PIECE):
            yield start
            done = start + _PIECE


def _bytes_of(array: Array) -> U8:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def unpack(chunks: Iterable[bytes], arena: Arena) -> None:
    """Replace the content of an arena by what `pack` gave."""
    try:
        arrays = _arrays(chunks, arena)
    except (ValueError, LookupError, TypeError, struct.error) as error:
        raise StateError(
            f"a packed state is damaged: {error}",
            code="PS-STATE-003",
            remedy="restore the checkpoint from a backup, or start from an empty one",
        ) from error
    arena.attach(arrays)


def _arrays(chunks: Iterable[bytes], arena: Arena) -> dict[str, Array]:
    head = bytearray()
    arrays: dict[str, Array] | None = None
    large: list[U8] = []
    for place, offset, data in _read_frames(chunks):
        if place == _HEAD:
            head += data
            continue
        if arrays is None:
            arrays = _allocate(head, arena)
            large = [_bytes_of(a) for a in arrays.values() if a.nbytes >= LARGE]
        large[place][offset : offset + len(data)] = np.frombuffer(data, np.uint8)
    return _allocate(head, arena) if arrays is None else arrays


def _read_frames(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, pa.Buffer]]:
    count = 0
    for chunk in chunks:
        at, view = 0, memoryview(chunk)
        while at < len(view):
            place, offset, size, stored = _FRAME.unpack_from(view, at)
            at += _FRAME.size
            if place == _END:
                if offset != count:
                    raise ValueError(f"{count} of {offset} pieces")
                return
            yield place, offset, _decompress(view[at : at + stored], size)
            at += stored
            count += 1
    raise ValueError(f"no end after {count} pieces")


def _decompress(data: memoryview, size: int) -> pa.Buffer:
    try:
        return pa.Codec(_CODEC).decompress(data, size)
    except OSError as error:
        raise ValueError(str(error)) from error


def _allocate(head: bytearray, arena: Arena) -> dict[str, Array]:
    """The arrays of a head, the large ones zero."""
    table, small = _SIZES.unpack_from(head)
    begin = _SIZES.size + table
    blob: U8 = np.ndarray((small,), np.uint8, cast(Any, head), begin)
    arrays: dict[str, Array] = {}
    for entry in read_table(memoryview(head)[_SIZES.size : begin]):
        name, dtype, shape, place = entry
        if place < 0:
            arrays[name] = small_array(entry, blob).copy()  # the head is not kept alive
        else:
            arrays[name] = arena.zeros(shape, dtype)
    return arrays
