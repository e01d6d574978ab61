"""The external sources of a job, and those that the running query reads.

A restart of the query can add or remove sources if all sources have names
(`Source.can_be_named`). A source is read at the earliest from the batch with the entry that
declares its stream: before that, no shard knows the stream. A paused source is not read; a
stand-in keeps its place (`stand_in.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from penstock.errors import PenstockError, StateError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.paused import Paused, blamed, paused_by_failure
from penstock.spark.replan import forget_found, offsets, reads_on
from penstock.spark.sources import Source, source_name

_REMEDY = (
    "declare it before the first flush() or start(), or give every source of your DataFrames "
    "a name (spark.readStream.name(…), which needs the setting "
    "spark.sql.streaming.queryEvolution.enableSourceEvolution); push() needs no source"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A source of a start: its stream, its name in Spark, and its frame (None: a stand-in)."""

    stream: str
    names: tuple[str | None, ...]
    source: Source | None
    frame: DataFrame | None


class SourceSet:
    """Sources by the names of their streams."""

    def __init__(self, checkpoint: Checkpoint, sources: dict[str, Source]) -> None:
        self._checkpoint = checkpoint
        self._sources = sources
        self._declared = dict.fromkeys(sources, 0)
        self._former: dict[str, list[Source]] = {}  # earlier sources of the same streams
        self._read: dict[str, Source | None] = {}  # of the query that runs; None: stand-ins
        self._failures: dict[str, int] = {}  # in a row, by stream
        self.paused: dict[str, Paused] = {}

    def __contains__(self, stream: object) -> bool:
        return stream in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    @property
    def by_name(self) -> bool:
        """Whether Spark identifies the sources by name."""
        return self._checkpoint.identity.by_name

    # ---- coming and going ------------------------------------------------------------
    def add(self, stream: str, source: Source, entry: int) -> None:
        """Add the source of a stream that an entry declares."""
        why = self._why_not(stream, source, entry)
        if why:
            raise StateError(
                f"stream {stream} cannot be added to a job that was started without it: {why}",
                code="PS-STATE-008",
                remedy=_REMEDY,
            )
        if stream in self._sources:
            self._former.setdefault(stream, []).append(self._sources[stream])
        self._sources[stream] = source
        self._declared[stream] = entry

    def _why_not(self, stream: str, source: Source, entry: int) -> str:
        identity = self._checkpoint.identity
        if identity.sources is None:
            return ""
        gone = identity.dropped.get(stream, entry) < entry  # otherwise a later log entry drops it
        known = stream in identity.sources and not gone
        if known or (identity.by_name and source.can_be_named()):
            return ""
        if not identity.by_name:
            return "the job was started with a source that has no name"
        return "its DataFrame reads a source that has no name"

    def check_drop(self, stream: str) -> None:
        """Refuse to drop a source that a stand-in cannot replace."""
        if not self.by_name and len(self._names(stream)) > 1:
            raise StateError(
                f"the DataFrame of stream {stream} reads several sources, which have no names",
                code="PS-STATE-008",
                remedy="drop the queries that read it, or use another checkpoint",
            )

    def drop(self, stream: str, entry: int) -> None:
        """Remove a stream; a later stream of its name is another one."""
        self._checkpoint.drop_source(stream, entry)
        for books in (self._sources, self._declared, self._former, self._failures, self.paused):
            books.pop(stream, None)

    # ---- pausing ---------------------------------------------------------------------
    def pause(self, stream: str, why: Paused) -> None:
        """Stop reading a source from the next start on."""
        self.paused[stream] = why
        self._failures[stream] = why.failures

    def resume(self, stream: str) -> None:
        """Read a source again from the next start on."""
        self.paused.pop(stream, None)

    def resume_due(self, now: float) -> bool:
        """Retry sources that failed long enough ago; returns whether there are any."""
        due = [stream for stream, why in list(self.paused.items()) if why.is_over(now)]
        for stream in due:
            self.resume(stream)
        return bool(due)

    def went_well(self) -> None:
        """A batch has ended: reset the failure counts of the sources that were read."""
        for stream in self._failures.keys() - self.paused.keys():
            del self._failures[stream]

    def blamed(self, error: PenstockError) -> tuple[str, ...]:
        """The streams of the sources that an error names, if the job can run without them."""
        read = {s: source for s, source in self._sources.items() if self.reads(s)}
        found = blamed(error.message, {s: source.place for s, source in read.items()})
        families = {s: source.family for s, source in read.items()}
        if not found and len(alike := blamed(error.message, families)) == 1:
            found = alike
        return found if all(map(self._can_pause, found)) else ()

    def _can_pause(self, stream: str) -> bool:
        """Whether a stand-in can keep the source's offset, or is not needed."""
        return self.by_name or all(n in self._offsets() for n in self._spark_names(stream))

    def in_the_way(self) -> tuple[str, str] | None:
        """A paused stream that has rows in the planned batch, and why it is paused."""
        for stream, why in list(self.paused.items()):
            if reads_on(self._checkpoint.spark, self._spark_names(stream)):
                return stream, why.reason
        return None

    def fail(self, streams: tuple[str, ...], error: PenstockError) -> None:
        """Pause the sources that an error names, and let them find the files of the batch again."""
        known = self._offsets()
        for stream in streams:
            self.pause(stream, paused_by_failure(str(error.message), self._failures.get(stream, 0)))
            for name in self._spark_names(stream):
                forget_found(self._checkpoint.spark, name, known.get(name))

    def _offsets(self) -> Mapping[str, str]:
        return offsets(self._checkpoint.spark) or {}

    def _spark_names(self, stream: str) -> list[str]:
        """The names, or numbers, that Spark has for the sources of a stream."""
        if self.by_name:
            return [name for name in self._names(stream) if name is not None]
        count = 1  # after the log
        for other in self._order():
            leaves = len(self._names(other))
            if other == stream:
                return [str(count + n) for n in range(leaves)]
            count += leaves
        return []

    def _names(self, stream: str) -> tuple[str | None, ...]:
        dropped = self._checkpoint.identity.dropped.get(stream)
        own = source_name(stream) + (f"_{dropped}" if dropped else "")
        source = self._sources.get(stream)
        return (own,) if source is None else source.names(own)

    # ---- starting --------------------------------------------------------------------
    def _order(self) -> list[str]:
        """The streams in Spark's order."""
        return sorted({*self._sources, *(self._checkpoint.identity.sources or ())})

    def begin(self, last: int) -> list[str]:
        """The streams of a start, if its first batch takes entries up to `last`."""
        known = self._checkpoint.identity.sources or ()
        chosen = [s for s in sorted(self._sources) if s in known or self._declared[s] <= last]
        named = all(self._sources[s].can_be_named() for s in chosen)
        if known and not self.by_name:
            chosen = sorted({*chosen, *(s for s in known if s in self._gone())})
        self._checkpoint.note_sources(tuple(chosen), named)
        return chosen

    def _gone(self) -> set[str]:
        return self._checkpoint.identity.dropped.keys() - self._sources.keys()

    def open(self, streams: list[str]) -> list[Slot]:
        """The frames of streams; a source that cannot be opened is paused."""
        self._read = {}
        slots = [self._slot(stream) for stream in streams]
        for slot in slots:
            self._read[slot.stream] = slot.source
        known = self._offsets()
        return [s for s in slots if s.source or not self.by_name or {*s.names} & known.keys()]

    def _slot(self, stream: str) -> Slot:
        names = self._names(stream)
        source = self._sources.get(stream)
        if source is not None and stream not in self.paused:
            try:
                frame = source.open(names[0] if self.by_name else None)
                return Slot(stream, names, source, frame)
            except PenstockError as error:
                if not self._can_pause(stream):
                    raise
                self.fail((stream,), error)
        elif source is not None and not self._can_pause(stream):
            raise StateError(
                f"stream {stream} is paused and was never read, and the job has a DataFrame "
                "with unnamed sources",
                code="PS-STATE-008",
                remedy=f"ALTER STREAM {stream} RESUME; pause it only after it has delivered rows",
            )
        return Slot(stream, names if self.by_name else (None,) * len(names), None, None)

    def reads(self, stream: str) -> bool:
        """Whether the running query reads this stream, not an earlier one of its name."""
        own = [s for s in (self._sources.get(stream), *self._former.get(stream, ())) if s]
        return any(self._read.get(stream) is source for source in own)

    def waits_for(self) -> int | None:
        """The entry after which the query must restart to read exactly the current sources."""
        if any(source is not self._wanted(s) for s, source in self._read.items()):
            return 0
        missing = self._sources.keys() - self._read
        return max((self._declared[stream] for stream in missing), default=None)

    def _wanted(self, stream: str) -> Source | None:
        return None if stream in self.paused else self._sources.get(stream)
