"""The streaming query of a job: started, started again, watched, stopped.

It restarts when an external source is added or dropped, when a source fails that the job can run
without, and when Spark was too slow on a busy machine. Any other end is an error of the job.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.errors import HeldUp
from penstock.spark.config import SparkError
from penstock.spark.failure import ours, passes, translated
from penstock.spark.source_set import SourceSet

_PATIENCE = 30.0
"""Seconds to wait for a batch when the job is stopped."""
_STARTING = 180.0
"""Seconds for which a query is restarted repeatedly while the machine is too busy."""


class Streaming:
    """Runs one query at a time.

    `ready` yields the query, not started, while the settings for its start are in force. `settled`
    returns whether Spark has committed all completed batches. `mend` gets the error that ended a
    query, and returns whether the job can continue; `blame` predicts this. A batch runs within
    `batch()`, and reports its last entry with `reach()`.
    """

    def __init__(
        self,
        ready: Callable[[], AbstractContextManager[DataStreamWriter]],
        sources: SourceSet,
        settled: Callable[[], bool],
        delivered: int,
        blame: Callable[[Exception], bool],
        mend: Callable[[Exception], bool],
    ) -> None:
        self._ready = ready
        self._sources = sources
        self._settled = settled
        self._delivered = delivered  # the last entry
        self._blame, self._mend = blame, mend
        self._fault: Exception | None = None  # of a source, in the batch that ended the query
        self.changed = threading.Condition()
        self.query: StreamingQuery | None = None
        self._error: Exception | None = None
        self._told: Exception | None = None  # the last error that was raised
        self._busy = self._stopping = False
        self._handing: float | None = None  # since when subscribers run
        self._stuck = False  # whether stop() has given up waiting for them
        self._renewal: threading.Thread | None = None
        self._calling = threading.Lock()  # held by the thread that starts the job
        self._starting = threading.RLock()  # of a query in place of another
        self._failing: float | None = None  # since when a query does not come to a batch

    @property
    def running(self) -> bool:
        """Whether batches are run."""
        return self.query is not None and self._error is None

    @property
    def dead(self) -> bool:
        """Whether an error has ended the query."""
        return self._error is not None

    @property
    def told(self) -> bool:
        """Whether a call has raised that error."""
        return self._told is self._error

    def check(self) -> None:
        """Raise the error that ended the query, if there is one."""
        if (error := self._error) is not None:
            self._told = error
            raise error.with_traceback(None)

    # ---- starting --------------------------------------------------------------------
    def start(self) -> None:
        """Start the query, or continue where it stopped or failed."""
        with self._calling:
            if self._error is not None or self._stuck:
                self.stop()
            if self.query is None and self._renewal is None:
                self._start_query()
                self.renew_if_needed()

    def _start_query(self) -> None:
        self._error, self._fault, self._stopping = None, None, False
        with self._ready() as writer, self.changed:
            self.query = writer.start()
            self.changed.notify_all()
        threading.Thread(target=self._watch, args=(self.query,), daemon=True).start()

    def _watch(self, query: StreamingQuery) -> None:
        """Wait for the end of the query; restart it if that may help, else record the error."""
        error: Exception = _stopped("from outside this session")
        try:
            with translated():
                query.awaitTermination()
        except Exception as found:
            error = found
        with self._starting:
            if self._stopping or self.query is not query:
                return
            try:
                if self._error is not None or not self._may_go_on(self._fault or error):
                    raise error
                self._start_query()
            except Exception as found:
                self._error = self._error or ours(found)
        with self.changed:
            self.changed.notify_all()

    def _may_go_on(self, error: Exception) -> bool:
        """Whether a new query can continue after this error."""
        return self._mend(error) or (passes(error) and self._has_time())

    def _has_time(self) -> bool:
        """Whether to try again."""
        now = time.monotonic()
        self._failing = self._failing or now
        return now - self._failing < _STARTING

    def forgive(self) -> None:
        """The cause of the error is removed: the next call that waits starts a new query."""
        if self._error is not None:
            self.stop()
            self._error = None

    # ---- sources that come and go ----------------------------------------------------
    def renew_if_needed(self) -> None:
        """Restart the query, in a thread, once the shards know all sources."""
        with self.changed:
            stale = self._sources.waits_for() is not None
            if self.query is not None and self._renewal is None and stale:
                self._renewal = threading.Thread(target=self._renew, daemon=True)
                self._renewal.start()

    def _renew(self) -> None:
        try:
            while (entry := self._sources.waits_for()) is not None and self._reaches(entry):
                with self._starting:
                    self._stop_query()
                    self._start_query()
        except Exception as error:
            self._error = self._error or ours(error)
        finally:
            with self.changed:
                self._renewal = None
                self.changed.notify_all()

    def _reaches(self, entry: int) -> bool:
        """Wait until an entry is delivered; False when the job ends before."""
        with self.changed:
            self.changed.wait_for(
                lambda: self._delivered >= entry or self._stopping or self._error is not None
            )
            return self._delivered >= entry and not self._stopping and self._error is None

    # ---- batches ---------------------------------------------------------------------
    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run a batch; an error in it ends the query."""
        with self.changed:
            self.changed.wait_for(lambda: self.query is not None)
            if self._stopping:
                raise _stopped("before the batch began")
            self._busy = True
        try:
            yield
        except Exception as error:
            with self.changed:
                if self._blame(error):
                    self._fault = error
                elif not passes(error):
                    self._error = self._error or ours(error)
            raise
        except SystemExit as error:  # it would end this thread, and Spark would wait forever
            with self.changed:
                self._error = self._error or ours(error)
            raise ours(error) from error
        finally:
            with self.changed:
                self._busy = False
                self.changed.notify_all()

    @contextmanager
    def handing(self) -> Iterator[None]:
        """A context in which subscribers run; it cannot be interrupted.

        The batch is not done if stop() gave up waiting.
        """
        self._handing = time.monotonic()
        try:
            yield
        finally:
            self._handing = None
        if self._stuck:
            raise _stopped("while a subscriber ran")

    def _is_held(self) -> bool:
        """Whether subscribers have run for longer than anything waits for them."""
        since = self._handing
        return since is not None and time.monotonic() - since > _PATIENCE

    def reach(self, entry: int) -> None:
        """Record that entries up to this one are delivered."""
        with self.changed:
            self._delivered, self._failing = entry, None

    def has_reached(self, entry: int) -> bool:
        """Whether an entry is delivered."""
        return self._delivered >= entry

    # ---- waiting ---------------------------------------------------------------------
    def wait(self, entry: int, patient: bool = True) -> None:
        """Return when the batch that holds an entry has been delivered."""
        if self.query is None:
            self.start()
        with self.changed:
            while self._delivered < entry:
                self.check()
                if not patient and self._is_held():
                    raise HeldUp(_PATIENCE)
                if self.query is None and self._renewal is None:
                    raise _stopped("while a call waited for it")
                self.changed.wait(1.0)

    def drain(self) -> None:
        """Return when all that external sources have is in the answers."""
        with self.changed:
            self.changed.wait_for(lambda: self._renewal is None)
        self.check()
        while self._sources and (query := self.query) is not None:
            try:
                with translated():
                    query.processAllAvailable()
                return
            except Exception:  # the error of a batch, as Spark reports it
                if not self._is_replaced(query):
                    raise

    def _is_replaced(self, query: StreamingQuery) -> bool:
        """Wait until the job has handled a failed query; raises the job's error."""
        until = time.monotonic() + _PATIENCE
        with self.changed:
            while self.query is query and (not query.isActive or time.monotonic() < until):
                self.check()
                self.changed.wait(0.1)
        self.check()
        return self.query is not query

    # ---- stopping --------------------------------------------------------------------
    def stop(self) -> None:
        """Stop after the running batch; `start` continues."""
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._renewal is None)
        with self._starting:
            self._stop_query()

    def _stop_query(self) -> None:
        query = self.query
        if query is None:
            return
        with self.changed:
            self._stopping = True
            self.changed.wait_for(lambda: not self._busy, 0 if self._is_held() else _PATIENCE)
            self._stuck = self._busy and self._handing is not None
        if self._stuck:  # Spark would wait for ever
            raise HeldUp(_PATIENCE)
        until = time.monotonic() + _PATIENCE
        with translated():
            while query.isActive and not self._settled() and time.monotonic() < until:
                time.sleep(0.01)  # otherwise the last batch would be delivered again
            query.stop()
        self.query = None


def _stopped(how: str) -> SparkError:
    return SparkError(
        f"the job was stopped {how}",
        code="PS-RUN-005",
        remedy="call start(), which continues where the job stopped, and try again",
    )
