"""GROUP BY: one row per group, kept in an array indexed by group (Golab & Özsu 2005, §5.2 rule 4).

Keys become group ids. Each input row stores an entry [group, valid bits, arguments…] in the expiry
store of its edge; when the row ends, the same words are subtracted. All events of one instant are
netted per group before anything is emitted: a (−2, +2) pair for a changed group, +1 for a new one,
−1 for a vanished one. So rows of either sign give rows of both (all four cases of Ghanem §5.1). An
aggregate without keys shows a row for every lineage from the first step until the lineage is
purged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I8, I64, NEVER, Bool
from penstock.delta import Clock, Delta
from penstock.expressions.context import Context
from penstock.kernels import aggregates_events as e
from penstock.kernels import group_by as k
from penstock.kernels.rows import key_rows
from penstock.physical.accumulators import Accumulators
from penstock.physical.aggregates import plan_aggregates
from penstock.physical.expiry_stores import is_due, make_store
from penstock.physical.keyed_specs import GroupBySpec
from penstock.physical.operator import Operator, StringColumns
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_NO_IDS = np.empty(0, np.int64)


class GroupByOp(Operator):
    """Aggregates per key and lineage.

    `lineages` returns all registered ids of the edge's level. It returns the same array object
    until the ids change.
    """

    def __init__(
        self, spec: GroupBySpec, source: Operator, scope: Scope, ctx: Context,
        lineages: Callable[[], I64],
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        self._keys = np.array(spec.keys, np.int64)
        self._aggs = spec.aggs
        self._lineages = lineages
        self._seeded: I64 | None = None  # the lineages that already have their rows
        (kept,) = spec.expiry.inputs
        self._plan = plan_aggregates(spec.aggs, kept, spec.of_totals)
        self._groups = KeyTable(scope.scope("groups"), 2 + len(spec.keys))
        self._store = make_store(scope.scope("store"), kept, self._plan.entry_width)
        self._accumulators = Accumulators(self._plan, scope, ctx, spec.edge.lineage)
        scope.array("stamp", 1)

    @property
    def _state(self) -> I64:
        return cast(I64, self.scope["state"])

    # ---- one step ------------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Apply expirations and arrivals up to the clock; emit the net change of each group."""
        delta = _living(inputs[0])
        seeds = self._seeds()
        entries = self._entries(delta)
        expire_ts, expired, sign = self._through_store(delta, entries, clock)
        if expire_ts.shape[0] + len(delta) + seeds.shape[0] == 0:
            return Delta.empty(len(self.edge.schema))
        # In the very first step, a lineage with earlier rows appears at the time of those rows.
        seed_ts = clock.now if clock.before == BEGINNING else clock.before
        stamp = cast(I64, self.scope["stamp"])
        events, times, counts, stamp[0] = k.merge_events(
            expire_ts, expired, delta.ts, sign, entries, seed_ts, seeds,
            self._state, int(stamp[0]), len(self._aggs),
        )  # fmt: skip
        self._accumulators.run(events, counts, self._groups.keys[:, 0])
        out, empty = self._settle(events, times, counts)
        self._forget(np.concatenate([empty, entries[sign == 0, e.GROUP]]))
        return out

    def idle(self, now: int) -> bool:
        """Whether nothing expires by `now` and every lineage already has its row."""
        return not is_due(self._store, now) and (
            self._keys.shape[0] > 0 or self._lineages() is self._seeded
        )

    def _seeds(self) -> I64:
        """Create the groups of lineages that have no row yet (aggregates without keys only)."""
        if self._keys.shape[0]:
            return _NO_IDS
        lins = self._lineages()
        if lins is self._seeded:
            return _NO_IDS
        self._seeded = lins
        keys = np.zeros((lins.shape[0], 2), np.int64)
        keys[:, 0] = lins
        fresh = self._groups.find(keys) < 0
        return self._groups.assign(keys[fresh]) if fresh.any() else _NO_IDS

    def _entries(self, delta: Delta) -> I64:
        """Make the stored entry of each row: group, valid bits, arguments."""
        groups = self._groups.assign(key_rows(delta.rows, delta.lin, self._keys))
        plan = self._plan
        entries = k.make_entries(
            delta.rows, groups, plan.arguments, plan.columns, plan.filters, plan.entry_width
        )
        self.scope.reserve("state", self._groups.capacity)
        self._accumulators.name_values(entries, delta.rows)
        return entries

    def _through_store(self, delta: Delta, entries: I64, clock: Clock) -> tuple[I64, I64, I8]:
        """Store arrivals and take out what ends; a retraction of an unknown row gets sign 0."""
        sign = delta.sign
        if self._store is None:
            return _NO_IDS, np.empty((0, self._plan.entry_width), np.int64), sign
        minus = np.flatnonzero(sign < 0)
        if minus.shape[0] == 0:
            self._store.add(delta.exp, entries)
        else:
            plus = sign > 0
            self._store.add(delta.exp[plus], entries[plus])
            found = self._store.cancel(delta.exp[minus], entries[minus])
            sign = sign.copy()
            sign[minus[found == 0]] = 0
        gone, words = self._store.expire(clock.now)
        return clock.instants(gone), words, sign

    def _settle(self, events: e.Events, times: I64, counts: I64) -> tuple[Delta, I64]:
        """Emit the changes of the touched groups; also return which groups have no rows."""
        n = events.touch_groups.shape[0]
        old, change = np.empty(events.shown.shape, np.int64), np.empty(n, np.int8)
        empty = np.empty(n, np.int64)
        always = self._keys.shape[0] == 0
        outputs, n_empty = k.settle(events, counts, always, self._state, old, change, empty)
        rows, ts, sign, lin = k.expand_changes(
            events, times, old, change, outputs, self._groups.keys
        )
        return Delta(rows, ts, np.full(outputs, NEVER, np.int64), sign, lin), empty[:n_empty]

    # ---- forgetting ------------------------------------------------------------------------
    def _forget(self, ids: I64) -> None:
        """Release those of `ids` that have no rows and show no result."""
        if ids.shape[0]:
            self._clear(k.find_vacant(ids, self._state))

    def _clear(self, ids: I64) -> None:
        self._accumulators.clear(ids)
        k.clear_rows(ids, self._state)
        self._groups.release(ids)

    def purge(self, lins: I64) -> None:
        """Release all groups of these lineage ids."""
        ids = self._groups.live()
        ids = ids[np.isin(self._groups.keys[ids, 0], lins)]
        if ids.shape[0] == 0:
            return
        if self._store is not None:
            _, words = self._store.entries()
            gone = np.isin(words[:, e.GROUP], ids)
            if gone.any():
                self._store.filter(np.flatnonzero(~gone))
        self._accumulators.purge(ids)
        self._clear(ids)

    # ---- reading ---------------------------------------------------------------------------
    def contents(self, clock: Clock) -> Delta:
        """The row of every group."""
        ids = self._groups.live()
        ids = ids[self._state[ids, e.LIVE] != 0]
        keys, n = self._groups.keys, ids.shape[0]
        rows = k.show_rows(ids, self._state, keys, len(self._aggs))
        ts, exp = np.full(n, clock.now, np.int64), np.full(n, NEVER, np.int64)
        return Delta(rows, ts, exp, np.ones(n, np.int8), keys[ids, 0])

    def rows(self) -> int:
        """Number of groups and of input rows kept until they expire."""
        return len(self._groups) + (len(self._store) if self._store is not None else 0)

    def strings(self) -> list[StringColumns]:
        """Arrays with string codes: keys, stored arguments and accumulators."""
        n_keys, source = self._keys.shape[0], self.inputs[0].edge.schema
        texts = self.edge.schema.string_columns
        found = [
            ("groups/keys", tuple(2 + c for c in texts if c < n_keys)),
            ("state", tuple(e.SHOWN + c - n_keys for c in texts if c >= n_keys)),
            *self._accumulators.strings(),
        ]
        if self._store is not None:
            kept = enumerate(self._plan.arguments)
            words = tuple(e.ARGS + i for i, c in kept if source[int(c)].type.is_string)
            found.append(("store/words", words))
        here = self.scope.prefix
        return [StringColumns(f"{here}/{name}", columns) for name, columns in found if columns]


def _living(delta: Delta) -> Delta:
    """The rows that expire after they come; a late row may have expired already."""
    alive: Bool = delta.exp > delta.ts
    return delta if alive.all() else delta.take(alive)
