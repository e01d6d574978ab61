"""Batches of changes as files of a directory, each batch exactly once (DESIGN §5.6 point 6).

Spark writes a batch into a staging directory. Then the sink writes the list of its files, renames
them into place, and marks the batch done. A repeated batch is skipped if it is done; if it is only
listed, its renames are finished; otherwise it is staged again. File names contain the writer
(checkpoint and sink), so that writers that share a directory never collide.

    out/part-<batch>-<writer>-<n>.parquet
    out/_penstock/<checkpoint>-<sink>/     opened, <batch>.list, <batch>.done, staging/
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.errors import DataError
from penstock.spark.storage import Directory

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
FORMATS: Mapping[str, Mapping[str, str]] = {
    "parquet": {"compression": "zstd"},
    "json": {"ignoreNullFields": "false", "timestampNTZFormat": MICROSECONDS},
    "csv": {
        "header": "true",
        "escape": '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "timestampNTZFormat": MICROSECONDS,
    },
}
"""Options of Spark's writers that keep all values and suit other readers."""
_FILE_BYTES = 32 << 20
_BATCH_FILE = re.compile(r"part-\d{12}(-[0-9a-f]+-\d+)?\.(parquet|json|csv)")
_MARK = re.compile(r"(\d{12})\.done")


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of files: a checkpoint and a sink in it."""

    checkpoint: str
    sink: str

    @property
    def home(self) -> str:
        """Its own directory."""
        return f"_penstock/{self.checkpoint}-{quote(self.sink, safe='')}"

    @property
    def tag(self) -> str:
        """The writer's part of its file names."""
        return hashlib.sha256(self.home.encode()).hexdigest()[:8]


class BatchFiles:
    """A file sink; a `new` one does not continue what a dropped sink of its name has left."""

    def __init__(
        self, spark: SparkSession, writer: Writer, kind: str, path: str, mode: str, new: bool
    ) -> None:
        self._writer = writer
        self._kind = kind
        self._directory = Directory(spark, path)
        self._home = writer.home
        self._staging = f"{self._home}/staging"
        if new or not self._directory.exists(f"{self._home}/opened"):
            self._begin(mode)
        marks = (_MARK.fullmatch(name) for name in self._directory.sizes(self._home))
        self._done = max((int(m[1]) for m in marks if m), default=-1)

    def _begin(self, mode: str) -> None:
        """Check the directory, and delete a batch that a dropped sink has not finished."""
        directory = self._directory
        directory.make()
        old = [name for name in directory.sizes() if _BATCH_FILE.fullmatch(name)]
        if old and mode == "error":
            raise DataError(
                f"{directory.path} already holds {len(old)} files of batches",
                code="PS-SINK-006",
                remedy="choose an empty directory, or mode 'append' or 'overwrite'",
            )
        if mode == "overwrite":
            for name in old:
                directory.delete(name)
        for name in directory.sizes(self._home):
            if not _MARK.fullmatch(name):
                directory.delete(f"{self._home}/{name}")
        directory.write(f"{self._home}/opened", b"")

    def write(self, frame: DataFrame, batch: int, weight: int) -> None:
        """Write a batch of about `weight` bytes into the directory."""
        if batch <= self._done:
            return
        listed = self._listed(batch)
        if listed is None or not self._move(listed):
            self._move(self._stage(frame, batch, weight))
        self._finish(batch)

    def _stage(self, frame: DataFrame, batch: int, weight: int) -> dict[str, str]:
        """Stage the batch and write its list: final names by staged ones."""
        directory = self._directory
        directory.delete(self._staging)
        rows = Observation()
        seen = in_order(frame, weight).observe(rows, F.count(F.lit(1)).alias("rows"))
        writer = seen.write.format(self._kind).options(**FORMATS[self._kind])
        writer.mode("overwrite").save(directory.at(self._staging))
        sizes = directory.sizes(self._staging) if rows.get["rows"] else {}
        files = sorted(name for name, size in sizes.items() if name.startswith("part-") and size)
        listed = {
            name: f"part-{batch:012d}-{self._writer.tag}-{n}.{self._kind}"
            for n, name in enumerate(files)
        }
        directory.delete(self._list(batch))
        directory.write(self._list(batch), json.dumps(listed).encode())
        return listed

    def _list(self, batch: int) -> str:
        return f"{self._home}/{batch:012d}.list"

    def _listed(self, batch: int) -> dict[str, str] | None:
        name = self._list(batch)
        if not self._directory.exists(name):
            return None
        found: dict[str, str] = json.loads(self._directory.read(name))
        return found

    def _move(self, listed: dict[str, str]) -> bool:
        """Rename the files that are not in place yet; False, and no files, if one is lost."""
        directory = self._directory
        staged = directory.sizes(self._staging)
        if any(a not in staged and not directory.exists(b) for a, b in listed.items()):
            for name in listed.values():
                directory.delete(name)
            return False
        for name, final in listed.items():
            if name in staged:
                directory.delete(final)  # may be half a copy, on file systems where a rename copies
                directory.rename(f"{self._staging}/{name}", final)
        return True

    def _finish(self, batch: int) -> None:
        done = f"{batch:012d}.done"
        self._directory.write(f"{self._home}/{done}", b"")
        self._done = batch
        for name in self._directory.sizes(self._home):
            if name not in ("opened", done):
                self._directory.delete(f"{self._home}/{name}")


def in_order(frame: DataFrame, weight: int) -> DataFrame:
    """Changes in order, in a number of parts that suits their weight."""
    parts = 1 + weight // _FILE_BYTES
    return frame.coalesce(parts).sortWithinPartitions("_time", "_seq")
