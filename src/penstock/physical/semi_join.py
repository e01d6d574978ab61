"""Semi and anti join: left rows with (or without) a right row of equal key (DESIGN §3, negation).

State: left values chained by key, counts of right rows by key, and the expirations of both inputs.
*Explicit* mode counts equal left rows and ends each one by a −1 row. *Expiring* mode keeps each
left row's expiry and emits −1 rows for premature ends only. NULL keys match nothing unless
`null_safe`.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.kernels import prefix
from penstock.kernels import semi_join as kernels
from penstock.kernels.rows import key_rows
from penstock.kernels.set_op import NATURAL, PREMATURE, unused, vacant
from penstock.logical.nodes import JoinKind
from penstock.physical.join_specs import SemiJoinSpec
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.set_op import reserve_slots
from penstock.physical.signed import (
    SignedInput,
    alive,
    emitted,
    ids_of_lins,
    key_strings,
    live_rows,
    row_ids,
    streams,
)
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable


class SemiJoinOp(Operator):
    """Left rows with (semi) or without (anti) a right row of equal key columns.

    Without `keys`, any right row counts. With `right_is_table`, every lineage sees the right rows,
    so keys are compared without the lineage.
    """

    def __init__(
        self, spec: SemiJoinSpec, left: Operator, right: Operator, scope: Scope,
        right_is_table: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(spec, (left, right), scope)
        keys, self._anti, self._tells = spec.keys, spec.kind is JoinKind.ANTI, spec.expiry.tells
        self._pairs, self._null_safe, self._global = keys, spec.null_safe, right_is_table
        self._columns = tuple(np.array([p[s] for p in keys], np.int64) for s in (0, 1))
        self._values = KeyTable(scope.scope("values"), 2 + len(left.edge.schema))
        self._keys = KeyTable(scope.scope("keys"), 2 + len(keys))
        of_left, of_right = spec.expiry.inputs
        self._sides = (
            SignedInput(scope.scope("left"), of_left),
            SignedInput(scope.scope("right"), of_right),
        )
        scope.array("value_words", (32, kernels.VALUE_WORDS))
        scope.array("key_words", (32, kernels.KEY_WORDS))
        scope.array("slots", (32, prefix.SLOT_WORDS))
        scope.array("regs", prefix.REGS)

    def _arr(self, name: str) -> I64:
        return cast(I64, self.scope[name])

    # ---- one step ----------------------------------------------------------------------
    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume both inputs up to the clock."""
        left, right = (self._matchable(alive(d), s) for s, d in enumerate(inputs))
        values, keys = self._left_ids(left), self._key_ids(right, 1)
        self.scope.reserve("key_words", self._keys.capacity)
        self._adopt(left, values)
        arrivals = self._sides[0].apply(left, values, clock)
        e = streams(arrivals, self._sides[1].apply(right, keys, clock))
        if not self._tells:
            reserve_slots(self.scope, len(left))
        out = kernels.net_semi(
            self._anti, not self._tells, e.ts, e.ids, e.step, e.exp, e.offsets,
            self._arr("value_words"), self._arr("slots"), self._arr("key_words"), self._arr("regs"),
        )  # fmt: skip
        delta = emitted(self._values, out)
        cut = int(e.offsets[2])
        self._release(e.ids[:cut], e.ids[cut:])
        return delta

    def idle(self, now: int) -> bool:
        """Whether nothing expires by `now` on either side."""
        return not any(side.due(now) for side in self._sides)

    def _matchable(self, delta: Delta, side: int) -> Delta:
        """Drop the rows of one side that a NULL key excludes from every match."""
        if self._null_safe or (side == 0 and self._anti):
            return delta
        keep = ~delta.has_null(self._columns[side].tolist())
        return delta if bool(keep.all()) else delta.take(keep)

    def _left_ids(self, left: Delta) -> I64:
        ids = row_ids(self._values, left)
        self.scope.reserve("value_words", self._values.capacity)
        return ids

    def _key_ids(self, delta: Delta, side: int) -> I64:
        lin = np.zeros_like(delta.lin) if self._global else delta.lin
        return self._keys.assign(key_rows(delta.rows, lin, self._columns[side]))

    def _adopt(self, left: Delta, values: I64) -> None:
        """Link new left values to their keys; known values are linked already."""
        new = np.flatnonzero(self._arr("value_words")[values, kernels.KEY] == 0)
        if not new.shape[0]:
            return
        keys = self._key_ids(left if new.shape[0] == len(left) else left.take(new), 0)
        self.scope.reserve("key_words", self._keys.capacity)
        words = self._arr("value_words"), self._arr("key_words")
        kernels.adopt(values[new], keys, *words)

    def _release(self, values: I64, keys: I64) -> None:
        """Release the touched values and keys that are empty."""
        value_words = self._arr("value_words")
        self._let_go(vacant(values, value_words, prefix.COUNT, prefix.COUNT, prefix.MARK), keys)

    def _let_go(self, values: I64, keys: I64) -> None:
        """Release empty values, then those of `keys` and of the values' keys that are empty."""
        value_words, key_words = self._arr("value_words"), self._arr("key_words")
        spare = np.concatenate((kernels.orphan(values, value_words, key_words), keys))
        self._values.release(values)
        marks = kernels.RIGHTS, kernels.FIRST, kernels.K_MARK
        self._keys.release(unused(spare, key_words, *marks))

    # ---- the rest of the contract ------------------------------------------------------
    def contents(self, clock: Clock) -> Delta:
        """The live output rows."""
        live, words = self._values.live(), self._arr("value_words")
        if self._tells:
            ids = np.repeat(live, words[live, prefix.SHOWN])
            return live_rows(self._values, ids, None, clock)
        ids, exp = prefix.shown_rows(live, words, self._arr("slots"))
        return live_rows(self._values, ids, exp, clock)

    def purge(self, lins: I64) -> None:
        """Forget these lineage ids; right rows of a table stay."""
        lins = np.asarray(lins, np.int64)
        gone = ids_of_lins(self._values, lins)
        self._sides[0].forget(gone)
        self._drop_rows(gone)
        keys = np.empty(0, np.int64) if self._global else ids_of_lins(self._keys, lins)
        self._sides[1].forget(keys)
        self._arr("key_words")[keys, kernels.RIGHTS] = 0
        self._let_go(gone, keys)

    def _drop_rows(self, values: I64) -> None:
        words = self._arr("value_words")
        if not self._tells:
            chain = words[values, kernels.KEY :]
            prefix.drop_lists(values, words, self._arr("slots"), self._arr("regs"))
            words[values, kernels.KEY :] = chain

    def rows(self) -> int:
        """Left values, keys and entries held."""
        return len(self._values) + len(self._keys) + sum(len(s) for s in self._sides)

    def strings(self) -> list[StringColumns]:
        """Where string codes are held."""
        schema = self.inputs[0].edge.schema
        key_schema = schema.select(tuple(p[0] for p in self._pairs))
        found = key_strings(self.scope.scope("values"), schema)
        return found + key_strings(self.scope.scope("keys"), key_schema)

    def premature_share(self) -> float:
        """The share of ends of shown rows that the right input has caused so far."""
        regs = self._arr("regs")
        total = int(regs[PREMATURE] + regs[NATURAL])
        return float(regs[PREMATURE] / total) if total else 0.0
