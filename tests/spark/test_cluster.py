"""Two executors that speculate: it does not matter who runs a shard, how often, or who wins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from spark import ledger

HERE = Path(__file__).parent
PATIENCE = 900  # seconds
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.1",
}


def test_the_ledger_holds_on_executors_that_speculate(tmp_path: Path) -> None:
    ledger.make_input(tmp_path, seed=8, files=6)
    home, attempts, rubbish = (tmp_path / name for name in ("home", "attempts", "tmp"))
    for folder in (home, rubbish):
        folder.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)  # executors leave their logs in Spark's home
    paths = [HERE / "stragglers", HERE.parent, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    shared = {
        "PYTHONPATH": os.pathsep.join(str(p) for p in paths if str(p)),
        "PENSTOCK_ATTEMPTS": str(attempts),
    }
    options = {
        **SPECULATION,
        "spark.executor.memory": "512m",
        **{f"spark.executorEnv.{name}": value for name, value in shared.items()},
    }
    environment = os.environ | shared | {
        "TMPDIR": str(rubbish),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PENSTOCK_APP_MASTER": "local-cluster[2,1,1024]",
        "PENSTOCK_APP_OPTIONS": json.dumps(options),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(HERE / "driver_app.py"), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert attempts.exists(), "Spark has not speculated"
    ledger.check(tmp_path)
