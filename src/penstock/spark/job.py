"""A job of shards as one exactly-once Spark streaming query (docs/design/0004-spark.md).

`foreachBatch(N)` writes the manifest, runs the batch, delivers its results and marks it done, in
this order; then Spark commits the batch. An interrupted batch is repeated with the same manifest
and gives the same results under the same number.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import StateError
from penstock.shards import wire
from penstock.shards.encoding import Encoded
from penstock.shards.entries import LogEntry
from penstock.shards.intake import Intake
from penstock.shards.job import Deliver, JobBatch
from penstock.shards.session_log import LogReader, SessionLog
from penstock.spark import pickling
from penstock.spark.cells import results_of
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.config import SparkError, lasting_folder, query_settings, settings
from penstock.spark.failure import translated
from penstock.spark.log_source import batch_end
from penstock.spark.manifest import Manifest, Manifests, Mark
from penstock.spark.noted import Laps, Noted
from penstock.spark.shard_processor import LOG_WEIGHT
from penstock.spark.source_control import SourceControl
from penstock.spark.source_faults import SourceFaults
from penstock.spark.source_set import SourceSet
from penstock.spark.sources import Source
from penstock.spark.spark_files import SparkFiles
from penstock.spark.streaming import Streaming
from penstock.spark.topology import LOG, Topology

Intakes = Callable[[int], Mapping[str, Intake]]
"""How the rows of each external stream are admitted, as of an entry."""


class Sinks(Protocol):
    """Writes the results of batches."""

    @property
    def needs_frame(self) -> bool:
        """Whether there are any sinks."""

    def __call__(self, frame: DataFrame, batch: int, results: Sequence[wire.Result]) -> None:
        """Write a batch, given as a persisted frame (`cells.RESULTS`) and as results."""


Wanted = Callable[[], Collection[int] | None]
"""The templates with changes for the driver; None: all."""


def _everything() -> None:
    return None


def _no_intakes(entry: int) -> Mapping[str, Intake]:
    return {}


class SparkJob:
    """Runs entries on shards in Spark (`shards.job.Job`).

    A separate thread calls `deliver` and `intakes`, one batch at a time. A batch that Spark
    repeats has the same number and results; it is delivered again unless it was marked done
    or this process has delivered it.
    """

    def __init__(
        self,
        spark: SparkSession,
        deliver: Deliver,
        *,
        shards: int,
        checkpoint: Path | None = None,
        sources: Mapping[str, Source] | None = None,
        intakes: Intakes = _no_intakes,
        sinks: Sinks | None = None,
        wanted: Wanted = _everything,
        trigger: str = "0 seconds",
        log_weight: int = LOG_WEIGHT,
    ) -> None:
        self._spark = spark
        self._deliver = deliver
        self._intakes = intakes
        self._sinks = sinks
        self._wanted = wanted
        self._trigger = trigger
        self._log_weight = log_weight
        self._checkpoint = Checkpoint(checkpoint, shards)
        self._sources = SourceSet(self._checkpoint, dict(sources or {}))
        self.shards = self._checkpoint.identity.shards
        self.path = self._checkpoint.path
        self.id = self._checkpoint.identity.id
        try:
            self._log = SessionLog(self._checkpoint.log)
            self._manifests = Manifests(self._checkpoint.manifests)
            self._files = SparkFiles(self._checkpoint.spark)
            self._mark = self._manifests.last_mark() or Mark(-1, 0)
            self._look_for_losses()
            self._noted = Noted(self._log, self._mark.last + 1)
        except BaseException:
            self._checkpoint.close()
            raise
        self._faults = SourceFaults(
            self._sources, self._checkpoint.spark, self._manifests, self._forget_plan
        )
        self._streaming = Streaming(
            self._ready, self._sources, self._is_committed, self._mark.last,
            self._faults.blames, self._faults.mend,
        )  # fmt: skip
        self._changed = self._streaming.changed
        self.sources = SourceControl(self._sources, self._streaming)
        self._handed = self._mark.batch  # the last batch that was delivered
        self._thread = 0  # that delivers
        self._told: list[dict[str, Any]] = []

    def _look_for_losses(self) -> None:
        """Refuse an incomplete checkpoint: continuing would give wrong answers."""
        newest, offsets = self._manifests.newest(), self._checkpoint.spark / "offsets"
        begun = 0 if newest is None else newest.last
        if begun > self._log.last:
            lost = f"entries {self._log.last + 1} to {begun} are missing in {self._log.newest}"
        elif self._mark.batch >= 0 and not offsets.exists():
            lost = f"the directory {offsets} is missing"
        else:
            self._files.check({} if newest is None else newest.files)
            return
        raise StateError(
            lost,
            code="PS-STATE-005",
            remedy="restore the directory from a backup, or start from an empty checkpoint",
        )

    # ---- the log ---------------------------------------------------------------------
    @property
    def next_entry(self) -> int:
        """The number that the next entry will have."""
        return self._log.last + 1

    def append(self, blocks: tuple[Encoded, ...], call: Any) -> int:
        """Make an entry durable; its number."""
        with self._changed:
            number = self.next_entry
            self._noted.note(number, blocks)
            return self._log.append(pickling.dumps(call), pickling.dumps(LogEntry(number, blocks)))

    def calls(self, first: int) -> list[tuple[int, Any]]:
        """The calls of the entries from `first` on."""
        return [(number, wire.loads(data)) for number, data in self._log.read_calls(first)]

    def trim(self, before: int) -> None:
        """Delete entries below `before`, except those of the last batch, which Spark may repeat."""
        done = self._manifests.find(self._mark.batch)
        self._log.trim(min(before, 1 if done is None else done.first))

    # ---- how far it is ---------------------------------------------------------------
    @property
    def mark(self) -> Mark:
        """The mark of the last completed batch."""
        return self._mark

    def kept_out(self, number: int) -> list[int]:
        """Later batches that kept rows out (numbers as in `JobBatch`)."""
        return [n + 1 for n in self._manifests.kept_out(number)]

    @property
    def first_entry(self) -> int:
        """The first entry in the log."""
        return self._log.first

    @property
    def broken(self) -> bool:
        """Whether the session is ahead of the log because a write failed."""
        return self._log.broken is not None

    @property
    def running(self) -> bool:
        """Whether batches are run."""
        return self._streaming.running

    @property
    def dead(self) -> bool:
        """Whether an error has ended the job; `start` continues it."""
        return self._streaming.dead

    def check(self) -> None:
        """Raise the error that ended the job, if there is one."""
        self._streaming.check()

    def forgive(self) -> None:
        """The cause of the stop is removed: the next call that waits starts the job."""
        self._streaming.forgive()

    def _forget_plan(self) -> None:
        """The next batch is planned again; restore the heartbeats and drops noted for it."""
        with self._changed:
            self._noted = Noted(self._log, self._mark.last + 1)
            self._files = SparkFiles(self._checkpoint.spark)

    # ---- running ---------------------------------------------------------------------
    def start(self) -> None:
        """Start the query, or continue where it stopped or failed."""
        self._streaming.start()

    @contextmanager
    def _ready(self) -> Iterator[DataStreamWriter]:
        """The query with all sources that its first batch declares, ready to start."""
        streams = self._sources.begin(self._next_end())
        by_name = self._sources.by_name
        topology = Topology(
            self._arenas(), self._checkpoint.log.absolute(), self._checkpoint.manifests.absolute(),
            self.shards, self._log_weight, by_name,
        )  # fmt: skip
        with translated(), settings(self._spark, query_settings(self.shards, by_name)):
            frame = topology.frame(self._spark, self._faults.open(streams))
            writer = frame.writeStream.foreachBatch(self._run).trigger(processingTime=self._trigger)
            yield writer.option("checkpointLocation", str(self._checkpoint.spark.absolute()))

    def _is_committed(self) -> bool:
        """Whether Spark knows that the last batch is done."""
        number = self._mark.batch
        return number < 0 or (self._checkpoint.spark / "commits" / str(number)).exists()

    def _next_end(self) -> int:
        """The last entry of the first batch to come."""
        first = self._mark.last + 1
        records = LogReader(self._checkpoint.log, first).poll()
        return batch_end({record.number: record for record in records}, first)

    def _arenas(self) -> str:
        """The directory of the shards' arenas; the same after a restart on this machine."""
        return str(lasting_folder(self._spark) / f"penstock-{self.id}")

    def catch_up(self) -> None:
        """Do nothing: batches run automatically."""

    def wait(self, entry: int, patient: bool = True) -> None:
        """Return when the batch that holds an entry has been delivered."""
        if threading.get_ident() == self._thread and not self._streaming.has_reached(entry):
            raise SparkError(
                "a subscriber cannot wait for the next batch: the batch waits for the subscriber",
                code="PS-RUN-004",
                remedy="read views and flush() in another thread; push() and sql() do not wait",
            )
        self._streaming.wait(entry, patient)

    def finish(self) -> None:
        """Return when every entry is delivered, if the job runs; raise why it died, once."""
        if self._streaming.running:
            self.wait(self._log.last, patient=False)
        elif not self._streaming.told:
            self.check()

    def drain(self) -> None:
        """Return when every entry, and all that external sources have, is in the answers."""
        self.wait(self._log.last)
        self._streaming.drain()

    def reports(self) -> list[dict[str, Any]]:
        """Reports of each shard: measurements of the last batch, and state shared among queries."""
        return [dict(told) for told in self._told]

    def stop(self) -> None:
        """Stop after the running batch; `start` continues."""
        self._streaming.stop()

    def close(self) -> None:
        """Stop for good."""
        try:
            self.stop()
            if self._checkpoint.temporary:
                shutil.rmtree(self._arenas(), ignore_errors=True)
        finally:  # even if Spark is gone
            self._log.close()
            self._checkpoint.close()

    # ---- a batch ---------------------------------------------------------------------
    def _run(self, frame: DataFrame, number: int) -> None:
        with self._streaming.batch():
            self._run_batch(frame, number)

    def _run_batch(self, frame: DataFrame, number: int) -> None:
        laps = Laps()
        self._faults.begin(number)
        manifest = self._manifests.find(number) or self._plan(number)
        laps.end("plan_s")
        with translated():
            results = self._results(frame, number, laps)
        if number > self._handed:
            self._told = sorted(
                (wire.loads(r.data) for r in results if r.kind == "shard"),
                key=lambda told: (told["level"], told["shard"]),
            )
            self._hand_on(JobBatch(number + 1, manifest.last, results, laps.seconds))
            self._handed = number
        if number > self._mark.batch:
            statuses = [wire.loads(r.data) for r in results if r.kind == "status"]
            mark = self._mark.without(self._noted.dropped(manifest.last))
            mark = mark.after(number, manifest.last, statuses)
            self._manifests.finish(mark)
            self._mark = mark  # if this write fails, the batch is repeated
            with self._changed:  # calls note more at any time
                self._noted.forget(manifest.last)
            self._sources.went_well()
        self._streaming.reach(manifest.last)

    def _hand_on(self, batch: JobBatch) -> None:
        self._thread = threading.get_ident()
        try:
            with self._streaming.handing():
                self._deliver(batch)
        finally:
            self._thread = 0

    def _results(self, frame: DataFrame, number: int, laps: Laps) -> list[wire.Result]:
        if self._sinks is None or not self._sinks.needs_frame:
            results = self._collect(frame)
            self._end_run(number, laps)
            return results
        frame.persist()  # a second action would run the shards again
        try:
            results = results_of(frame.toArrow())
            self._end_run(number, laps)
            self._sinks(frame, number + 1, results)
        finally:
            frame.unpersist()
        laps.end("sinks_s")
        return results

    def _end_run(self, number: int, laps: Laps) -> None:
        """The batch has results: from now on it must be repeated unchanged."""
        self._faults.end_run(number)
        laps.end("run_s")

    def _collect(self, frame: DataFrame) -> list[wire.Result]:
        """The results for the driver: changes of some templates, and all other results."""
        wanted = self._wanted()
        if wanted is not None:
            is_wanted = f.col("template").isin(list(wanted)) if wanted else f.lit(False)
            frame = frame.filter((f.col("kind") != "changes") | is_wanted)
        return results_of(frame.toArrow())

    def _plan(self, number: int) -> Manifest:
        """The manifest of a batch that runs for the first time."""
        if number > 0 and self._mark.batch != number - 1:
            self._mark = self._manifests.mark(number - 1)
        last = self._planned_entry(number)
        first = self._mark.last + 1
        known = self._mark.without(self._noted.dropped(last)).watermarks
        watermarks = {name: mark for name, mark in known.items() if name in self._sources}
        with self._changed:
            self._noted.apply(first, last, watermarks, self._sources)
        intakes = {s: i for s, i in self._intakes(last).items() if self._sources.reads(s)}
        manifest = Manifest(
            number, first, last, time.time_ns() // 1000, intakes, watermarks,
            self._files.seals(number),
        )  # fmt: skip
        return self._manifests.propose(manifest)

    def _planned_entry(self, number: int) -> int:
        """The last entry of a batch, from the offsets that Spark wrote before it ran."""
        query = self._streaming.query
        assert query is not None
        planned = query._jsq.streamingQuery().offsetLog().get(number).get()
        if planned.version() == 1:  # sources are numbered
            offset = planned.offsets().apply(0)
        else:
            offset = planned.offsetsMap().getOrElse(LOG, None)
        return int(json.loads(offset.get().json())["entry"]) if offset.isDefined() else 0
