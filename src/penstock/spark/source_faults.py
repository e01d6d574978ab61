"""A source that fails is paused, and the job goes on without it.

The batch that had its rows is taken back, unless users may have seen its results: then it has
to be run as it was, and the job stops with the reason.
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
    """Finds the source that an error comes from; `replanned` hears of a batch taken back."""

    def __init__(
        self, sources: SourceSet, spark: Path, manifests: Manifests, replanned: Callable[[], None]
    ) -> None:
        self._sources = sources
        self._spark = spark
        self._manifests = manifests
        self._replanned = replanned
        self._ran = False  # whether the batch has results: what fails then is no source

    def begin(self, batch: int) -> None:
        """A batch begins, perhaps once more."""
        self._ran = self._manifests.has_run(batch)

    def end_run(self, batch: int) -> None:
        """A batch has results: from now on it is run again as it was."""
        self._manifests.note_run(batch)
        self._ran = True

    def blames(self, error: Exception) -> bool:
        """Whether a query fails because of sources that it can do without."""
        found = isinstance(error, PenstockError) and self._sources.blamed(error)
        return bool(found) and not self._ran

    def mend(self, error: Exception) -> bool:
        """Pause the sources that ended a query, and take their batch back; False: no such."""
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
        """The sources of a start; a batch with rows of one that is paused is taken back."""
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
