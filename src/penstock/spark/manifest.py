"""Batch manifests: the inputs of a batch besides its data (docs/design/0004-spark.md).

`foreachBatch(N)` writes manifest N before the batch runs, and the first writer wins, so a rerun
repeats the batch. When the batch is done, a mark records how far it came; the next batch starts
there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from penstock.arrays import BEGINNING
from penstock.shards.intake import Intake, Moment
from penstock.shards.messages import Counts
from penstock.state.sealed import read_object, staged

KEEP = 100
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch: entries `first` to `last`, and how external rows are admitted."""

    batch: int
    first: int
    last: int
    wall: int  # µs
    intakes: Mapping[str, Intake] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)  # of Spark: checksums

    def moment(self, stream: str) -> Moment:
        """The constants of the batch for a stream."""
        return Moment(self.watermarks.get(stream, BEGINNING), self.wall, self.last)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a batch came: its last entry, watermarks of all streams, rows of external ones."""

    batch: int
    last: int
    watermarks: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)

    def without(self, streams: Container[str]) -> Mark:
        """The mark without dropped streams; a new stream of the same name is another stream."""
        return replace(
            self,
            watermarks={s: mark for s, mark in self.watermarks.items() if s not in streams},
            counts={s: count for s, count in self.counts.items() if s not in streams},
        )

    @property
    def kept_out(self) -> int:
        """How many rows of external streams were kept out up to here."""
        return sum(c.late + c.quarantined for c in self.counts.values())

    def after(self, batch: int, last: int, statuses: Iterable[Mapping[str, Any]]) -> Mark:
        """The mark of the next batch, from the reports of its shards."""
        watermarks, counts = dict(self.watermarks), dict(self.counts)
        for status in statuses:
            watermarks.update(status["watermarks"])
            for stream, more in status["counts"].items():
                counts[stream] = counts.get(stream, Counts()) + more
        return Mark(batch, last, watermarks, counts)


class Manifests:
    """The manifests and marks of a checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def propose(self, manifest: Manifest) -> Manifest:
        """Write a manifest unless one exists; returns the valid one."""
        return self._settle(f"{manifest.batch}.batch", manifest)

    def find(self, batch: int) -> Manifest | None:
        """The manifest of a batch; None if it was not written."""
        path = self.directory / f"{batch}.batch"
        return _load(path, Manifest) if path.exists() else None

    def read(self, batch: int) -> Manifest:
        """The manifest of a batch."""
        return _load(self.directory / f"{batch}.batch", Manifest)

    def note_run(self, batch: int) -> None:
        """Record that a batch has results, which users may see from now on."""
        (self.directory / f"{batch}.ran").touch()

    def has_run(self, batch: int) -> bool:
        """Whether results of a batch may be visible, so that it must be repeated unchanged."""
        return any((self.directory / f"{batch}.{kind}").exists() for kind in ("ran", "done"))

    def forget(self, batch: int) -> None:
        """Let a batch be planned again."""
        (self.directory / f"{batch}.batch").unlink(missing_ok=True)

    def finish(self, mark: Mark) -> None:
        """Record that a batch is done, and delete old records."""
        self._settle(f"{mark.batch}.done", mark)
        (self.directory / f"{mark.batch}.ran").unlink(missing_ok=True)
        for kind in ("batch", "done"):
            (self.directory / f"{mark.batch - KEEP}.{kind}").unlink(missing_ok=True)

    def mark(self, batch: int) -> Mark:
        """The mark of a batch."""
        return _load(self.directory / f"{batch}.done", Mark)

    def last_mark(self) -> Mark | None:
        """The mark of the last completed batch."""
        done = [int(p.stem) for p in self.directory.glob("*.done")]
        return self.mark(max(done)) if done else None

    def kept_out(self, first: int) -> list[int]:
        """Batches from `first` on that kept rows out, as far as their marks are still there."""
        done = {int(p.stem) for p in self.directory.glob("*.done")}
        pairs = [(n, self.mark(n), self.mark(n - 1)) for n in done if n >= first and n - 1 in done]
        return sorted(n for n, mark, before in pairs if mark.kept_out > before.kept_out)

    def newest(self) -> Manifest | None:
        """The manifest of the newest batch, done or not."""
        begun = [int(p.stem) for p in self.directory.glob("*.batch")]
        return self.read(max(begun)) if begun else None

    def _settle(self, name: str, value: T) -> T:
        path = self.directory / name
        with staged(path, pickle.dumps(value)) as beside:
            try:
                os.link(beside, path)
            except FileExistsError:
                return _load(path, type(value))
        return value


def _load(path: Path, kind: type[T]) -> T:
    return read_object(path, kind, kind.__name__)
