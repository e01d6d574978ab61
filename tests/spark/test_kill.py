"""kill -9 of the driver and of workers at seeded points; the ledger holds afterwards.

A start of Spark takes seconds, so one directory is killed at several points, one after another,
and then brought to its end. PENSTOCK_KILL=all (`make kill`) takes all points.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark import ledger

HERE = Path(__file__).parent
PATIENCE = 900  # seconds for one start
FEW = [[("planned", 2), ("moved", 4), ("done", 2), ("worker", 9)]]
"""Points for `make test`, and at which time that they are reached."""
TIMES = {  # of the driver: within how many times
    "offset": 6, "planned": 2, "manifest": 2, "apply": 9, "stored": 9, "results": 2, "staged": 6,
    "moved": 6, "sinks": 2, "delivered": 2, "done": 2, "append": 4, "appended": 4, "saving": 1,
}  # fmt: skip
WORKER_TIMES = {"worker": 9, "worker-stored": 9}
ALL = os.environ.get("PENSTOCK_KILL") == "all"


def many(seed: int = 5) -> list[list[tuple[str, int]]]:
    """Every point twice, four to a directory; a worker last, because the driver lives on."""
    rng = random.Random(seed)

    def seeded(times: dict[str, int]) -> list[tuple[str, int]]:
        found = [(point, 1 + rng.randrange(n)) for point, n in times.items() for _ in range(2)]
        rng.shuffle(found)
        return found

    points, workers = seeded(TIMES), seeded(WORKER_TIMES)
    groups = [points[at : at + 4] for at in range(0, len(points), 4)]
    return [group + workers[n : n + 1] for n, group in enumerate(groups)]


def start(directory: Path, fault: tuple[str, int] | None, n: int, **settings: str) -> int:
    """Run the application, to its end or to its death; settings are of the environment."""
    environment = dict(os.environ)
    environment.pop("PENSTOCK_FAULT", None)
    paths = [HERE / "faults", HERE.parent, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(str(p) for p in paths if str(p))
    rubbish = directory / "tmp"  # what a killed driver leaves
    rubbish.mkdir(exist_ok=True)
    environment |= {"TMPDIR": str(rubbish), "SPARK_LOCAL_DIRS": str(rubbish)}
    if fault is not None:
        environment["PENSTOCK_FAULT"] = f"{fault[0]}:{fault[1]}:{directory / f'count-{n}'}"
    environment |= settings
    environment["PENSTOCK_LATE"] = str(directory / "late")  # a process, once
    with (directory / f"output-{n}").open("wb") as output:
        return subprocess.run(
            [sys.executable, str(HERE / "driver_app.py"), str(directory)],
            env=environment, stdout=output, stderr=output, timeout=PATIENCE, check=False,
        ).returncode  # fmt: skip


@pytest.mark.parametrize(
    "points", many() if ALL else FEW, ids=lambda p: "+".join(f"{k}.{n}" for k, n in p)
)
def test_the_ledger_holds_after_kills(tmp_path: Path, points: list[tuple[str, int]]) -> None:
    ledger.make_input(tmp_path, seed=sum(n for _, n in points), files=10 if ALL else 6)
    killed = 0
    for n, fault in enumerate([*points, None]):
        code = start(tmp_path, fault, n)
        said = (tmp_path / f"output-{n}").read_text()
        assert code in (0, -signal.SIGKILL), f"{fault}: {said[-3000:]}"
        killed += code != 0
        if code == 0:
            break
    drivers = [point for point, _ in points if not point.startswith("worker")]
    assert killed >= min(3, len(drivers)), "the input was too short for so many kills"
    if killed == len(drivers) < len(points):
        reached = (tmp_path / f"count-{killed}").stat().st_size
        assert reached >= points[-1][1], "no worker was killed"
    assert (tmp_path / "late").exists(), "no process was too late for Spark"
    ledger.check(tmp_path)
