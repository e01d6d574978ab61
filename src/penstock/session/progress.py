"""Progress records of batches: rows, clocks and lag, state size, bytes written, seconds.

A record is a dict of plain values that `json.dumps` accepts. Counts are those of the batch;
`stats()` has the sums.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from penstock.arrays import BEGINNING
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.engine.engine import Engine
from penstock.errors import PenstockError
from penstock.session.catalog import SessionCatalog
from penstock.session.clock import now_us
from penstock.session.query_book import QueryBook
from penstock.shards import wire
from penstock.shards.job import JobBatch
from penstock.shards.messages import Counts
from penstock.sql.catalog import StreamDef

Listener = Callable[[dict[str, Any]], None]
WhyPaused = Callable[[str], str]
KEPT = 1000
_STAGES = ("take_s", "apply_s", "save_s")
_TOTALS = ("changes_out", "result_bytes", "state_bytes", "log_bytes", "snapshot_bytes")


def counted(admitted: Admitted, accepted: int) -> Counts:
    """Counts of received, accepted, late and quarantined rows of a push."""
    late, quarantined = admitted.late.num_rows, admitted.quarantined.num_rows
    return Counts(admitted.received, accepted, late, quarantined)


class Progress:
    """The records of the last batches, and the functions that receive each new one."""

    def __init__(self, engine: Engine, catalog: SessionCatalog, queries: QueryBook) -> None:
        self.records: list[dict[str, Any]] = []
        self.listeners: list[Listener] = []
        self._engine, self._catalog, self._queries = engine, catalog, queries
        self._arrived: dict[str, Counts] = {}  # rows of the next step
        self._state_bytes = 0  # after the last step with rows

    def arrived(self, stream: str, counts: Counts) -> None:
        """Count rows that the next in-process step brings."""
        self._arrived[stream] = counts

    def note_step(self, output: b.Output, seconds: float, why_paused: WhyPaused) -> dict[str, Any]:
        """Record a step in process."""
        counts, self._arrived = self._arrived, {}
        if counts:  # a step with rows visits all plans anyway; other steps need not
            self._state_bytes = self._engine.arena.nbytes
        changed = sum(len(changes) for _, changes in output.changes)
        made = self._record(output.batch, counts, changed, {"run_s": seconds}, why_paused)
        return self._keep(made | {"state_bytes": self._state_bytes})

    def note_batch(
        self,
        batch: JobBatch,
        pushed: list[Mapping[str, Counts]],
        changes_out: int,
        state_bytes: Callable[[], int],
        why_paused: WhyPaused,
    ) -> dict[str, Any]:
        """Record a batch of shards; `changes_out` counts the changes that reached the session."""
        counts = _counts(pushed, batch)
        made = self._record(batch.number, counts, changes_out, batch.stages, why_paused)
        measured = [wire.loads(r.data) for r in batch.results if r.kind == "shard"]
        if measured:
            told = _of_shards(measured)
            made["stages"] |= told.pop("stages")
            return self._keep(made | {"entry": batch.entry} | told)
        if counts:  # ask shards in this process as seldom as an engine
            self._state_bytes = state_bytes()
        return self._keep(made | {"entry": batch.entry, "state_bytes": self._state_bytes})

    def add_stage(self, stage: str, seconds: float) -> dict[str, Any]:
        """Add the time of a further stage to the last record, and return the record."""
        record = self.records[-1]
        record["stages"][stage] = seconds
        record["seconds"] += seconds
        return record

    def tell(self, record: dict[str, Any]) -> PenstockError | None:
        """Send a record to all listeners; return an error about those that raised."""
        said: PenstockError | None = None
        for listen in self.listeners:
            try:
                listen(record)
            except Exception as error:  # the other listeners and the job go on
                said = said or PenstockError(
                    f"a function given to on_progress() raised {error!r}; the batch was applied",
                    code="PS-RUN-002",
                    remedy="correct the function",
                )
                said.__cause__ = said.__cause__ or error
        return said

    def _record(
        self,
        number: int,
        counts: Mapping[str, Counts],
        changes_out: int,
        stages: Mapping[str, float],
        why_paused: WhyPaused,
    ) -> dict[str, Any]:
        """The common part of a record, for every runner; its stages follow each other in time."""
        now = now_us()
        nothing = Counts()
        return {
            "batch": number,
            "timestamp": _iso(now),
            "queries": len(self._queries.registry),
            "rows_in": sum(c.received for c in counts.values()),
            "late": sum(c.late for c in counts.values()),
            "quarantined": sum(c.quarantined for c in counts.values()),
            "changes_out": changes_out,
            "seconds": sum(stages.values()),
            "stages": dict(stages),
            "streams": {
                name: self._stream(meter.stream, counts.get(name, nothing), now)
                | {"paused": why_paused(name) or None}
                for name, meter in self._catalog.meters.items()
            },
        }

    def _stream(self, stream: StreamDef, counts: Counts, now: int) -> dict[str, Any]:
        mark = self._engine.sources[stream.name].watermark
        known = mark != BEGINNING
        return {
            "rows_in": counts.received,
            "late": counts.late,
            "quarantined": counts.quarantined,
            "watermark": mark if known else None,
            "lag_s": (now - mark) / 1e6 if known and not stream.unit_time else None,
        }

    def _keep(self, record: dict[str, Any]) -> dict[str, Any]:
        self.records.append(record)
        del self.records[:-KEPT]
        return record


def _iso(now: int) -> str:
    moment = dt.datetime.fromtimestamp(now / 1e6, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _counts(pushed: list[Mapping[str, Counts]], batch: JobBatch) -> dict[str, Counts]:
    """Rows of each stream in the batch: pushed rows, and rows read by Spark's tasks."""
    found: dict[str, Counts] = {}
    read = [wire.loads(r.data)["counts"] for r in batch.results if r.kind == "status"]
    for part in (*pushed, *read):
        for stream, counts in part.items():
            found[stream] = found.get(stream, Counts()) + counts
    return found


def _of_shards(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Measurements of the shards: totals, and for each stage the slowest shard per level."""
    stages = {
        f"level{level}_{stage}": max(told[stage] for told in found if told["level"] == level)
        for level in sorted({told["level"] for told in found if _STAGES[0] in told})
        for stage in _STAGES
    }
    totals = {name: sum(t[name] for t in found) for name in _TOTALS if found and name in found[0]}
    return {**totals, "stages": stages}
