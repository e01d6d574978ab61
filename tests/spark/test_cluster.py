"""A cluster that speculates: it does not matter who runs a shard, how often, or who wins.

Spark does not speculate on the host of the first attempt, so the workers have addresses of
their own, 127.0.0.2 and 127.0.0.3.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from spark import ledger

HERE = Path(__file__).parent
PATIENCE = 900  # seconds
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
OPTIONS = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.1",
}


@pytest.mark.skipif(sys.platform != "linux", reason="others have no address 127.0.0.2")
def test_the_ledger_holds_on_a_cluster_that_speculates(tmp_path: Path) -> None:
    ledger.make_input(tmp_path, seed=8, files=4)
    attempts, rubbish = tmp_path / "attempts", tmp_path / "tmp"
    rubbish.mkdir()
    paths = [HERE / "stragglers", HERE.parent, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {
        **os.environ,
        "PENSTOCK_APP_OPTIONS": json.dumps(OPTIONS),
        "PENSTOCK_ATTEMPTS": str(attempts),
        "PYTHONPATH": os.pathsep.join(str(p) for p in paths if str(p)),
        "TMPDIR": str(rubbish),
    }
    with cluster(tmp_path, environment) as environment["PENSTOCK_APP_MASTER"]:
        done = subprocess.run(
            [sys.executable, str(HERE / "driver_app.py"), str(tmp_path)],
            env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert attempts.exists(), "Spark has not speculated"
    ledger.check(tmp_path)


@contextmanager
def cluster(directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and two workers with a core each; the master's address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    worker = ("worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0")
    started = [("127.0.0.1", ("master.Master", "--port", str(port), "--webui-port", "0"))]
    started += [(f"127.0.0.{n}", (*worker, "--work-dir", str(directory), master)) for n in (2, 3)]
    running = []
    try:
        for host, (name, *arguments) in started:
            command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--host", host]
            with (directory / f"{host}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [*command, *arguments], stdout=log, stderr=log,
                        env={**environment, "SPARK_LOCAL_IP": host},
                    )
                )  # fmt: skip
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(PATIENCE)
