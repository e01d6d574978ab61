"""The demo's traffic as files that a streaming source reads in order, a few per batch."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq

from penstock.inprocess.demo_traffic import LINKS, START_US, Traffic

SOURCE = " FROM parquet OPTIONS (path '{path}', maxFilesPerTrigger 1)"
_FILES = 10  # per link, and so about as many batches


def batch_rows(traffic: Traffic) -> int:
    """Rows of all links in a batch; what is generated depends on it."""
    return max(len(LINKS), -(-traffic.rows // _FILES))


def write_files(traffic: Traffic, folder: Path) -> int:
    """Write a folder of Parquet files per link; how many files there are."""
    for link in LINKS:
        (folder / link).mkdir()
    written = dict.fromkeys(LINKS, 0)
    for link, rows in traffic.batches(batch_rows(traffic)):
        path = folder / link / f"{written[link]:06d}.parquet"
        pq.write_table(rows, path)
        # Spark takes files in the order of their age
        age = START_US // 1_000_000 + written[link]
        os.utime(path, (age, age))
        written[link] += 1
    return sum(written.values())
