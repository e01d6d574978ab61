"""DISTINCT: δ* on edges without −1 rows, δ on the others (Golab & Özsu 2005, §5.3.1).

δ* stores each distinct value once, with its latest expiry and its scheduled end. It keeps one
calendar entry per value and moves the entry only when it falls due. δ counts the rows of each value
(Ghanem et al. §5.2, W-Distinct) and keeps the expiry of every row.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta
from penstock.kernels import distinct as star
from penstock.kernels.set_op import EXCEPT
from penstock.physical.expiry_stores import ExpiryStore, make_store
from penstock.physical.keyed import KeyedOperator
from penstock.physical.keyed_specs import DistinctSpec
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.set_op import ValueCounts
from penstock.physical.signed import (
    alive,
    ids_of_lins,
    key_strings,
    live_rows,
    row_delta,
    row_ids,
)
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable


class StarState:
    """δ*: one entry per distinct value."""

    def __init__(self, scope: Scope, spec: DistinctSpec) -> None:
        self._scope = scope
        self._schema = spec.edge.schema
        self._explicit = spec.expiry.tells
        self._keys = KeyTable(scope.scope("keys"), 2 + len(self._schema))
        due = make_store(scope.scope("due"), spec.expiry.inputs[0], 1)
        assert due is not None
        self._due: ExpiryStore = due
        scope.array("values", (32, star.WORDS))

    def _values(self) -> I64:
        return cast(I64, self._scope["values"])

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Emit the values that appear and the values that end by the clock."""
        rows = alive(inputs[0])
        ids = row_ids(self._keys, rows)
        self._scope.reserve("values", self._keys.capacity)
        values = self._values()
        if self._explicit:
            out, past, fresh = star.arrive_explicit(rows.ts, rows.exp, ids, values, clock.at_commit)
        else:
            out, past, fresh = star.arrive_expiring(rows.ts, rows.exp, ids, values)
        self._schedule(fresh)
        _, words = self._due.expire(clock.now)
        late, again, gone = star.settle_due(words.reshape(-1), clock.now, self._explicit, values)
        self._schedule(again)
        result = row_delta(self._keys, *star.merge_by_time(out, _by_time(past, late)))
        self._keys.release(gone)
        return result.with_(ts=clock.instants(result.ts))

    def idle(self, now: int) -> bool:
        """Whether nothing ends by `now`."""
        return not self._due.due(now)

    def _schedule(self, ids: I64) -> None:
        end = self._values()[ids, star.END]
        finite = end < NEVER
        if not bool(finite.all()):
            end, ids = end[finite], ids[finite]
        self._due.add(end, ids.reshape(-1, 1))

    def contents(self, clock: Clock) -> Delta:
        """Each live value once."""
        ids = self._keys.live()
        exp = None if self._explicit else self._values()[ids, star.END]
        return live_rows(self._keys, ids, exp, clock)

    def purge(self, lins: I64) -> None:
        """Forget all values of these lineage ids."""
        gone = ids_of_lins(self._keys, lins)
        _, words = self._due.entries()
        self._due.filter(np.flatnonzero(~np.isin(words.reshape(-1), gone)))
        self._values()[gone] = 0
        self._keys.release(gone)

    def rows(self) -> int:
        """Distinct values held."""
        return len(self._keys)

    def strings(self) -> list[StringColumns]:
        """Where string codes are held."""
        return key_strings(self._scope.scope("keys"), self._schema)


class CountState(ValueCounts):
    """δ: a value is in the answer while its count is positive (a set difference from nothing)."""

    def __init__(self, scope: Scope, spec: DistinctSpec) -> None:
        super().__init__(scope, spec, EXCEPT)


class DistinctOp(KeyedOperator):
    """Emits each distinct row once."""

    def __init__(self, spec: DistinctSpec, source: Operator, scope: Scope) -> None:
        super().__init__(spec, (source,), scope)
        self._state: StarState | CountState
        self._state = CountState(scope, spec) if spec.counts else StarState(scope, spec)


def _by_time(first: I64, second: I64) -> I64:
    out = np.concatenate((first, second)) if first.shape[0] else second
    ts = np.ascontiguousarray(out[:, 1])
    if bool(np.all(ts[1:] >= ts[:-1])):
        return out
    return out[np.argsort(ts, kind="stable")]
