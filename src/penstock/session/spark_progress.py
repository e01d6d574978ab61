"""What a batch on Spark was: rows in, kept out, clocks and lag, state, bytes written, seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.delta import BEGINNING
from penstock.session.feed import now_us
from penstock.shards import wire
from penstock.shards.job import Batch
from penstock.sql.catalog import StreamDef

if TYPE_CHECKING:
    from penstock.session.on_spark import OnSpark


def record(session: OnSpark, batch: Batch) -> dict[str, Any]:
    """The facts of a batch, as progress() shows them."""
    received = _received(session, batch)
    clocks = {name: source.watermark for name, source in session._engine.sources.items()}
    streams = {
        name: {
            "rows_in": received.get(name, 0),
            "received": meter.received,
            "late": meter.late_rows,
            "quarantined": meter.quarantined,
            "watermark": None if clocks[name] == BEGINNING else clocks[name],
            "lag_s": _lag(meter.stream, clocks[name]),
        }
        for name, meter in session._meters.items()
    }
    return {
        "entry": batch.entry,
        "queries": len(session._registry.queries),
        "rows_in": sum(received.values()),
        "late": sum(meter.late_rows for meter in session._meters.values()),
        "quarantined": sum(meter.quarantined for meter in session._meters.values()),
        "streams": streams,
        **shards(session._job.reports()),
    }


def _received(session: OnSpark, batch: Batch) -> dict[str, int]:
    """Rows of each stream in the batch: pushed, and read by Spark."""
    found: dict[str, int] = {}
    for entry in [n for n in session._pushed if n <= batch.entry]:
        for stream, rows in session._pushed.pop(entry).items():
            found[stream] = found.get(stream, 0) + rows
    for result in batch.results:
        if result.kind == "status":
            for stream, counts in wire.loads(result.data)["counts"].items():
                found[stream] = found.get(stream, 0) + counts.received
    return found


def shards(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the shards measured: totals, and the slowest shard of each level by stage."""
    stages = {
        f"level{level}_{stage}": max((t[stage] for t in found if t["level"] == level), default=0.0)
        for level in (1, 2)
        for stage in ("take_s", "apply_s", "save_s")
    }
    totals = {
        name: sum(t[name] for t in found)
        for name in (
            "changes_out",
            "result_bytes",
            "state_bytes",
            "log_bytes",
            "snapshot_bytes",
        )
    }
    return {**totals, "stages": stages}


def _lag(stream: StreamDef, mark: int) -> float | None:
    """Seconds from a stream's time to the wall clock."""
    if stream.unit_time or mark == BEGINNING:
        return None
    return (now_us() - mark) / 1e6
