"""The accumulators of a GROUP BY: they run the kernel of each aggregate over the events of a step.

Sums live in the groups' state rows; exact sums of doubles also use pools of digits. Deques and
multisets have pools of nodes. Pools of strings are separate from pools of numbers, so that the
collector of strings finds them. Each value of a DISTINCT aggregate has an id and a count; the id is
released when the count reaches 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.kernels import aggregates_order as order
from penstock.kernels import aggregates_parts as parts
from penstock.kernels import aggregates_spread as spread
from penstock.kernels import aggregates_sums as sums
from penstock.kernels import aggregates_totals as totals
from penstock.kernels import deque, exact_spread, exact_sums, multiset, wides
from penstock.kernels.aggregates_events import GROUP, VALID, AggSlots, Events, gate_distinct
from penstock.physical.aggregates import EXACT, AggPlan, GroupPlan, Keep
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_NUMBER, _TEXT = 2, 3
"""Columns of a distinct value's key: group, aggregate, number, string code."""
_POOLS = (
    ("deques", Keep.DEQUE, False, deque.WORDS),
    ("text_deques", Keep.DEQUE, True, deque.WORDS),
    ("trees", Keep.TREE, False, multiset.WORDS),
    ("text_trees", Keep.TREE, True, multiset.WORDS),
)
_WIDES = (
    *(("sums", keep, wides.SUM_WORDS) for keep in (*EXACT, Keep.SPREAD)),
    ("squares", Keep.SPREAD, wides.SQUARE_WORDS),
)
"""Pools of digit rows: a sum of doubles moves there when two doubles cannot hold it exactly."""
FloatPass = Callable[[Events, AggSlots, I64, bool, I64, I64], bool]


class Accumulators:
    """The state of all aggregates of one operator, kept in the operator's scope."""

    def __init__(self, plan: GroupPlan, scope: Scope, ctx: Context, level: Lineage) -> None:
        self._plan = plan
        self._scope = scope
        self._ctx = ctx
        self._level = level
        scope.array("state", (16, plan.state_width))
        self._users = {p[0]: plan.users(p[1], p[2]) for p in _POOLS if plan.users(p[1], p[2])}
        for name, _, _, words in _POOLS:
            if name in self._users:
                scope.array(name, (16, words))
        self._wides = {w[0] for w in _WIDES if plan.users(w[1], False)}
        for name, _, words in _WIDES:
            if name in self._wides:
                scope.array(name, (1, words))
        self._distinct = tuple(a for a in plan.aggs if a.distinct)
        if self._distinct:
            self._values = KeyTable(scope.scope("distinct"), 4)
            scope.array("counts", 16)

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    def name_values(self, entries: I64, rows: I64) -> None:
        """Write the ids of the distinct values of `rows` into `entries`."""
        for a in self._distinct:
            place = a.place
            count = np.flatnonzero((entries[:, VALID] >> place.agg) & 1)
            keys = np.zeros((count.shape[0], 4), np.int64)
            keys[:, 0] = entries[count, GROUP]
            keys[:, 1] = place.agg
            keys[:, _TEXT if a.text else _NUMBER] = rows[1 + self._plan.columns[place.agg], count]
            entries[count, place.slot] = self._values.assign(keys)
            self._scope.reserve("counts", self._values.capacity)

    # ---- passes ----------------------------------------------------------------------------
    def run(self, events: Events, counts: I64, lins: I64) -> None:
        """Apply `events` to all aggregates and record the new values in `events.shown`.

        `counts` holds the number of rows of each group, `lins` the lineage of each group.
        """
        self._make_room(int(np.count_nonzero(events.steps > 0)))
        gone = [self._run_distinct(a, events, lins) for a in self._distinct]
        for a in self._plan.aggs:
            if a.keep is Keep.ROWS:
                events.shown[:, 1 + a.place.agg] = counts[: events.shown.shape[0]]
            elif not a.distinct and a.keep is not Keep.PART:
                self._pass(a, events, lins)
        if gone:
            ids = np.unique(np.concatenate(gone))
            self._values.release(ids[self._arr("counts")[ids] == 0])

    def _run_distinct(self, a: AggPlan, events: Events, lins: I64) -> I64:
        column = _TEXT if a.text else _NUMBER
        words, gone, n = gate_distinct(
            events, a.place, self._values.keys, column, self._arr("counts")
        )
        self._pass(a, events._replace(words=words), lins)
        return gone[:n]

    def _pass(self, a: AggPlan, events: Events, lins: I64) -> None:
        place, state = (a.gated if a.distinct else a.place), self._arr("state")
        average, flip = a.agg.fn == "avg", a.agg.fn == "min"
        if a.keep is Keep.COUNT:
            sums.count_pass(events, place, state)
        elif a.keep is Keep.COUNTS:
            totals.count_totals_pass(events, place, state)
        elif a.keep in (Keep.WIDE, Keep.SUMS):
            run = sums.wide_pass if a.keep is Keep.WIDE else totals.sum_totals_pass
            failed = np.empty(events.shown.shape[0], np.int64)
            n = run(events, place, state, average, a.scale, a.bound, failed)
            if n:
                self._fail(a, lins[failed[:n]])
        elif a.keep is Keep.FLOAT:
            self._float_pass(sums.float_pass, events, place, average)
        elif a.keep in (Keep.PARTS, Keep.MERGED):
            self._float_pass(parts.parts_pass, events, place, a.keep is Keep.MERGED)
        elif a.keep is Keep.SPREAD:
            self._spread_pass(a, events, place)
        elif a.keep is Keep.BEST:
            texts = self._ctx.strings.arrays()
            order.best_pass(events, place, state, a.floats, a.text, flip, *texts)
        elif a.keep is Keep.DEQUE and a.text:
            pool, texts = self._arr("text_deques"), self._ctx.strings.arrays()
            order.text_deque_pass(events, place, state, pool, flip, *texts)
        elif a.keep is Keep.DEQUE:
            order.deque_pass(events, place, state, self._arr("deques"), a.floats, flip)
        else:
            self._tree_pass(a, events)

    def _float_pass(self, run: FloatPass, events: Events, place: AggSlots, flag: bool) -> None:
        cursor, state = np.zeros(3, np.int64), self._arr("state")
        while not run(events, place, state, flag, self._arr("sums"), cursor):
            self._widen("sums")

    def _spread_pass(self, a: AggPlan, events: Events, place: AggSlots) -> None:
        cursor, state = np.zeros(3, np.int64), self._arr("state")
        while not spread.spread_pass(
            events, place, state, a.floats, a.scale, self._spread_pools(), cursor
        ):
            self._widen("sums")
            self._widen("squares")

    def _spread_pools(self) -> exact_spread.Pools:
        scratch = np.zeros((1, wides.SQUARE_WORDS), np.int64)
        wides.make_empty(scratch, 0)
        return exact_spread.Pools(self._arr("sums"), self._arr("squares"), scratch)

    def _widen(self, name: str) -> None:
        """Add room for at least one more digit row to a pool."""
        pool = self._arr(name)
        if pool[0, wides.FREE] == 0:
            self._scope.reserve(name, 2 + int(pool[0, wides.USED]))

    def _tree_pass(self, a: AggPlan, events: Events) -> None:
        want = {"min": order.LEAST, "max": order.GREATEST, "median": order.MEDIAN}[a.agg.fn]
        place = a.gated if a.distinct else a.place
        pool = self._arr("text_trees" if a.text else "trees")
        path = np.empty(multiset.DEPTH, np.int64)
        texts = self._ctx.strings.arrays()
        order.tree_pass(
            events, place, self._arr("state"), pool, want, a.floats, a.text, a.scale, *texts, path
        )

    def _make_room(self, arrivals: int) -> None:
        """Reserve in each pool one node per arrival and aggregate."""
        for name, users in self._users.items():
            pool = self._arr(name)
            used, free = int(pool[0, deque.USED]), int(pool[0, deque.FREED])
            self._scope.reserve(name, 1 + used + max(0, arrivals * len(users) - free))

    def _fail(self, a: AggPlan, lins: I64) -> None:
        """Fail the queries of sums that overflow, or count what ON ERROR hides."""
        limit = "DECIMAL(18)" if a.bound else "BIGINT"
        reason, n = f"overflow of {limit} in {a.agg}", lins.shape[0]
        if a.agg.on_error == "fail":
            self._ctx.failures.add(self._level, lins, reason)
        else:
            skip = a.agg.on_error == "skip"
            self._ctx.hidden.add(0 if skip else n, n if skip else 0, reason)

    # ---- forgetting and reading --------------------------------------------------------------
    def clear(self, groups: I64) -> None:
        """Free the nodes of these groups."""
        state = self._arr("state")
        for name, users in self._users.items():
            for a in users:
                if a.keep is Keep.DEQUE:
                    deque.clear_deques(self._arr(name), state, groups, a.place.at)
                else:
                    multiset.clear_multisets(self._arr(name), state, groups, a.place.at)
        for a in (a for keep in EXACT for a in self._plan.users(keep, False)):
            exact_sums.clear_sums(self._arr("sums"), state, groups, a.place.at + 4)
        for a in self._plan.users(Keep.SPREAD, False):
            exact_spread.clear_spreads(self._spread_pools(), state, groups, a.place.at + 2)

    def purge(self, groups: I64) -> None:
        """Release the distinct values of these groups."""
        if self._distinct:
            ids = self._values.live()
            ids = ids[np.isin(self._values.keys[ids, 0], groups)]
            self._arr("counts")[ids] = 0
            self._values.release(ids)

    def strings(self) -> list[tuple[str, tuple[int, ...]]]:
        """Arrays with the columns that hold string codes, except those of shown values."""
        best = self._plan.users(Keep.BEST, True)
        found = [("state", tuple(a.place.at + 1 for a in best))]
        if any(a.text for a in self._distinct):
            found.append(("distinct/keys", (_TEXT,)))
        found += [(name, (0,)) for name in self._users if name.startswith("text")]
        return found
