"""The notice that kernels are being compiled: once, where there are none, and never for others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.kernels.compiling import NOTICE

OPEN = "import penstock; penstock.connect(runner='inprocess').close()\n"
COMPILE = "from penstock.kernels.sums import float_order\nfloat_order(1)\n"
OTHERS = "import numba\nnumba.njit(lambda x: x)(1)\n"


def said(code: str, cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, check=True, text=True, capture_output=True
    ).stderr


def test_the_first_process_that_compiles_says_so_once(tmp_path: Path) -> None:
    assert said(OPEN + OTHERS + COMPILE + "float_order(True)\n", tmp_path).splitlines() == [NOTICE]
    later = "import numpy\nfloat_order(numpy.uint8(1))\n"  # a kernel that was not there
    assert said(OPEN + COMPILE + later, tmp_path) == ""


def test_workers_and_the_command_that_warms_up_are_not_told(tmp_path: Path) -> None:
    assert said(COMPILE, tmp_path / "worker") == ""
    never = "from penstock.kernels.compiling import tell_never\ntell_never()\n"
    assert said(never + OPEN + COMPILE, tmp_path / "warm") == ""
