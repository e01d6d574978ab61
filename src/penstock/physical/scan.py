"""Scan: the window over a stream, as rows that carry their expiry (DESIGN §3, windows).

The only state is the position in the source log. A row is emitted when the clock reaches the start
of its life; with a SLIDE that is the next boundary. The first step of a plan reads the retained
rows: those still alive come in at the clock, with their original epoch.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.logical.expr import Param
from penstock.logical.lifetime import Lifetime, lifetime_of
from penstock.logical.nodes import Scan
from penstock.physical.operator import Operator
from penstock.physical.specs import ScanSpec
from penstock.state.arena import Scope
from penstock.state.source_log import SourceLog


def _lifetime(node: Scan) -> Lifetime:
    life = lifetime_of(node.window)
    if life is None or isinstance(life.length, Param):
        raise PlanError("a scan gives rows an expiry that does not depend on others or on queries")
    return life


class ScanOp(Operator):
    """Emits the rows of a stream with their start and expiry."""

    def __init__(self, spec: ScanSpec, scope: Scope, log: SourceLog) -> None:
        super().__init__(spec, (), scope)
        self.node = node = spec.scan
        self.log = log
        self.at_commit = spec.at_commit
        self._life = _lifetime(node)
        whole = node.columns == tuple(range(len(log.schema)))
        self._columns = None if whole else np.array((0, *(1 + c for c in node.columns)))
        scope.array("position", 1, fill=-1)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """The rows with a start of life in the interval of the clock."""
        position = self.scope["position"]
        first = int(position[0]) < 0
        start = self.log.discarded if first else int(position[0])
        if clock.now == BEGINNING:
            position[0] = start
            return Delta.empty(len(self.edge.schema))
        end = max(start, self._life.end(self.log, clock.now))
        position[0] = end
        if start == end:
            return Delta.empty(len(self.edge.schema))
        delta = self.rows_at(start, end)
        return delta.alive(clock.now) if first or self.at_commit else delta

    def rows_at(self, start: int, end: int) -> Delta:
        """The rows at log positions [start, end), with their start and expiry."""
        words, ts, epoch = self.log.columns(start, end, self._columns)
        begin, exp = self._life.arrivals(ts), self._life.departures(ts)
        sign = np.ones(ts.shape[0], np.int8)
        return Delta(self._payload(words), begin, exp, sign, epoch.copy())

    def _payload(self, words: I64) -> I64:
        """Move the NULL bits to the positions of the columns that this scan reads."""
        if self._columns is not None and words[0].any():
            nulls, words[0] = words[0].copy(), 0
            for j, c in enumerate(self.node.columns):
                words[0] |= ((nulls >> c) & 1) << j
        return words

    def contents(self, clock: Clock) -> Delta:
        """The retained rows alive at the clock."""
        position = int(self.scope["position"][0])
        if position < 0 or clock.now == BEGINNING:
            return Delta.empty(len(self.edge.schema))
        return self.rows_at(self.log.discarded, position).alive(clock.now)

    def has_input(self, now: int) -> bool:
        """Whether a row waits with a start of life at or before `now`."""
        return now != BEGINNING and self._life.end(self.log, now) > self.position()

    def position(self) -> int:
        """The next log position to read."""
        return int(self.scope["position"][0])
