"""Spark's Python daemon with the engine imported, so that forked workers start with it."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

from pyspark import daemon

from penstock.spark import log_source, pack, shard_batch  # noqa: F401

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_KEPT = 256 << 20


def keep_memory() -> None:
    """Let workers keep freed memory for the next batch, which is faster than getting it again."""
    with suppress(AttributeError):  # another libc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _KEPT)


if __name__ == "__main__":
    keep_memory()
    gc.freeze()  # a worker collects after every task; skip objects that never go
    daemon.manager()
