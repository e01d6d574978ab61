"""The window join: it stores both sides; arrivals probe the other side (Golab §2.1, Ghanem §5.5).

Events of both inputs are applied in order of (ts, −1 rows, tables first, left before right). A
result lives until the first of its parts expires; a −1 row takes back the live pairs of the row it
retracts, so results have the sign of what comes in (cases 1 and 4 of Ghanem §5.1). Below a view,
the join is *explicit* where possible: rows that leave probe like rows that arrive, and the view
stores nothing (docs/design/0005). This operator does inner joins only; the planner composes outer,
semi and anti joins of other operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.kernels.join import (
    COLUMNS,
    LEFT_TAGGED,
    RIGHT_TAGGED,
    Events,
    Test,
    gather_pairs,
    join_events,
)
from penstock.kernels.join_changes import gather_changes
from penstock.physical.expiry import Store
from penstock.physical.join_changes import find_changes
from penstock.physical.join_keys import JoinKeys
from penstock.physical.join_specs import JoinSpec
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.residual import passing
from penstock.state.arena import Scope
from penstock.state.join_side import JoinSide
from penstock.stems.band import band_test

if TYPE_CHECKING:
    from penstock.expressions.condition import Condition
    from penstock.expressions.context import Context


def _ever_alive(delta: Delta) -> Delta:
    alive = delta.exp > delta.ts
    return delta if alive.all() else delta.take(alive)


class JoinOp(Operator):
    """Inner join on column equality, a band and a residual condition."""

    def __init__(
        self, spec: JoinSpec, left: Operator, right: Operator, scope: Scope, ctx: Context,
        residual: Condition | None, since: Callable[[], I64],
    ) -> None:  # fmt: skip
        super().__init__(spec, (left, right), scope)
        self._explicit = spec.expiry.tells
        self._columns = np.array(spec.columns, np.int64)
        self._residual, self._ctx, self._since = residual, ctx, since
        self._right_first = spec.tables == (False, True)
        levels = (left.edge.lineage, right.edge.lineage)
        self._tagged = self._one_tagged(*levels)
        self._test = band_test(spec.band, left.edge.schema, self._tagged)
        both_tagged = min(levels) > Lineage.EPOCH
        self._keys = JoinKeys(scope.scope("keys"), spec.equi, self._test, both_tagged)
        scanned = [kept.store is Store.LIST for kept in spec.expiry.inputs]
        self._left = JoinSide(scope.scope("left"), len(left.edge.schema), scanned[0])
        self._right = JoinSide(scope.scope("right"), len(right.edge.schema), scanned[1])
        if self._explicit:
            scope.array("told", 1, fill=BEGINNING)  # departures up to this time are already emitted

    @staticmethod
    def _one_tagged(left: Lineage, right: Lineage) -> int:
        if (left > Lineage.EPOCH) == (right > Lineage.EPOCH):
            return 0
        return LEFT_TAGGED if left > Lineage.EPOCH else RIGHT_TAGGED

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Apply both batches; each result has the time of its later part."""
        left, right = inputs
        if self._explicit:
            out = self._changes(left, right, clock)
        elif len(left) or len(right):
            out = self._join(left, right)
        else:
            out = Delta.empty(len(self.edge.schema))
        self._tidy(clock.now)
        return out

    def _join(self, left: Delta, right: Delta) -> Delta:
        return self._pairs(*self._arrivals(left, right), link=True)

    def _arrivals(self, left: Delta, right: Delta) -> tuple[Events, Events]:
        """Log the new rows."""
        left_ids, right_ids = self._keys.assign(left, True), self._keys.assign(right, False)
        self._reserve()
        left_slots = self._left.append(left, left_ids)
        right_slots = self._right.append(right, right_ids)
        return (
            self._events(left, left_ids, left_slots, True),
            self._events(right, right_ids, right_slots, False),
        )

    def _changes(self, left: Delta, right: Delta, clock: Clock) -> Delta:
        """Emit results that appear and results that end, in time order."""
        told, self.scope["told"][0] = int(self.scope["told"][0]), clock.now
        new = self._arrivals(_ever_alive(left), _ever_alive(right))
        due = (
            self._departures(self._left, told, clock.now, True),
            self._departures(self._right, told, clock.now, False),
        )
        streams = (*new, *due)
        if not any(events.ts.shape[0] for events in streams):
            return Delta.empty(len(self.edge.schema))
        ls, rs = self._left.chains(told), self._right.chains(told)
        pairs = find_changes(streams, ls, rs, self._full_test(), self._right_first)
        nulls = self._left.some_null or self._right.some_null
        how = (self._tagged, self._columns, nulls, self._common_epoch())
        rows, lin = gather_changes(pairs, ls, rs, *how)
        never = np.broadcast_to(NEVER, lin.shape)
        return Delta(rows, clock.instants(pairs.ts), never, pairs.sign, lin)

    def _common_epoch(self) -> int:
        """One epoch that stands for the epochs of all results, −1 if there is none.

        While every query sees every row, one epoch serves for all results: a later query sees
        either none of today's epochs or all of them.
        """
        least = min(self._left.least_lin, self._right.least_lin)
        return least if self.edge.lineage is Lineage.EPOCH and least >= self._since().max() else -1

    def _departures(self, side: JoinSide, after: int, until: int, is_left: bool) -> Events:
        """The rows of one side that expire in (after, until], each at its own expiry."""
        slots = side.due(after, until)
        gone = side.delta(slots, until)
        return self._events(gone.with_(ts=gone.exp), side.chain[slots], slots, is_left)

    def _full_test(self) -> Test:
        return self._test._replace(since=self._since()) if self._tagged else self._test

    def _reserve(self) -> None:
        self._left.reserve(self._keys.capacity)
        self._right.reserve(self._keys.capacity)

    def _events(self, delta: Delta, ids: I64, slots: I64, is_left: bool) -> Events:
        probes = self._keys.probes(delta, is_left)
        return Events(delta.ts, delta.exp, delta.lin, delta.sign, ids, slots, probes, delta.rows)

    def _pairs(self, left: Events, right: Events, *, link: bool) -> Delta:
        """Find the pairs of these events and gather their columns."""
        guess = 64 + 8 * (left.ts.shape[0] + right.ts.shape[0])
        ls, rs = self._left.chains(link=link), self._right.chains(link=link)
        found = join_events(left, right, ls, rs, self._full_test(), self._right_first, guess)
        out = Delta(*gather_pairs(found, ls, rs, self._tagged, self._columns))
        if self._residual is None or not len(out):
            return out
        return out.take(passing(out, self._residual, self._ctx, self.edge.lineage))

    def _tidy(self, now: int) -> None:
        if self._explicit:
            self._release(np.concatenate((self._left.sort(now), self._right.sort(now))))
        self._release(np.concatenate((self._left.tidy(now), self._right.tidy(now))))

    def _release(self, dropped: I64) -> None:
        self._keys.release([self._left, self._right], dropped)

    def contents(self, clock: Clock) -> Delta:
        """The join of the rows both sides hold."""
        self._reserve()
        slots = self._right.live(clock.now)
        right = self._right.delta(slots, clock.now)
        left = Delta.empty(len(self.inputs[0].edge.schema))
        none = np.empty(0, np.int64)
        live = self._pairs(
            self._events(left, none, none, True),
            self._events(right, self._right.chain[slots], slots, False),
            link=False,
        )
        return live.with_(exp=np.full(len(live), NEVER)) if self._explicit else live

    def purge(self, lins: I64) -> None:
        """Drop the rows of these lineage ids on each side that stores lineage."""
        if self.edge.lineage == Lineage.EPOCH:
            return
        sides = zip(self.inputs, (self._left, self._right), strict=True)
        dropped = [
            side.remove(lins) for source, side in sides if source.edge.lineage == self.edge.lineage
        ]
        self._release(np.concatenate(dropped))

    def rows(self) -> int:
        """Number of stored rows of both sides, including expired rows that still occupy memory."""
        return len(self._left) + len(self._right)

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of both sides' rows.

        A key's codes also occur in a stored row.
        """
        sides = zip(self.inputs, (self._left, self._right), strict=True)
        return [
            StringColumns(
                f"{side.scope.prefix}/rows",
                tuple(COLUMNS + c for c in source.edge.schema.string_columns),
            )
            for source, side in sides
            if source.edge.schema.string_columns
        ]
