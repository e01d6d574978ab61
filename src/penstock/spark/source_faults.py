"""A source that fails is paused, and the job continues without it.

The plan of its batch is undone, unless results of the batch may be visible: then the batch must
be repeated unchanged, and the job stops with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.errors import PenstockError
from penstock.spark.config import SparkError
from penstock.spark.manifest import Manifests
from penstock.spark.replan import take_back
from penstock.spark.source_set import Slot, SourceSet


class SourceFaults:
    """Finds the source of an error; calls `replanned` if the plan of a batch is undone."""

    def __init__(
        self, sources: SourceSet, spark: Path, manifests: Manifests, replanned: Callable[[], None]
    ) -> None:
        self._sources = sources
        self._spark = spark
        self._manifests = manifests
        self._replanned = replanned
        self._ran = False  # whether the batch has results: later errors are not from a source

    def begin(self, batch: int) -> None:
        """A batch begins, perhaps again."""
        self._ran = self._manifests.has_run(batch)

    def end_run(self, batch: int) -> None:
        """The batch has results: from now on it must be repeated unchanged."""
        self._manifests.note_run(batch)
        self._ran = True

    def blames(self, error: Exception) -> bool:
        """Whether a query failed because of sources that the job can run without."""
        found = isinstance(error, PenstockError) and self._sources.blamed(error)
        return bool(found) and not self._ran

    def mend(self, error: Exception) -> bool:
        """Pause the sources that ended a query, and undo their batch; False if there are none."""
        if not isinstance(error, PenstockError) or not self.blames(error):
            return False
        streams = self._sources.blamed(error)
        if not self._take_back():
            return False
        self._sources.fail(streams, error)
        return True

    def _take_back(self) -> bool:
        if not take_back(self._spark, self._manifests):
            return False
        self._replanned()
        return True

    def open(self, streams: list[str]) -> list[Slot]:
        """The sources of a start; undo a batch that has rows of a paused source."""
        slots = self._sources.open(streams)
        found = self._sources.in_the_way()
        if found is None:
            return slots
        if not self._take_back():
            raise SparkError(
                f"the last batch must be repeated, but stream {found[0]} is paused: {found[1]}",
                code="PS-SRC-007",
                remedy=f"repair its source, then ALTER STREAM {found[0]} RESUME",
            )
        return self._sources.open(streams)  # a source of that batch alone needs no stand-in
