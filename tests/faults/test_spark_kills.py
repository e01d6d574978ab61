"""The JVM, the daemon of the workers, all at once, and SIGTERM: the ledger holds afterwards.

`tests/spark/test_kill.py` kills drivers and workers at every point; here the rest dies.
PENSTOCK_FAULTS=all (`make faults`) kills them at several points each.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from spark import ledger
from spark.test_kill import TIMES, start

ALL = os.environ.get("PENSTOCK_FAULTS") == "all"
Fault = tuple[str, int, str, str]  # point, at which time, who, by which signal
FEW: list[list[Fault]] = [
    [
        ("apply", 4, "jvm", "SIGKILL"),
        ("stored", 5, "all", "SIGKILL"),
        ("delivered", 1, "driver", "SIGTERM"),
        ("worker", 5, "daemon", "SIGKILL"),
    ]
]


def many(seed: int = 11) -> list[list[Fault]]:
    """Every victim and signal at several points, a few to a directory."""
    rng = random.Random(seed)
    victims = [
        ("jvm", "SIGKILL"), ("jvm", "SIGTERM"), ("all", "SIGKILL"), ("all", "SIGTERM"),
        ("driver", "SIGTERM"),
    ]  # fmt: skip
    points = [point for point, n in TIMES.items() if n > 1]
    made: list[list[Fault]] = []
    for _ in range(4):
        rng.shuffle(victims)
        group = [(p := rng.choice(points), 1 + rng.randrange(TIMES[p]), *v) for v in victims]
        made.append(
            [*group, ("worker", 1 + rng.randrange(8), "daemon", rng.choice(["SIGKILL", "SIGTERM"]))]
        )
    return made


def check_said(directory: Path, n: int, fault: Fault | None) -> None:
    """A driver that lived on without its JVM says so clearly."""
    said = (directory / f"output-{n}").read_text()
    raised = [line for line in said.splitlines() if line.startswith("penstock.")]
    assert raised, f"{fault}: {said[-3000:]}"
    assert "[PS-SPARK-" in raised[-1], f"{fault}: {said[-3000:]}"


@pytest.mark.parametrize(
    "faults", many() if ALL else FEW, ids=lambda f: "+".join(f"{p}.{n}.{v}" for p, n, v, _ in f)
)
def test_the_ledger_holds_whatever_dies(tmp_path: Path, faults: list[Fault]) -> None:
    ledger.make_input(tmp_path, seed=7, files=10 if ALL else 6)
    died = 0
    for n, fault in enumerate([*faults, None]):
        settings = (
            {} if fault is None else {"PENSTOCK_VICTIM": fault[2], "PENSTOCK_SIGNAL": fault[3]}
        )
        code = start(tmp_path, None if fault is None else fault[:2], n, **settings)
        if code == 0:
            break
        died += 1
        if code not in (-signal.SIGKILL, -signal.SIGTERM):
            check_said(tmp_path, n, fault)
    assert died >= min(3, len(faults) - 1), "the input was too short for so many kills"
    ledger.check(tmp_path)
