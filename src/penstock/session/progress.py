"""What a batch was: rows in and kept out, clocks and lag, state, bytes written, seconds.

A record is a dict of plain values, so that `json.dumps` makes one line of it. Counts are those
of the batch; `stats()` has the sums.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.arrays import BEGINNING
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.errors import PenstockError
from penstock.session.feed import now_us
from penstock.shards import wire
from penstock.shards.job import JobBatch
from penstock.shards.messages import Counts
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.session import Session
    from penstock.session.sharded import ShardedSession

Listener = Callable[[dict[str, Any]], None]
KEPT = 1000
_STAGES = ("take_s", "apply_s", "save_s")
_TOTALS = ("changes_out", "result_bytes", "state_bytes", "log_bytes", "snapshot_bytes")


def counted(admitted: Admitted, accepted: int) -> Counts:
    """What became of the rows of a push."""
    late, quarantined = admitted.late.num_rows, admitted.quarantined.num_rows
    return Counts(admitted.received, accepted, late, quarantined)


def note_step(session: Session, output: b.Output, seconds: float) -> dict[str, Any]:
    """Keep the record of a step in process."""
    counts, session._arrived = session._arrived, {}
    if counts:  # a step that brings rows looks at all plans anyway; others need not
        session._state_bytes = session._engine.arena.nbytes
    changed = sum(len(changes) for _, changes in output.changes)
    made = _record(session, output.batch, counts, changed, {"run_s": seconds})
    return _keep(session, made | {"state_bytes": session._state_bytes})


def note_batch(session: ShardedSession, batch: JobBatch, changes_out: int) -> dict[str, Any]:
    """Keep the record of a batch of shards; `changes_out` is what reached the session."""
    counts = _counts(session, batch)
    made = _record(session, batch.number, counts, changes_out, batch.stages)
    measured = [wire.loads(r.data) for r in batch.results if r.kind == "shard"]
    if measured:
        told = _of_shards(measured)
        made["stages"] |= told.pop("stages")
        return _keep(session, made | {"entry": batch.entry} | told)
    if counts:  # shards in this process are asked as seldom as an engine is
        session._state_bytes = sum(told["state_bytes"] for told in session._job.reports())
    return _keep(session, made | {"entry": batch.entry, "state_bytes": session._state_bytes})


def add_stage(record: dict[str, Any], stage: str, seconds: float) -> None:
    """What a batch took besides."""
    record["stages"][stage] = seconds
    record["seconds"] += seconds


def tell(listeners: list[Listener], record: dict[str, Any]) -> PenstockError | None:
    """Hand the record of a batch to all who listen; what to say of those that raised."""
    said: PenstockError | None = None
    for listen in listeners:
        try:
            listen(record)
        except Exception as error:  # one must not starve the others, nor stop the job
            said = said or PenstockError(
                f"a function given to on_progress() raised {error!r}; the batch was applied",
                code="PS-RUN-002",
                remedy="correct the function",
            )
            said.__cause__ = said.__cause__ or error
    return said


def _record(
    session: Session,
    number: int,
    counts: Mapping[str, Counts],
    changes_out: int,
    stages: Mapping[str, float],
) -> dict[str, Any]:
    """What every runner knows of a batch; its stages follow each other."""
    now = now_us()
    nothing = Counts()
    return {
        "batch": number,
        "timestamp": _iso(now),
        "queries": len(session._registry),
        "rows_in": sum(c.received for c in counts.values()),
        "late": sum(c.late for c in counts.values()),
        "quarantined": sum(c.quarantined for c in counts.values()),
        "changes_out": changes_out,
        "seconds": sum(stages.values()),
        "stages": dict(stages),
        "streams": {
            name: _stream(session, meter.stream, counts.get(name, nothing), now)
            for name, meter in session._meters.items()
        },
    }


def _stream(session: Session, stream: StreamDef, counts: Counts, now: int) -> dict[str, Any]:
    mark = session._engine.sources[stream.name].watermark
    known = mark != BEGINNING
    return {
        "rows_in": counts.received,
        "late": counts.late,
        "quarantined": counts.quarantined,
        "watermark": mark if known else None,
        "lag_s": (now - mark) / 1e6 if known and not stream.unit_time else None,
        "paused": session._why_paused(stream.name) or None,
    }


def _iso(now: int) -> str:
    moment = dt.datetime.fromtimestamp(now / 1e6, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _keep(session: Session, record: dict[str, Any]) -> dict[str, Any]:
    session._progress.append(record)
    del session._progress[:-KEPT]
    return record


def _counts(session: ShardedSession, batch: JobBatch) -> dict[str, Counts]:
    """Rows of each stream in the batch: pushed, and read by its tasks."""
    found: dict[str, Counts] = {}
    parts = [session._pushed.pop(n) for n in list(session._pushed) if n <= batch.entry]
    parts += [wire.loads(r.data)["counts"] for r in batch.results if r.kind == "status"]
    for part in parts:
        for stream, counts in part.items():
            found[stream] = found.get(stream, Counts()) + counts
    return found


def _of_shards(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the shards measured: totals, and by stage the slowest shard of each level."""
    stages = {
        f"level{level}_{stage}": max(told[stage] for told in found if told["level"] == level)
        for level in sorted({told["level"] for told in found if _STAGES[0] in told})
        for stage in _STAGES
    }
    totals = {name: sum(t[name] for t in found) for name in _TOTALS if found and name in found[0]}
    return {**totals, "stages": stages}
