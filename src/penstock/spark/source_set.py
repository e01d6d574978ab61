"""The external sources of a job: which there are, and which the running query reads.

Spark takes another source into a running job when it is started again and all sources have names
(`Source.can_be_named`). It is read from the batch on that has the entry which declares its stream,
or a later one: before, no shard would know what to do with its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import StateError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.sources import Source

_REMEDY = (
    "declare it before the first flush() or start(), or give every source of your DataFrames "
    "a name (spark.readStream.name(…), which needs the setting "
    "spark.sql.streaming.queryEvolution.enableSourceEvolution); push() needs no source"
)


class SourceSet:
    """Sources by the names of their streams."""

    def __init__(self, checkpoint: Checkpoint, sources: dict[str, Source]) -> None:
        self._checkpoint = checkpoint
        self._sources = sources
        self._declared = dict.fromkeys(sources, 0)
        self._read: frozenset[str] = frozenset()

    def __contains__(self, stream: object) -> bool:
        return stream in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def by_name(self) -> bool:
        """Whether Spark tells the sources apart by name."""
        return self._checkpoint.identity.by_name

    def add(self, stream: str, source: Source, entry: int) -> None:
        """A source whose stream an entry declares."""
        identity = self._checkpoint.identity
        if identity.sources is not None and stream not in identity.sources:
            if not identity.by_name:
                why = "the job was started with a source that has no name"
            elif not source.can_be_named():
                why = "its DataFrame reads a source that has no name"
            else:
                why = ""
            if why:
                raise StateError(
                    f"stream {stream} comes after the job was started, and cannot join it: {why}",
                    code="PS-STATE-008",
                    remedy=_REMEDY,
                )
        self._sources[stream] = source
        self._declared[stream] = entry

    def begin(self, last: int) -> dict[str, Source]:
        """The sources of a start whose first batch takes entries up to `last`."""
        known = self._checkpoint.identity.sources or ()
        chosen = {
            stream: source
            for stream, source in sorted(self._sources.items())
            if stream in known or self._declared[stream] <= last
        }
        named = all(source.can_be_named() for source in chosen.values())
        self._checkpoint.note_sources(tuple(chosen), named)
        self._read = frozenset(chosen)
        return chosen

    def waits_for(self) -> int:
        """The entry after which the query must start again to read all; 0 when it does."""
        missing = self._sources.keys() - self._read
        return max((self._declared[stream] for stream in missing), default=0)
