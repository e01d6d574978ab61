"""The join of two windows of streams: rows stay in the logs, SteMs find them (CACQ §3.3.1).

It returns the same rows in the same order as `physical/join.py` over two scans, and keeps only its
positions in the two logs. All joins on the same columns share the SteMs (docs/design/0006). Below a
view it emits its own deletions (docs/design/0005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER, Bool
from penstock.delta import Clock, Delta, Lineage
from penstock.kernels.window_join import JoinedPairs, gather_sides
from penstock.physical.join_specs import WindowJoinSpec
from penstock.physical.operator import Operator
from penstock.physical.residual import passing
from penstock.stems.log_view import LogView
from penstock.stems.window_join import Stride, WindowJoin

if TYPE_CHECKING:
    from penstock.eddy.flows import Flows
    from penstock.expressions.condition import Condition
    from penstock.expressions.context import Context
    from penstock.queries.query_table import QueryTable
    from penstock.state.arena import Scope
    from penstock.state.source_log import SourceLog

_NOWHERE = -1


@dataclass(slots=True)
class _Traits:
    """Cached facts of a log: the positions after the last row with a NULL, and with an old epoch.

    An epoch is old if it is before `since`. The cache is void when the arena's content is replaced.
    """

    nulls: int = 0
    old: int = 0
    since: int = 0
    identity: I64 | None = None

    def notice(self, log: SourceLog, start: int, end: int, queries: QueryTable) -> None:
        """Inspect the rows at [start, end), and earlier rows if `since` or the arena changed."""
        since = int(queries.since(Lineage.EPOCH).max())
        if self.identity is not queries.identity:
            self.nulls, self.old, self.since, self.identity = 0, 0, since, queries.identity
            start = log.discarded
        self.nulls = _last(log.read(start, end)[0][:, 0] != 0, start, self.nulls)
        if since > self.since:
            self.since, start = since, log.discarded
        self.old = _last(log.read(start, end)[2] < self.since, start, self.old)


def _last(has: Bool, start: int, otherwise: int) -> int:
    """The position after the last row marked in `has`; `otherwise` if none is marked."""
    return start + has.shape[0] - int(np.argmax(has[::-1])) if has.any() else otherwise


class WindowJoinOp(Operator):
    """Inner join of two windows on column equality, a band or any residual condition."""

    def __init__(
        self, spec: WindowJoinSpec, scope: Scope, ctx: Context, residual: Condition | None,
        logs: list[SourceLog], queries: QueryTable, flows: Flows,
    ) -> None:  # fmt: skip
        super().__init__(spec, (), scope)
        self._explicit = spec.expiry.tells
        places = [(s, c) for s, scan in enumerate(spec.scans) for c in scan.columns]
        self._of_right = np.array([places[c][0] == 1 for c in spec.columns], np.bool_)
        self._columns = np.array([places[c][1] for c in spec.columns], np.int64)
        self._residual, self._ctx, self._queries = residual, ctx, queries
        self._flows, self._logs, self._windows = flows, logs, spec.windows
        self._join = flows.joins.acquire(spec.windows, spec.band, logs)
        self._traits = (_Traits(), _Traits())
        scope.array("position", 2, fill=_NOWHERE)
        scope.array("told", 1, fill=BEGINNING)  # departures up to this time are already emitted

    @property
    def shared(self) -> WindowJoin:
        """The join, which finds pairs for all its readers."""
        return self._join

    @property
    def streams(self) -> tuple[str, str]:
        """The streams of the two windows."""
        left, right = self._windows
        return left.stream, right.stream

    def close(self) -> None:
        """Release the shared SteMs, because the template is gone."""
        self._flows.joins.release(self._join)

    # ---- the step --------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Emit results that appear and, if the spec says so, results that end."""
        position, told = self.scope["position"], int(self.scope["told"][0])
        first = position[0] == _NOWHERE
        if clock.now == BEGINNING:
            position[:] = [log.discarded for log in self._logs]
            return Delta.empty(len(self.edge.schema))
        starts, ends = (int(position[0]), int(position[1])), self._ends(clock.now)
        position[:], self.scope["told"][0] = ends, clock.now
        if first:
            return self.contents(clock)
        at = clock.now if clock.at_commit else BEGINNING
        stride = Stride(starts, ends, told, clock.now, at, self._explicit)
        return self._delta(stride, self._join.in_step(stride), clock)

    def _ends(self, now: int) -> tuple[int, int]:
        sides = zip(self._windows, self._logs, strict=True)
        left, right = (window.lifetime.end(log, now) for window, log in sides)
        return left, right

    def has_input(self, now: int) -> bool:
        """Whether a row waits that a step at `now` would read."""
        ends = np.array(self._ends(now))
        return now != BEGINNING and bool((ends > self.scope["position"]).any())

    def _delta(self, stride: Stride, pairs: JoinedPairs, clock: Clock) -> Delta:
        """Gather the pairs of a stride as rows."""
        for side in zip(self._traits, self._logs, stride.starts, stride.ends, strict=True):
            traits, log, start, end = side
            traits.notice(log, start, end, self._queries)
        left, right = (LogView.of(log) for log in self._logs)
        n = pairs.ts.shape[0]
        nulls = self._any("nulls", stride.told)
        rows = gather_sides(pairs, left.rows, right.rows, self._of_right, self._columns, nulls)
        lin = np.full(n, self._traits[0].since)  # an epoch that every query sees
        if self._any("old", stride.told):
            lin = np.minimum(left.epoch[pairs.left], right.epoch[pairs.right])
        if self._explicit:
            never = np.broadcast_to(NEVER, n)
            return Delta(rows, clock.instants(pairs.ts), never, pairs.sign, lin)
        out = Delta(rows, pairs.ts, self._expiry([left, right], pairs), pairs.sign, lin)
        if self._residual is None or not n:
            return out
        return out.take(passing(out, self._residual, self._ctx, self.edge.lineage))

    def _any(self, trait: str, told: int) -> bool:
        """Whether a row in the windows after `told` may have a trait (a NULL, an old epoch)."""
        sides = zip(self._traits, self._windows, self._logs, strict=True)
        return any(getattr(t, trait) > window.lifetime.first(log, told) for t, window, log in sides)

    def _expiry(self, views: list[LogView], pairs: JoinedPairs) -> I64:
        exp = np.full(pairs.ts.shape[0], NEVER)
        for window, view, at in zip(self._windows, views, (pairs.left, pairs.right), strict=True):
            if window.lifetime.ends:
                np.minimum(exp, window.lifetime.departures(view.ts[at]), out=exp)
        return exp

    def contents(self, clock: Clock) -> Delta:
        """Join the rows of both windows: rows of the right one look up those of the left."""
        position, now = self.scope["position"], clock.now
        if position[0] == _NOWHERE or now == BEGINNING:
            return Delta.empty(len(self.edge.schema))
        ends = (int(position[0]), int(position[1]))
        first = self._windows[1].lifetime.first(self._logs[1], now)
        stride = Stride((ends[0], first), ends, now, now, now, False)
        return self._delta(stride, self._join.pairs(stride), clock)

    def needs(self, now: int) -> dict[str, int]:
        """The first position of each stream's log that this join still needs."""
        told, found = int(self.scope["told"][0]), dict[str, int]()
        for window, log in zip(self._windows, self._logs, strict=True):
            first = window.lifetime.first(log, told)
            found[window.stream] = min(found.get(window.stream, first), first)
        return found
