"""String table: every distinct string of a shard once, as a small code (DESIGN §5.4).

Codes are recycled: state that holds codes across steps must report them to `collect`, which
frees all others. Code 0 is the empty string, and the value slot of a NULL. Equality of
strings is equality of codes; order needs the bytes (`kernels.strings.compare_strings`).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import I64, Bool
from penstock.errors import StateError
from penstock.kernels import strings as k
from penstock.kernels.strings import U8
from penstock.state.arena import Scope

_FEW_CODES, _FEW_BYTES = 4096, 1 << 20
_MOST_GROWTH = 8  # times the current size
_INT32_MAX = np.iinfo(np.int32).max
_ALL_VALID = np.empty(0, np.bool_)


class StringTable:
    """Strings to codes and back, in the arena."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        fresh = "regs" not in scope
        scope.array("table", 256)
        scope.array("starts", 64)
        scope.array("lengths", 64)
        scope.array("free", 64)
        scope.array("heap", 1024, np.uint8)
        regs = scope.array("regs", 8)
        if fresh:
            regs[k.USED] = 1  # code 0: the empty string

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    @property
    def _heap(self) -> U8:
        return cast(U8, self._scope["heap"])

    def __len__(self) -> int:
        regs = self._arr("regs")
        return int(regs[k.USED] - regs[k.FREE])

    @property
    def identity(self) -> I64:
        """An array that changes its identity when the arena's content is replaced."""
        return self._arr("regs")

    @property
    def capacity(self) -> int:
        """Codes in use are below this."""
        return int(self._arr("regs")[k.USED])

    @property
    def nbytes(self) -> int:
        """Bytes of the table in the arena."""
        return self._scope.nbytes

    def arrays(self) -> tuple[I64, I64, U8]:
        """(starts, lengths, heap) for kernels; valid until the next `intern` or `collect`."""
        return self._arr("starts"), self._arr("lengths"), self._heap

    # ---- text to codes -----------------------------------------------------------------
    def intern(self, array: pa.Array) -> I64:
        """Code of each string; 0 for NULL (callers keep the NULL mask)."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if pa.types.is_dictionary(array.type):
            codes = self.intern(array.dictionary)
            indices = array.indices
            places = pc.fill_null(indices, 0) if indices.null_count else indices
            if not len(codes):
                return np.zeros(len(array), np.int64)
            out: I64 = codes[places.to_numpy(zero_copy_only=False)]
            if indices.null_count:
                out[pc.is_null(indices).to_numpy(zero_copy_only=False)] = 0
            return out
        offsets, data, valid = utf8_buffers(array)
        return self.intern_bytes(offsets, data, valid)

    def code(self, text: str) -> int:
        """Code of one string, interning it."""
        data = _bytes(text.encode())
        offsets = np.array([0, data.shape[0]], np.int64)
        return int(self.intern_bytes(offsets, data)[0])

    def find(self, text: str) -> int:
        """Code of one string, −1 when no row holds it."""
        data = _bytes(text.encode())
        starts, lengths, heap = self.arrays()
        return int(k.find_utf8(data, self._arr("table"), starts, lengths, heap))

    def intern_bytes(self, offsets: I64, data: U8, valid: Bool = _ALL_VALID) -> I64:
        """Code of each ``data[offsets[i]:offsets[i + 1]]``; an empty `valid` says that all are."""
        n = offsets.shape[0] - 1
        out = np.empty(n, np.int64)
        at, before = 0, len(self)
        while True:
            starts, lengths, heap = self.arrays()
            at = k.intern_utf8(
                offsets, data, valid, at, self._arr("table"), starts, lengths, heap,
                self._arr("free"), self._arr("regs"), out,
            )  # fmt: skip
            if at >= n:
                return out
            share = (len(self) - before + 1) / (at + 1)  # of strings so far that were new
            self._make_room(
                int(offsets[at + 1] - offsets[at]),
                round(share * (n - at)),
                round(share * int(offsets[n] - offsets[at])),
            )

    def _make_room(self, length: int, strings: int, size: int) -> None:
        """Reserve room for a string of some length, and for later strings and their bytes.

        Growing only when a new string does not fit, and not too far at once, keeps the table
        small (and in cache) for batches of many repeats.
        """
        regs = self._arr("regs")
        used, heap = int(regs[k.USED]), int(regs[k.HEAP])
        strings = min(strings, _MOST_GROWTH * used)
        if regs[k.FREE] == 0 and used >= self._arr("starts").shape[0]:
            for name in ("starts", "lengths", "free"):
                self._scope.reserve(name, used + max(1, strings))
        if heap + length > self._heap.shape[0]:
            self._scope.reserve("heap", heap + max(length, min(size, _MOST_GROWTH * heap)))
        slots = self._arr("table").shape[0] >> 1
        if 2 * len(self) >= slots:
            self._rehash(max(4 * slots, 1 << (2 * (len(self) + strings)).bit_length()))

    def _rehash(self, slots: int) -> None:
        table = np.zeros(2 * slots, np.int64)
        k.rehash(self._arr("table"), table, self._arr("lengths"))
        self._scope["table"] = table

    # ---- codes to text -----------------------------------------------------------------
    def decode(self, codes: I64, null: Bool | None = None) -> pa.Array:
        """The strings of `codes`; large_string when they exceed 2 GiB together."""
        codes = np.ascontiguousarray(codes)
        if null is not None:
            codes = np.where(null, 0, codes)
        return utf8_array(*self.gather_bytes(codes), null)

    def gather_bytes(self, codes: I64) -> tuple[I64, U8]:
        """Offsets and bytes of the strings of `codes`, one after another."""
        starts, lengths, heap = self.arrays()
        offsets = k.text_offsets(codes, lengths)
        return offsets, k.gather_utf8(codes, offsets, starts, heap)

    def text(self, code: int) -> str:
        """The string of one code."""
        starts, lengths, heap = self.arrays()
        if not 0 <= code < self.capacity or lengths[code] < 0:
            raise StateError(f"no string has the code {code}")
        return heap[starts[code] : starts[code] + lengths[code]].tobytes().decode()

    # ---- reclamation -------------------------------------------------------------------
    def should_collect(self) -> bool:
        """Whether strings (or their bytes) have doubled since the last collection."""
        regs = self._arr("regs")
        return bool(
            len(self) > 2 * max(int(regs[k.LIVE_THEN]), _FEW_CODES)
            or regs[k.HEAP] - regs[k.DEAD] > 2 * max(int(regs[k.BYTES_THEN]), _FEW_BYTES)
        )

    def collect(self, marks: Bool) -> int:
        """Free all codes without a mark for reuse; returns how many. Code 0 always stays."""
        regs = self._arr("regs")
        freed = int(k.sweep(marks, self._arr("lengths"), self._arr("free"), regs))
        if freed:
            slots = 128
            while slots < 4 * len(self):
                slots *= 2
            self._rehash(slots)
        if 2 * regs[k.DEAD] > regs[k.HEAP]:
            self._compact()
        regs[k.LIVE_THEN] = len(self)
        regs[k.BYTES_THEN] = regs[k.HEAP] - regs[k.DEAD]
        return freed

    def _compact(self) -> None:
        regs = self._arr("regs")
        starts, lengths, heap = self.arrays()
        live = int(regs[k.HEAP] - regs[k.DEAD])
        packed = np.zeros(max(1024, live + (live >> 1)), np.uint8)
        k.compact_heap(starts, lengths, heap, packed, regs)
        self._scope["heap"] = packed


def validity(null: Bool | None) -> pa.Buffer | None:
    """An Arrow validity bitmap from a NULL mask."""
    if null is None or not null.any():
        return None
    return pa.py_buffer(np.packbits(~null, bitorder="little"))


def utf8_array(offsets: I64, data: U8, null: Bool | None) -> pa.Array:
    """A string array from its parts; large_string when it exceeds 2 GiB."""
    large = int(offsets[-1]) > _INT32_MAX
    places = offsets if large else offsets.astype(np.int32)
    type_ = pa.large_string() if large else pa.string()
    buffers = [validity(null), pa.py_buffer(places), pa.py_buffer(data)]
    return pa.Array.from_buffers(type_, offsets.shape[0] - 1, buffers)


def _bytes(buffer: bytes | pa.Buffer | None) -> U8:
    """A read-only view, so that kernels are compiled for one kind of array."""
    if buffer is None or not len(buffer):
        return np.frombuffer(b"-", np.uint8)[:0]
    view: U8 = np.frombuffer(buffer, np.uint8)
    view.flags.writeable = False
    return view


def utf8_buffers(array: pa.Array) -> tuple[I64, U8, Bool]:
    """Offsets, bytes and validity (empty: all valid) of a string array, slices included."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array) + 1, np.int64), _bytes(None), np.empty(0, np.bool_)
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.large_string())
    _, places, bytes_ = array.buffers()
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if places is None or not len(array):
        offsets = np.zeros(len(array) + 1, np.int64)
    else:
        first = array.offset * np.dtype(wide).itemsize
        offsets = np.frombuffer(places, wide, len(array) + 1, first).astype(np.int64)
    data = _bytes(bytes_)
    valid = np.empty(0, np.bool_)
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    return offsets, data, valid
