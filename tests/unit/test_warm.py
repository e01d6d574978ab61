"""`penstock.warm` compiles every kernel that Python calls: no user waits for one."""

from __future__ import annotations

import subprocess
import sys

ASKED_FOR_BY_NOBODY = {
    "penstock.kernels.prefix.shown_rows",  # negations are expiring below joins, which do not ask
    # the affected queries alone, and histograms of other kinds: benchmarks ask
    "penstock.kernels.pairs.histogram.count_between",
    "penstock.kernels.pairs.histogram.count_values",
    "penstock.kernels.pairs.histogram.cut_groups",
    "penstock.kernels.pairs.histogram.widths",
    "penstock.kernels.pairs.ssi.affected_prefixes",
    "penstock.kernels.pairs.ssi_own.affected_slots",
    "penstock.kernels.pairs.ssi_windows.affected_in_windows",
    "penstock.kernels.pairs.stabbing.fewest_groups",  # of tests
}


def test_no_kernel_is_cold() -> None:
    command = [sys.executable, "-m", "tests.unit.cold_kernels"]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    assert set(run.stdout.splitlines()) == ASKED_FOR_BY_NOBODY
