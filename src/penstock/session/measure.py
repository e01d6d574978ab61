"""Measurements of streams: counts, rates, distinct values, rejected rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine.admission import QUARANTINE, Admitted
from penstock.engine.engine import Engine
from penstock.logical.nodes import Node
from penstock.optimizer.stats import Stats, StreamStats, TableStats
from penstock.physical.semi_join import SemiJoinOp
from penstock.physical.set_op import SetOpOp
from penstock.session.source_state import SourceState
from penstock.sql.catalog import StreamDef

LastChange = tuple[int, int | None]
"""The watermark of a stream when a table last changed, and the log entry of the change.

The entry is None once it has run; then the watermark is exact.
"""

_KEPT_TABLES = 1_000
_SAMPLE = 2_000


class StreamMeter:
    """Counts and samples of one stream."""

    def __init__(self, stream: StreamDef) -> None:
        self.stream = stream
        self.received = self.accepted = self.late_rows = self.quarantined = 0
        self.last_push = time.time_ns() // 1000  # silence is measured from the declaration on
        self.last_tick = self.last_push
        self.source = SourceState()
        self.since = 0  # entry that declared the stream, on Spark
        self.first_ts: int | None = None
        self.last_ts: int | None = None
        self.retained_from: int | None = None  # earlier rows were discarded under another RETAIN
        self.altered = False  # whether RETAIN differs from the declaration
        self.retained_at: int | None = None  # the log entry that set RETAIN, until it has run
        self.table_changes: dict[str, LastChange] = {}  # by non-retroactive table
        self._late: list[pa.Table] = []
        self._quarantine: list[pa.Table] = []
        self._sample: I64 = np.empty((1 + len(stream.schema), 0), np.int64)
        self._distinct: dict[str, float] | None = None  # as estimated from the sample

    def count(self, admitted: Admitted, rows: I64, wall: int, accepted: int | None = None) -> None:
        """Record a batch; `rows` may be a sample of the accepted rows."""
        self.received += admitted.received
        self.accepted += rows.shape[1] if accepted is None else accepted
        self.late_rows += admitted.late.num_rows
        self.quarantined += admitted.quarantined.num_rows
        self.last_push = wall
        if admitted.late.num_rows:
            self._late = [*self._late[-_KEPT_TABLES:], admitted.late]
        if admitted.quarantined.num_rows:
            self._quarantine = [*self._quarantine[-_KEPT_TABLES:], admitted.quarantined]
        if rows.shape[1]:
            low, high = int(admitted.ts.min()), int(admitted.ts.max())
            self.first_ts = low if self.first_ts is None else min(low, self.first_ts)
            self.last_ts = high if self.last_ts is None else max(high, self.last_ts)
            if self._sample.shape[1] < _SAMPLE:
                take = rows[:, : _SAMPLE - self._sample.shape[1]]
                self._sample = np.concatenate([self._sample, take], axis=1)
                self._distinct = None

    def ticks(self, now: int) -> bool:
        """Whether TICK is due: no row and no tick arrived for the given time."""
        every = self.stream.tick
        if every is None or self.stream.unit_time:
            return False
        self._heed(now)
        return now - max(self.last_push, self.last_tick) >= every

    def _heed(self, now: int) -> None:
        """Measure silence from now on if the wall clock has been set back."""
        self.last_push, self.last_tick = min(self.last_push, now), min(self.last_tick, now)

    def keep_out(self, kind: str, rows: pa.Table) -> None:
        """Record rows that were rejected elsewhere ("late" or "quarantine")."""
        kept = self._late if kind == "late" else self._quarantine
        kept.append(rows)
        del kept[:-_KEPT_TABLES]

    def add_counts(self, received: int, accepted: int, late: int, quarantined: int) -> None:
        """Add counts of rows that did not pass through this session."""
        self.received += received
        self.accepted += accepted
        self.late_rows += late
        self.quarantined += quarantined
        self.last_push = time.time_ns() // 1000

    def idle(self, now: int) -> bool:
        """Whether IDLE AFTER has passed without rows."""
        after = self.stream.idle_after
        self._heed(now)
        return after is not None and now - self.last_push >= after

    def late(self) -> pa.Table:
        """Rows that arrived too late."""
        schema = self.stream.schema.arrow().append(pa.field("_watermark", pa.int64()))
        return pa.concat_tables(self._late) if self._late else schema.empty_table()

    def quarantine(self) -> pa.Table:
        """Rejected rows, with the reason."""
        return pa.concat_tables(self._quarantine) if self._quarantine else QUARANTINE.empty_table()

    def stats(self) -> StreamStats | None:
        """Rate and distinct counts; None before enough rows have arrived."""
        if self.first_ts is None or self.last_ts is None or self.last_ts == self.first_ts:
            return None
        ticks = 1.0 if self.stream.unit_time else 1_000_000.0
        rate = self.accepted * ticks / (self.last_ts - self.first_ts)
        if self._distinct is None:
            names = enumerate(self.stream.schema.names)
            self._distinct = {n: float(_distinct(self._sample[1 + i])) for i, n in names}
        return StreamStats(rate, self._distinct, ticks)


def _distinct(sample: I64) -> float:
    """The number of distinct values estimated from a sample (Chao's lower bound)."""
    _, counts = np.unique(sample, return_counts=True)
    once, twice = float((counts == 1).sum()), float((counts == 2).sum())
    return float(counts.shape[0]) + (once * once / (2 * twice) if twice else once * (once - 1) / 2)


def measured_stats(meters: dict[str, StreamMeter], engine: Engine) -> Stats:
    """Statistics for the optimizer: streams, tables, and running negations."""
    found = {name: stats for name, m in meters.items() if (stats := m.stats()) is not None}
    tables = {name: TableStats(float(len(t))) for name, t in engine.tables.items()}
    return Stats(found, tables, premature=_PrematureShares(engine))


class _PrematureShares(Mapping[Node, float]):
    """Share of results that ended early, for each negation of the running plans.

    Computed on demand: most plans have no negation.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @cached_property
    def _negations(self) -> dict[Node, SetOpOp | SemiJoinOp]:
        plans = (template.plan for template in self._engine.templates.values())
        return {n: operator for plan in plans for n, operator in plan.negations if operator.rows()}

    def __getitem__(self, node: Node) -> float:
        return self._negations[node].premature_share()

    def __iter__(self) -> Iterator[Node]:
        return iter(self._negations)

    def __len__(self) -> int:
        return len(self._negations)
