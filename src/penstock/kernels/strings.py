"""Kernels of the string table: interning UTF-8 bytes to codes, gathering them back, comparing.

Strings live in one byte heap; `starts` and `lengths` give the place of each code (length −1:
a free code). Code 0 is the empty string and never in the hash table, so 0 marks an empty slot
there. The table is flat: slot p holds the hash at 2p and the code at 2p + 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.arrays import I64, Bool
from penstock.kernels.jit import inlined, kernel

U8 = NDArray[np.uint8]

USED, FREE, HEAP, DEAD, LIVE_THEN, BYTES_THEN = 0, 1, 2, 3, 4, 5
"""Registers: codes ever used, free codes, heap bytes used, of these dead; live codes and bytes
after the last collection."""


@kernel
def load_word(data: U8, at: np.uint64) -> np.uint64:
    """Eight bytes from `at`, little-endian; unsigned indices let this compile to one load."""
    word = np.uint64(0)
    for k in range(8):
        byte = np.uint64(data[at + np.uint64(k)])
        word |= byte << np.uint64(8 * k)
    return word


@inlined
def copy_bytes(data: U8, start: int, to: U8, place: int, length: int) -> None:
    """Copy data[start : start + length] to `place`; unsigned indices let this be vectorised."""
    i, j = np.uint64(start), np.uint64(place)
    for k in range(np.uint64(length)):
        to[j + np.uint64(k)] = data[i + np.uint64(k)]


@kernel
def hash_bytes(data: U8, start: int, length: int) -> int:
    """A 64-bit hash of data[start : start + length], non-negative."""
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(length)
    at = np.uint64(start)
    for _ in range(length >> 3):
        h = (h ^ load_word(data, at)) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
        at += np.uint64(8)
    tail = np.uint64(0)
    for k in range(length & 7):
        tail |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
    h = (h ^ tail) * np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(32)
    return np.int64(h >> np.uint64(1))  # type: ignore[return-value]


@kernel
def same_bytes(a: U8, i: int, b: U8, j: int, length: int) -> bool:
    """Whether a[i : i + length] equals b[j : j + length]."""
    x, y = np.uint64(i), np.uint64(j)
    for _ in range(length >> 3):
        if load_word(a, x) != load_word(b, y):
            return False
        x += np.uint64(8)
        y += np.uint64(8)
    for k in range(length & 7):
        if a[x + np.uint64(k)] != b[y + np.uint64(k)]:
            return False
    return True


@kernel
def compare_strings(a: int, b: int, starts: I64, lengths: I64, heap: U8) -> int:
    """Order of the strings of codes `a` and `b` by UTF-8 bytes: −1, 0 or 1."""
    if a == b:
        return 0
    x, y = np.uint64(starts[a]), np.uint64(starts[b])
    common = min(lengths[a], lengths[b])
    done = 0
    while done + 8 <= common and load_word(heap, x) == load_word(heap, y):
        x += np.uint64(8)
        y += np.uint64(8)
        done += 8
    while done < common:
        if heap[x] != heap[y]:
            return -1 if heap[x] < heap[y] else 1
        x += np.uint64(1)
        y += np.uint64(1)
        done += 1
    if lengths[a] == lengths[b]:
        return 0
    return -1 if lengths[a] < lengths[b] else 1


@kernel
def compare_codes(a: I64, b: I64, starts: I64, lengths: I64, heap: U8) -> I64:
    """`compare_strings` of each pair; either side may be one code for all."""
    n = max(a.shape[0], b.shape[0])
    if a.shape[0] == 0 or b.shape[0] == 0:
        n = 0
    step_a, step_b = a.shape[0] > 1, b.shape[0] > 1
    out = np.empty(n, np.int64)
    for i in range(n):
        out[i] = compare_strings(
            a[i if step_a else 0], b[i if step_b else 0], starts, lengths, heap
        )
    return out


@kernel
def intern_utf8(
    offsets: I64, data: U8, valid: Bool, begin: int,
    table: I64, starts: I64, lengths: I64, heap: U8, free: I64, regs: I64, out: I64,
) -> int:  # fmt: skip
    """Codes of strings begin, begin + 1, … into `out`; returns where room ran out (or the end).

    String i is data[offsets[i] : offsets[i + 1]]; `valid` is empty when none is NULL.
    """
    n = out.shape[0]
    slots = table.shape[0] >> 1
    mask = slots - 1
    some_null = valid.shape[0] > 0
    for i in range(begin, n):
        start = offsets[i]
        length = offsets[i + 1] - start
        if length == 0 or (some_null and not valid[i]):
            out[i] = 0
            continue
        h = hash_bytes(data, start, length)
        pos = h & mask
        while True:
            code = table[2 * pos + 1]
            if code == 0:
                live = regs[USED] - regs[FREE]
                if (
                    2 * live >= slots
                    or (regs[FREE] == 0 and regs[USED] >= starts.shape[0])
                    or regs[HEAP] + length > heap.shape[0]
                ):
                    return int(i)
                if regs[FREE] > 0:
                    regs[FREE] -= 1
                    code = free[regs[FREE]]
                else:
                    code = regs[USED]
                    regs[USED] += 1
                table[2 * pos] = h
                table[2 * pos + 1] = code
                place = regs[HEAP]
                starts[code] = place
                lengths[code] = length
                copy_bytes(data, start, heap, place, length)
                regs[HEAP] += length
                break
            if (
                table[2 * pos] == h
                and lengths[code] == length
                and same_bytes(data, start, heap, starts[code], length)
            ):
                break
            pos = (pos + 1) & mask
        out[i] = code
    return int(n)


@kernel
def find_utf8(data: U8, table: I64, starts: I64, lengths: I64, heap: U8) -> int:
    """Code of the string `data`, −1 when it is not in the table."""
    length = data.shape[0]
    if length == 0:
        return 0
    mask = (table.shape[0] >> 1) - 1
    h = hash_bytes(data, 0, length)
    pos = h & mask
    while True:
        code = table[2 * pos + 1]
        if code == 0:
            return -1
        if (
            table[2 * pos] == h
            and lengths[code] == length
            and same_bytes(data, 0, heap, starts[code], length)
        ):
            return int(code)
        pos = (pos + 1) & mask


@kernel
def rehash(old: I64, new: I64, lengths: I64) -> None:
    """Move the entries of `old` with codes in use into the empty table `new`."""
    mask = (new.shape[0] >> 1) - 1
    for p in range(old.shape[0] >> 1):
        code = old[2 * p + 1]
        if code == 0 or lengths[code] < 0:
            continue
        pos = old[2 * p] & mask
        while new[2 * pos + 1] != 0:
            pos = (pos + 1) & mask
        new[2 * pos] = old[2 * p]
        new[2 * pos + 1] = code


@kernel
def text_offsets(codes: I64, lengths: I64) -> I64:
    """Offsets of the concatenation of all strings of `codes`."""
    out = np.empty(codes.shape[0] + 1, np.int64)
    total = 0
    out[0] = 0
    for i in range(codes.shape[0]):
        total += lengths[codes[i]]
        out[i + 1] = total
    return out


@kernel
def gather_utf8(codes: I64, offsets: I64, starts: I64, heap: U8) -> U8:
    """The strings of `codes` one after another."""
    out = np.empty(offsets[-1], np.uint8)
    for i in range(codes.shape[0]):
        copy_bytes(heap, starts[codes[i]], out, offsets[i], offsets[i + 1] - offsets[i])
    return out


@kernel
def sweep(marks: Bool, lengths: I64, free: I64, regs: I64) -> int:
    """Free every live code without a mark (codes beyond `marks` have none); return their number.

    Codes are pushed from the highest down, so that low ones are reused first.
    """
    freed = 0
    for code in range(regs[USED] - 1, 0, -1):
        if lengths[code] >= 0 and not (code < marks.shape[0] and marks[code]):
            regs[DEAD] += lengths[code]
            lengths[code] = -1
            free[regs[FREE]] = code
            regs[FREE] += 1
            freed += 1
    return freed


@kernel
def compact_heap(starts: I64, lengths: I64, old: U8, new: U8, regs: I64) -> None:
    """Copy the live strings of `old` into `new`, in code order."""
    place = 0
    for code in range(1, regs[USED]):
        if lengths[code] > 0:
            copy_bytes(old, starts[code], new, place, lengths[code])
            starts[code] = place
            place += lengths[code]
    regs[HEAP] = place
    regs[DEAD] = 0
