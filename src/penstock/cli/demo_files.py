"""The demo's traffic as files that a streaming source reads in order, a few per batch."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from penstock.cli.demo_traffic import LINKS, START_US, Traffic

SOURCE = " FROM parquet OPTIONS (path '{path}', maxFilesPerTrigger 1)"
_BATCHES = 5
_MOST_ROWS = 2_000_000  # in a batch


def batch_rows(traffic: Traffic) -> int:
    """Rows of all links in a batch; what is generated depends on it."""
    return min(_MOST_ROWS, max(len(LINKS), -(-traffic.rows // _BATCHES)))


def write_files(traffic: Traffic, folder: Path, console: Console) -> int:
    """Write a folder of Parquet files per link, under a progress bar; how many files there are."""
    for link in LINKS:
        (folder / link).mkdir()
    written = dict.fromkeys(LINKS, 0)
    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=traffic.rows)
        for link, rows in traffic.batches(batch_rows(traffic)):
            path = folder / link / f"{written[link]:06d}.parquet"
            pq.write_table(rows, path)
            # Spark takes files in the order of their age
            age = START_US // 1_000_000 + written[link]
            os.utime(path, (age, age))
            written[link] += 1
            bar.update(task, advance=rows.num_rows)
    return sum(written.values())
