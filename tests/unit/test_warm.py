"""`penstock.warm` compiles every kernel that Python calls: no user waits for one."""

from __future__ import annotations

import subprocess
import sys

ASKED_FOR_BY_NOBODY = {
    "penstock.kernels.prefix.shown_rows",  # negations are expiring below joins, which do not ask
    "penstock.kernels.stem_runs.count_keys",  # of SteMs by key and order: no plan asks for one yet
    "penstock.kernels.stem_runs.key_words",
}


def test_no_kernel_is_cold() -> None:
    command = [sys.executable, "-m", "tests.unit.cold_kernels"]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    assert set(run.stdout.splitlines()) == ASKED_FOR_BY_NOBODY
