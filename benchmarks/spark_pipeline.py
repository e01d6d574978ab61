"""What the Spark benchmarks share: files of rows, sessions on local Spark, time per batch.

Each contender runs in a process of its own (a JVM keeps settings and warmth), over the same
files, one file per stream and batch. The first batches are not counted: they start workers, and
Java compiles what it runs often.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
BATCH_ROWS = 2_000_000
BATCHES, WARM = 10, 4
RATE = 10_000  # rows per second of event time
MINUTE = 60_000_000
COLUMNS = "k BIGINT, a BIGINT, b BIGINT, c BIGINT, ts TIMESTAMP"


def write_files(folder: Path, streams: tuple[str, ...], keys: int, rows: int, batches: int) -> None:
    """Files of (k, a, b, c, ts) in order of time, `rows` of all streams in a batch."""
    each = rows // len(streams)
    rng = np.random.default_rng(11)
    for batch in range(batches):
        for stream in streams:
            start = batch * each * len(streams) * (1_000_000 // RATE)
            ts = start + np.arange(each) * len(streams) * (1_000_000 // RATE)
            table = pa.table(
                {
                    "k": rng.integers(0, keys, each),
                    "a": rng.integers(0, 100, each),
                    "b": rng.integers(0, 100, each),
                    "c": rng.integers(0, 100, each),
                    "ts": pa.array(ts, pa.timestamp("us")),
                }
            )
            (folder / stream).mkdir(parents=True, exist_ok=True)
            path = folder / stream / f"{batch:03d}.parquet"
            pq.write_table(table, path, compression="snappy")
            os.utime(path, (batch + 1, batch + 1))  # Spark reads files by age


def open_session(folder: Path, streams: tuple[str, ...], cores: int = 2, **options: Any) -> Any:
    """A session on local Spark with streams that read the files, one per batch."""
    import penstock

    ps = penstock.connect(
        master=f"local[{cores},4]", shards=options.pop("shards", cores), keep_changes=0, **options
    )
    for stream in streams:
        ps.sql(
            f"CREATE STREAM {stream} ({COLUMNS}) TIMESTAMP BY ts FROM parquet "
            f"OPTIONS (path '{folder / stream}', maxFilesPerTrigger '1')"
        )
    return ps


@dataclass(slots=True)
class Passed:
    """Seconds of each batch with rows, and what came out."""

    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows per second in the median batch of those that count."""
        first = min(WARM, len(self.seconds) // 2)
        return self.rows / float(np.median(self.seconds[first:]))


def pass_files(ps: Any) -> Passed:
    """Run all files through; seconds are between ends of batches."""
    ends: list[tuple[float, dict[str, Any]]] = []
    ps.on_progress(lambda record: ends.append((time.perf_counter(), record)))
    start = time.perf_counter()
    ps.flush()
    batches = [(at, record) for at, record in ends if record["rows_in"]]
    times = [start, *(at for at, _ in batches)]
    passed = Passed([b - a for a, b in pairwise(times)])
    passed.rows = batches[-1][1]["rows_in"]
    passed.facts = {"progress": [record for _, record in batches]}
    return passed


def apart(module: str, *arguments: str, environment: dict[str, str] | None = None) -> Any:
    """Run `module` in its own process; it prints one line of JSON last."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **(environment or {})}
    for name in [n for n in env if n.endswith("_NUM_THREADS")]:
        env.pop(name)  # workers are one thread each, but Spark counts cores itself
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(arguments)} failed")
    return json.loads(done.stdout.strip().splitlines()[-1])


def with_files(streams: tuple[str, ...], keys: int, run: Callable[[Path], Any],
               rows: int = BATCH_ROWS, batches: int = BATCHES) -> Any:  # fmt: skip
    """What `run` gives over fresh files."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        write_files(Path(name), streams, keys, rows, batches)
        return run(Path(name))
