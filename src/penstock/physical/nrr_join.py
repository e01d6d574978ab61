"""Join of a stream with a non-retroactive relation (Golab & Özsu §4.1, Definition 2).

Table updates change only the stored table. An arrival joins the table as it is now, and its results
live as long as the arrival does. If stream rows can be retracted, the operator stores what each one
joined, so that a −1 row takes back exactly those results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.kernels.join import (
    COLUMNS,
    LEFT_TAGGED,
    LIN,
    NULLS,
    Chains,
    Events,
    Found,
    gather_pairs,
    join_events,
)
from penstock.kernels.nrr_join import remember
from penstock.kernels.rows import gather_rows
from penstock.physical.expiry import Store
from penstock.physical.join_keys import JoinKeys
from penstock.physical.join_specs import NrrJoinSpec
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.residual import passing
from penstock.state.arena import Scope
from penstock.state.join_side import JoinSide, release_chains
from penstock.state.keytable import KeyTable
from penstock.stems.band import band_test

if TYPE_CHECKING:
    from penstock.expressions.condition import Condition
    from penstock.expressions.context import Context

_ARRIVALS = 0  # register: number of stream rows stored so far


class NrrJoinOp(Operator):
    """Inner join of a stream (input 0) with a non-retroactive table's changes (input 1)."""

    def __init__(
        self, spec: NrrJoinSpec, stream: Operator, table: Operator, scope: Scope, ctx: Context,
        residual: Condition | None,
    ) -> None:  # fmt: skip
        super().__init__(spec, (stream, table), scope)
        self._residual, self._ctx = residual, ctx
        self._test = band_test(None, stream.edge.schema, 0)
        self._keys = JoinKeys(scope.scope("keys"), spec.equi, self._test, False)
        self._table = JoinSide(scope.scope("table"), len(table.edge.schema))
        self._joined: JoinSide | None = None
        if spec.expiry.inputs[0].store is Store.HASH:
            # two columns after the result's: number of the arrival, and whether it matched
            self._joined = JoinSide(scope.scope("joined"), len(spec.edge.schema) + 2)
            self._arrivals = KeyTable(scope.scope("arrivals"), 3 + len(stream.edge.schema))
        scope.array("regs", 2)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Apply table changes and arrivals in order of (ts, table first)."""
        stream, table = inputs
        out = Delta.empty(len(self.edge.schema))
        if len(stream) or len(table):
            out, owner = self._probe(stream, table)
            if self._joined is not None:
                out = self._remember(self._joined, stream, out, owner)
        self._keys.release([self._table], self._table.tidy(clock.now))
        if self._joined is not None:
            self._forget(self._joined, self._joined.tidy(clock.now))
        return out

    def _probe(self, stream: Delta, table: Delta) -> tuple[Delta, I64]:
        """Join the + rows of `stream` with the table; also return the stream row of each result."""
        table_ids = self._keys.assign(table, False)
        ids = self._keys.find(stream, True)
        ids[stream.sign < 0] = -1
        self._table.reserve(self._keys.capacity)
        slots = self._table.append(table, table_ids)
        arrivals = self._passing_by(stream)
        found = join_events(
            self._events(stream, ids, np.arange(len(stream))),
            self._events(table, table_ids, slots),
            arrivals,
            self._table.chains(probe=False),
            self._test,
            True,
            64 + 2 * len(stream),
        )
        return self._results(found, arrivals)

    @staticmethod
    def _passing_by(stream: Delta) -> Chains:
        """The batch as a join side that no other side probes."""
        packed = np.ascontiguousarray(np.vstack((stream.lin, stream.rows)).T)
        no_chains = np.empty(0, np.int32)
        arrays = (no_chains, stream.exp, packed, no_chains, np.empty(0, np.int64))
        return Chains(*arrays, 0, 0, True, False, True)

    @staticmethod
    def _events(delta: Delta, ids: I64, slots: I64) -> Events:
        probes = np.empty((len(delta), 0), np.int64)
        return Events(delta.ts, delta.exp, delta.lin, delta.sign, ids, slots, probes, delta.rows)

    def _results(self, found: Found, arrivals: Chains) -> tuple[Delta, I64]:
        every = np.arange(len(self.edge.schema), dtype=np.int64)
        out = Delta(*gather_pairs(found, arrivals, self._table.chains(), LEFT_TAGGED, every))
        owner = np.repeat(found.events[:, 0] >> 1, found.events[:, 3])
        if self._residual is None:
            return out, owner
        kept = passing(out, self._residual, self._ctx, self.edge.lineage)
        return out.take(kept), owner[kept]

    def _remember(self, side: JoinSide, stream: Delta, results: Delta, owner: I64) -> Delta:
        """Store what the + rows joined and take back what the − rows joined; emit both in order."""
        ids = self._arrival_ids(stream)
        side.reserve(self._arrivals.capacity)
        entries, owner = self._entries(stream, results, owner)
        slots = side.append(entries, ids[owner])
        first = np.searchsorted(owner, np.arange(len(stream) + 1))
        chains = side.chains()
        emitted = remember(stream.ts, stream.sign, ids, first, slots, chains)
        taken = np.ascontiguousarray(emitted[:, 0])
        matrix = gather_rows(side.state, taken)
        return Delta(
            np.ascontiguousarray(matrix[NULLS:-2]),
            emitted[:, 1].copy(),
            side.exp[taken],
            emitted[:, 2].astype(np.int8),
            matrix[LIN],
        )

    def _arrival_ids(self, stream: Delta) -> I64:
        """Chain of equal arrivals (all values, exp and lin).

        −1 for a − row without stored arrival.
        """
        keys = np.ascontiguousarray(np.vstack((stream.exp, stream.lin, stream.rows)).T)
        plus = stream.sign > 0
        ids = np.full(len(stream), -1, np.int64)
        ids[plus] = self._arrivals.assign(keys[plus])
        ids[~plus] = self._arrivals.find(keys[~plus])
        return ids

    def _entries(self, stream: Delta, results: Delta, owner: I64) -> tuple[Delta, I64]:
        """A + row per result and per arrival without one, in order; also each one's stream row."""
        alone = stream.sign > 0
        alone[owner] = False
        owner = np.concatenate((owner, np.flatnonzero(alone)))
        n, width = owner.shape[0], len(self.edge.schema)
        rows = np.zeros((1 + width + 2, n), np.int64)
        rows[: 1 + width, : len(results)] = results.rows
        rows[: stream.width + 1, len(results) :] = stream.rows[:, alone]
        regs = cast(I64, self.scope["regs"])
        rows[-2] = regs[_ARRIVALS] + owner
        rows[-1, : len(results)] = 1
        regs[_ARRIVALS] += len(stream)
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        plus = np.ones(n, np.int8)
        rows = np.ascontiguousarray(rows[:, order])
        return Delta(rows, stream.ts[owner], stream.exp[owner], plus, stream.lin[owner]), owner

    def _forget(self, side: JoinSide, dropped: I64) -> None:
        scope = self.scope.scope("arrivals")
        self._arrivals = release_chains(self._arrivals, scope, [side], dropped)

    def contents(self, clock: Clock) -> Delta:
        """The stored results; if none are kept, the live stream rows joined with the current table.

        The second form serves queries with history. It is exact because they are refused if the
        table has changed since those rows arrived (`session/table_history.py`).
        """
        if self._joined is None:
            stream = self.inputs[0].contents(clock)
            return self._probe(stream, Delta.empty(len(self.inputs[1].edge.schema)))[0]
        side = self._joined
        slots = side.live(clock.now)
        out = side.delta(slots[side.state[slots, -1] == 1], clock.now)
        return out.with_(rows=np.ascontiguousarray(out.rows[:-2]))

    def purge(self, lins: I64) -> None:
        """Forget what rows of these lineage ids joined."""
        if self._joined is not None:
            self._forget(self._joined, self._joined.remove(lins))

    def rows(self) -> int:
        """Number of rows in the table and of stored results."""
        return len(self._table) + (0 if self._joined is None else len(self._joined))

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of the table's rows and of stored results."""
        sides = [(self._table, self.inputs[1].edge.schema)]
        if self._joined is not None:
            sides.append((self._joined, self.edge.schema))
        return [
            StringColumns(
                f"{side.scope.prefix}/rows", tuple(COLUMNS + c for c in schema.string_columns)
            )
            for side, schema in sides
            if schema.string_columns
        ]
