"""Re-evaluation: the plan runs over whole windows at each change (Sah & Prasad, introduction).

The inner plan consists of the operators that every strategy uses. They are made anew in an empty
arena, take all rows of the windows as arrivals of one instant, and are discarded. The difference
of their answer and the last one is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta, concat
from penstock.kernels.changes import DELETE, INSERT, net_changes
from penstock.physical.hold import HoldOp
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.reevaluate_specs import HeldSpec, ReevaluateSpec
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope

Make = Callable[[Mapping[int, Delta]], Sequence[Operator]]
"""Makes the inner plan over the contents of windows, by the place of each window."""


class HeldOp(Operator):
    """A leaf of the inner plan, which emits the rows that it was made with."""

    def __init__(self, spec: HeldSpec, scope: Scope, rows: Delta) -> None:
        super().__init__(spec, (), scope)
        self._rows = rows

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """All rows, as arrivals of the instant."""
        return self._rows

    def contents(self, clock: Clock) -> Delta:
        """The same."""
        return self._rows


class ReevaluateOp(Operator):
    """Emits the difference of consecutive answers; it keeps the last one."""

    def __init__(
        self, spec: ReevaluateSpec, windows: Sequence[HoldOp], scope: Scope, queries: QueryTable,
        make: Make,
    ) -> None:  # fmt: skip
        super().__init__(spec, windows, scope)
        self._windows, self._queries, self._make = tuple(windows), queries, make
        self._top = spec.top.at
        scope.array("answer", (0, 2 + len(spec.edge.schema)))
        scope.array("begun", 1)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Evaluate at each instant at which a window changes or a query is new."""
        found = []
        for now in self._instants(inputs, clock):
            for window, delta in zip(self._windows, inputs, strict=True):
                start, end = np.searchsorted(delta.ts, (now, now + 1))
                window.move(delta.take(np.arange(start, end)), now)
            found.append(self._difference(now))
        self.scope["begun"][0] = 1
        return concat(found, len(self.edge.schema))

    def idle(self, now: int) -> bool:
        """Whether no row leaves by `now` and every query has an answer."""
        return not (self._is_awaited() or any(window.due(now) for window in self._windows))

    def _is_awaited(self) -> bool:
        """Whether some query has no answer yet."""
        return self._queries.newcomers.shape[0] > 0 or not self.scope["begun"][0]

    def _instants(self, inputs: list[Delta], clock: Clock) -> list[int]:
        """The instants of change, ascending."""
        times = [delta.ts for delta in inputs]
        for window, delta in zip(self._windows, inputs, strict=True):
            times.append(window.ends(delta, clock))
        if self._is_awaited():
            times.append(np.array([clock.now]))
        found: list[int] = np.unique(np.concatenate(times)).tolist()
        return found

    def _difference(self, now: int) -> Delta:
        """Replace the answer by that of an instant; the rows that go, then those that come."""
        answer = self._evaluate(Clock(now, now))
        old, self.scope["answer"] = self._answer(), _words(answer)
        words = np.concatenate((old, self._answer()))
        lin, rows = words[:, 0].copy(), np.ascontiguousarray(words[:, 1:].T)
        sign = np.repeat(np.array([-1, 1], np.int8), (old.shape[0], len(answer)))
        kept = net_changes(rows, lin, np.where(sign < 0, DELETE, INSERT).astype(np.int8))
        return _at(now, rows, sign, lin).take(kept)

    def _evaluate(self, clock: Clock) -> Delta:
        """The answer of the inner plan; all queries see all rows of the windows, as they should."""
        contents = {window.spec.at: window.contents(clock) for window in self._windows}
        out: list[Delta] = []
        with self._queries.settled():
            for operator in self._make(contents):
                inputs = [out[source.at] for source in operator.spec.inputs]
                out.append(operator.step(inputs, clock))
        changes = out[self._top]
        return changes.take(_net(changes))

    def _answer(self) -> I64:
        return cast(I64, self.scope["answer"])

    def contents(self, clock: Clock) -> Delta:
        """The last answer."""
        words = self._answer()
        sign = np.ones(words.shape[0], np.int8)
        return _at(clock.now, np.ascontiguousarray(words[:, 1:].T), sign, words[:, 0].copy())

    def purge(self, lins: I64) -> None:
        """Forget the answers of these queries or cohorts."""
        words = self._answer()
        self.scope["answer"] = words[~np.isin(words[:, 0], lins)]

    def rows(self) -> int:
        """Number of rows of the answer."""
        return len(self._answer())

    def strings(self) -> list[StringColumns]:
        """Where the answer has string codes."""
        columns = tuple(2 + c for c in self.edge.schema.string_columns)
        return [StringColumns(f"{self.scope.prefix}/answer", columns)] if columns else []


def _words(delta: Delta) -> I64:
    """Rows as [lin, NULL word, columns…]."""
    return np.column_stack((delta.lin, delta.rows.T))


def _at(now: int, rows: I64, sign: np.ndarray[tuple[int], np.dtype[np.int8]], lin: I64) -> Delta:
    """Rows of one instant that leave by −1 rows."""
    n = lin.shape[0]
    return Delta(rows, np.full(n, now), np.full(n, NEVER), sign, lin)


def _net(changes: Delta) -> I64:
    """The rows left of an evaluation: an operator may emit a row and take it back."""
    leaving = np.where(changes.sign < 0, DELETE, INSERT).astype(np.int8)
    return net_changes(changes.rows, changes.lin, leaving)
