"""Kernels come from the disk where they have been compiled before."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from penstock.kernels import routing

SCRIPT = """
from penstock.kernels import jit, routing
assert jit.load_compiled() > 0
assert routing.shards_of.overloads
assert not any(made.stats.cache_misses for made in jit._KERNELS)
assert jit.load_compiled() == 0
"""


def test_what_is_on_disk_is_loaded_and_nothing_compiled() -> None:
    routing.shards_of(np.arange(3, dtype=np.uint64), 2)
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
