"""Arrays over mapped files: shared with every process that maps the same file.

An array made here records its file while it spans the whole file. Views keep the mapping alive,
not the file, which may be deleted at any time.
"""

from __future__ import annotations

import ctypes
import errno
import math
import mmap
import os
from typing import Any

import numpy as np

from penstock.state.arena import Array

# The mmap of Python (before 3.13), and so NumPy's, keeps a file open for each mapping, and
# a process may have more large arrays than it may have open files.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value

File = tuple[bytes, int]
"""The identity of a file, independent of its path: its series and its number there."""


class _Mapping:
    """The shared mapping of a file; it ends with the last view of its array."""

    def __init__(self, file: File, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.file = file
        self._address, self._size = address, size_of(shape, dtype)
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": dtype.str, "data": (address, False),
        }  # fmt: skip

    def __del__(self, unmap: Any = _libc.munmap) -> None:
        unmap(self._address, self._size)


def size_of(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array."""
    return math.prod(shape) * dtype.itemsize


def map_file(fd: int, file: File, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The array that is the content of an open file."""
    size = size_of(shape, dtype)
    if os.fstat(fd).st_size != size:
        raise ValueError(
            f"file {file[1]} is not of {size} bytes"
        )  # touching a missing page kills the process
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, fd, 0)
    if address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return np.asarray(_Mapping(file, address, shape, dtype))


def file_of(array: Array, series: bytes) -> int:
    """The number of the file that an array is; −1 for a part, another series or the heap."""
    if not isinstance(array.base, _Mapping):
        return -1
    own, number = array.base.file
    return number if own == series else -1


def data_ranges(fd: int) -> list[tuple[int, int]]:
    """Byte ranges of a file that are not holes."""
    size, end = os.fstat(fd).st_size, 0
    ranges: list[tuple[int, int]] = []
    while end < size:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole from here on
                return ranges
            return [(0, size)]  # this file system cannot tell
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        ranges.append((begin, end))
    return ranges
