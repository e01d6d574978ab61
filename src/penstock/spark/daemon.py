"""Spark's Python daemon with the engine imported, so that forked workers have it at once."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

from pyspark import daemon

from penstock.spark import log_source, pack, shard_batch  # noqa: F401

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h
_KEPT = 256 << 20


def keep_memory() -> None:
    """Workers keep freed memory for the next batch: to get it anew costs more than to fill it."""
    with suppress(AttributeError):  # another libc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _KEPT)


if __name__ == "__main__":
    keep_memory()
    gc.freeze()  # a worker collects after every task, and need not look at what never goes
    daemon.manager()
