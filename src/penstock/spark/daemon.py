"""Spark's Python daemon with the engine imported, so that forked workers have it at once."""

from __future__ import annotations

import gc

from pyspark import daemon

from penstock.spark import log_source, pack, shard_batch  # noqa: F401

if __name__ == "__main__":
    gc.freeze()  # a worker collects after every task, and need not look at what never goes
    daemon.manager()
