"""The Spark runner: shards in one Spark job, external sources, served views, restart.

Rows of external streams do not pass through this process: `pack` admits them on Spark, and each
batch reports their number and the watermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.control import ControlEngine
from penstock.session import at_exit, history, image
from penstock.session.asking import AskedAnswers
from penstock.session.books import Books
from penstock.session.calls import LoggedCalls
from penstock.session.counting import Counting
from penstock.session.gate import Gate
from penstock.session.inbox import Inbox
from penstock.session.kept_out import KeptOut
from penstock.session.leaving import LeavingQueries
from penstock.session.runners.on_shards import is_heard, no_snapshot
from penstock.session.runners.shard_steps import ShardSteps
from penstock.session.served_views import ServedViews
from penstock.session.spark_intakes import Intakes
from penstock.session.spark_sinks import SparkSinkOpener
from penstock.session.spark_sources import Retrying, SparkSources, is_external
from penstock.session.vault import Vault
from penstock.session.view_store import ViewStore
from penstock.shards import wire
from penstock.shards.intake import Intake
from penstock.shards.job import JobBatch
from penstock.spark.checkpoint import check_shards
from penstock.spark.config import build_session, is_running
from penstock.spark.job import SparkJob
from penstock.spark.sinks import SparkSinks

if TYPE_CHECKING:
    from penstock.session.feed import Feed
    from penstock.session.snapshot import Snapshot

_SAVE_EVERY = 500  # log entries


class OnSpark:
    """Runs queries in one Spark job."""

    def __init__(
        self,
        books: Books,
        control: ControlEngine,
        *,
        spark: Any = None,
        master: str | None = None,
        shards: int | None = None,
        checkpoint: Path | None = None,
        spark_options: Mapping[str, str] | None = None,
    ) -> None:
        if checkpoint is not None and shards is not None:
            check_shards(checkpoint, shards)  # fails before a JVM is started
        own = spark is None and not is_running()  # else it stays open after close()
        self.spark = build_session(master, spark, spark_options)
        self.held = at_exit.Held(self.spark, own)
        self.durable = checkpoint is not None
        self._books, self._control = books, control
        self._retrying: Retrying | None = None
        self._saved = self._taken = 0
        try:
            count = shards or max(1, int(self.spark.sparkContext.defaultParallelism))
            self._make_job(count, checkpoint)
            self._make_parts()
        except BaseException:
            self.let_go()
            raise
        at_exit.remember(self.held)

    # ---- parts -----------------------------------------------------------------------
    def _make_job(self, shards: int, checkpoint: Path | None) -> None:
        self.spark_sinks = SparkSinks(self.spark)
        self.job = self.held.job = SparkJob(
            self.spark, self._receive, shards=shards, checkpoint=checkpoint,
            intakes=self._intakes_after, sinks=self.spark_sinks, wanted=self._wanted,
        )  # fmt: skip
        self.shards = self.job.shards
        self.spark_sinks.checkpoint = self.job.id

    def _make_parts(self) -> None:
        """Build the parts that the session and its batches need around the job."""
        books, control, job = self._books, self._control, self.job
        self.gate = gate = Gate(self._end_call, job.catch_up, job.check)
        self.vault = Vault(job.path)
        self.kept_out = KeptOut(job.path)
        views = ViewStore(job.path / "views.duckdb" if self.durable else None, job.id)
        self.held.views = views
        self.calls = LoggedCalls(job, control, gate, self._has_external, lambda: is_heard(books))
        self.sources = SparkSources(self.spark, job, books.catalog, self.vault, self.calls)
        leaving = LeavingQueries()
        self.steps = ShardSteps(books, control, gate, self.calls, leaving, job.shards)
        self.deployed = self.steps.deployed
        asked = AskedAnswers(books.queries, gate, job, self.calls, leaving, job.wait)
        self.answers = ServedViews(asked, views, books, gate, job)
        self.sinks = SparkSinkOpener(
            books.queries, leaving, self.spark_sinks, self.vault, gate, job
        )
        self.counting = Counting(books.catalog, control)
        self._intakes = Intakes(books, gate, self.steps, leaving)
        self._driven = image.Driven(books, self.steps, self.calls, leaving)
        self._inbox = Inbox(
            books, control, job, self.steps, asked, leaving, gate, self.sources.why_paused
        )

    @property
    def is_dead(self) -> bool:
        """Whether the job has ended with an error."""
        return self.job.dead

    def _end_call(self) -> None:
        self.calls.end()

    def _has_external(self) -> bool:
        catalog = self._books.catalog
        return any(is_external(catalog, stream) for stream in catalog.meters)

    def _intakes_after(self, entry: int) -> dict[str, Intake]:
        return self._intakes.after(entry)

    def _wanted(self) -> set[int] | None:
        """The templates with changes that this process reads; None if all may be read later."""
        delivery, registry = self._books.delivery, self._books.queries.registry
        if delivery.kept_rows > 0:
            return None
        with self.gate.lock:
            heard = {*delivery.subscribers, *self.answers.views.names()}
            heard |= {r.names[at] for r, _ in delivery.listeners for at in r.running()[:1]}
            found = (registry.find(name) for name in heard)
            return {info.template for info in found if info is not None}

    # ---- batches ---------------------------------------------------------------------
    def _receive(self, batch: JobBatch) -> None:
        self._inbox.receive(batch, self._take_batch)

    def _take_batch(self, batch: JobBatch) -> None:
        if batch.number == self._taken:  # and it comes again, because its views failed
            self.answers.views.drop()
            return
        self._take_status(batch)
        self._inbox.take(batch)
        self._taken = batch.number
        self.answers.take(batch)
        history.settle(self._books, batch.entry)

    def _take_status(self, batch: JobBatch) -> None:
        """Record counts, times and rejected rows of external streams."""
        if batch.number > self._driven.received:  # older ones are in the image
            kept_out = [result.data for result in batch.results if result.kind == "kept_out"]
            if self.durable:
                self.kept_out.note(batch.number, kept_out)
            self.counting.keep_out(kept_out, batch.entry)
            self._driven.received = batch.number
        for result in batch.results:
            if result.kind == "status":
                self.counting.take_counts(wire.loads(result.data), batch.entry)

    # ---- life ------------------------------------------------------------------------
    def reports(self) -> list[dict[str, Any]]:
        """Reports of each shard: measurements of the last batch, and state shared among queries."""
        return self.job.reports()

    def where(self) -> str:
        """Where the queries run, as a phrase."""
        master = self.spark.sparkContext.master
        return f"Spark {self.spark.version} on {master}, {self.shards} shards"

    def flush(self, feed: Feed) -> None:
        """Block until all pushed and available input is in the answers."""
        with self.gate.open(), self.gate.look():
            feed.tick()
        self.job.sources.retry()
        self.job.drain()
        with self.gate.lock:
            self.gate.raise_complaint()
        if self.job.next_entry - self._saved > _SAVE_EVERY:
            self.save()

    def start(self) -> None:
        """Run batches in the background as input arrives."""
        self.job.start()
        self._retrying = self._retrying or Retrying(self.job.sources.retry)

    def stop(self) -> None:
        """Stop after the running batch; start() or flush() continue."""
        if self._retrying is not None:
            self._retrying.end()
            self._retrying = None
        self.job.stop()
        self.save()

    def snapshot(self) -> Snapshot:
        """Raise an error: the state is on the shards."""
        raise no_snapshot()

    def close(self, stop_ticker: Callable[[], None]) -> None:
        """Finish pending work, stop the job, write the checkpoint, close the sinks."""
        if self.gate.closed:
            return
        with ExitStack() as last:  # each step runs even if another one fails
            last.callback(self.let_go)
            last.callback(self._close_sinks)
            last.callback(self._stop_all, stop_ticker)
            self.job.finish()

    def _stop_all(self, stop_ticker: Callable[[], None]) -> None:
        stop_ticker()
        self.stop()

    def _close_sinks(self) -> None:
        self.gate.closed = True
        self._books.delivery.sinks.close()

    def let_go(self) -> None:
        """Close the resources of the session, so that another session can use its checkpoint."""
        at_exit.let_go(self.held)

    # ---- checkpoint ------------------------------------------------------------------
    def save(self) -> None:
        """Write the driver's part of the checkpoint."""
        if self.durable and not self.job.broken:
            with self.gate.lock:
                entry = self.job.next_entry - 1
                image.save(self._driven, self.job.path, entry)
                self._saved = entry
                self.kept_out.forget(self._driven.received)
            self.job.trim(self._saved + 1)

    def restore(self) -> None:
        """Restore what a former process left in the checkpoint."""
        job, driven = self.job, self._driven
        self.sources.restoring = self.sinks.restoring = True
        self._saved = image.load(
            driven, job.path, job.first_entry, self.sources.declare, self.sinks.open
        )
        self.sources.pause_again()
        for number, call in job.calls(self._saved + 1):
            if call is not None:
                self.calls.repeat(number, call)
        self.sources.restoring = self.sinks.restoring = False
        self._take_up_marked()

    def _take_up_marked(self) -> None:
        """Apply the reports of batches that were marked as done; the others run again."""
        job, driven = self.job, self._driven
        done = job.mark.batch + 1
        expected = job.kept_out(driven.received)
        kept_out = self.kept_out.since(driven.received, done, expected)
        self.counting.keep_out(kept_out, job.mark.last)
        driven.received = max(driven.received, done)
        self.answers.views.forget_stale(done)
        self.steps.take_pushed(job.mark.last)
        self.counting.restore(job.mark)
        history.settle(self._books, job.mark.last)
