"""Hold: the rows that are in a window at an instant, for the operator that re-evaluates over them.

Its reader moves it from instant to instant of a step, because it must see the contents at each.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.physical.expiry_stores import ExpiryStore, make_store
from penstock.physical.keep import forget_rows, keep_rows, kept_rows
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.reevaluate_specs import HoldSpec
from penstock.physical.signed import alive
from penstock.state.arena import Scope


class HoldOp(Operator):
    """Passes its input on; its reader stores the rows with `move`."""

    def __init__(self, spec: HoldSpec, source: Operator, scope: Scope) -> None:
        super().__init__(spec, (source,), scope)
        (self._kept,) = spec.expiry.inputs
        store = make_store(scope.scope("store"), self._kept, 2 + len(source.edge.schema))
        assert store is not None
        self._store: ExpiryStore = store

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Pass the rows on that are alive when they come."""
        return alive(inputs[0])

    def idle(self, now: int) -> bool:
        """Without rows there is nothing to pass on."""
        return True

    def due(self, now: int) -> bool:
        """Whether a stored row leaves by `now`."""
        return self._store.due(now)

    def ends(self, delta: Delta, clock: Clock) -> I64:
        """The instants of a step at which stored rows, or those of `delta`, leave."""
        exp = np.concatenate((self._store.entries()[0], delta.exp))
        return clock.instants(np.unique(exp[exp <= clock.now]))

    def move(self, delta: Delta, now: int) -> None:
        """Store the rows of an instant, remove those that they retract and those that leave."""
        if len(delta):
            keep_rows(self._store, delta, self._kept.retracted)
        self._store.expire(now)

    def contents(self, clock: Clock) -> Delta:
        """The stored rows."""
        return kept_rows(self._store, clock.now)

    def purge(self, lins: I64) -> None:
        """Forget the rows of these queries or cohorts."""
        forget_rows(self._store, lins)

    def rows(self) -> int:
        """Number of stored rows."""
        return len(self._store)

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of stored rows."""
        columns = tuple(2 + c for c in self.edge.schema.string_columns)
        return [StringColumns(f"{self.scope.prefix}/store/words", columns)] if columns else []
