"""Spark's Python daemon with engine and kernels loaded, so that forked workers have them."""

from __future__ import annotations

import gc

from pyspark import daemon

from penstock.kernels.jit import load_compiled
from penstock.spark import log_source, pack, shard_batch  # noqa: F401

if __name__ == "__main__":
    load_compiled()
    gc.freeze()  # a worker collects after every task, and need not look at what never goes
    daemon.manager()
