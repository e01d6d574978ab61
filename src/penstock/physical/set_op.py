"""EXCEPT and INTERSECT over whole rows (Golab & Özsu 2005, §2.1; Ghanem et al. §5.3, W-Minus).

*Explicit* mode counts each value on both sides and emits net changes. *Expiring* mode (EXCEPT ALL
only) keeps the left rows of each value in order of expiry and shows a prefix of them, so that only
premature ends are −1 rows. A value is forgotten when both its counts are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.kernels import prefix
from penstock.kernels import set_op as counts
from penstock.logical.nodes import SetKind
from penstock.physical.keyed import KeyedOperator
from penstock.physical.keyed_specs import SetOpSpec
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.signed import (
    NOTHING,
    Events,
    SignedInput,
    alive,
    emitted,
    ids_of_lins,
    key_strings,
    live_rows,
    row_ids,
    streams,
)
from penstock.physical.specs import Spec
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_KINDS = {
    (SetKind.EXCEPT, True): counts.EXCEPT_ALL,
    (SetKind.EXCEPT, False): counts.EXCEPT,
    (SetKind.INTERSECT, True): counts.INTERSECT_ALL,
    (SetKind.INTERSECT, False): counts.INTERSECT,
}


class ValueState:
    """Values of one or two inputs: their ids, and the events of a step."""

    value_words = counts.WORDS
    registers = counts.REGS

    def __init__(self, scope: Scope, spec: Spec) -> None:
        self.scope = scope
        self._schema = spec.edge.schema
        self.keys = KeyTable(scope.scope("keys"), 2 + len(self._schema))
        sides = zip(("left", "right"), spec.expiry.inputs, strict=False)
        self.sides = [SignedInput(scope.scope(name), kept) for name, kept in sides]
        scope.array("values", (32, self.value_words))
        scope.array("regs", self.registers)

    def arr(self, name: str) -> I64:
        """An array of the operator's scope."""
        return cast(I64, self.scope[name])

    def events(self, inputs: Sequence[Delta], clock: Clock) -> Events:
        """The signed events of a step; also reserves state words for every id."""
        found = []
        for side, delta in zip(self.sides, inputs, strict=True):
            rows = alive(delta)
            found.append(side.apply(rows, row_ids(self.keys, rows), clock))
        self.scope.reserve("values", self.keys.capacity)
        return streams(found[0], found[1] if len(found) == 2 else NOTHING)

    def idle(self, now: int) -> bool:
        """Whether nothing expires by `now`."""
        return not any(side.due(now) for side in self.sides)

    def finish(self, out: I64, dead: I64) -> Delta:
        """The emitted rows as a delta; releases the `dead` values."""
        delta = emitted(self.keys, out)
        self.keys.release(dead)
        return delta

    def purge(self, lins: I64) -> None:
        """Forget all values of these lineage ids."""
        gone = ids_of_lins(self.keys, lins)
        for side in self.sides:
            side.forget(gone)
        self.clean(gone)
        self.keys.release(gone)

    def clean(self, ids: I64) -> None:
        """Reset the state words of released values."""
        self.arr("values")[ids] = 0

    def rows(self) -> int:
        """Number of stored values and entries."""
        return len(self.keys) + sum(len(s) for s in self.sides)

    def strings(self) -> list[StringColumns]:
        """Arrays with string codes."""
        return key_strings(self.scope.scope("keys"), self._schema)

    def premature_share(self) -> float:
        """The share of ends that came before their expiry so far."""
        regs = self.arr("regs")
        total = int(regs[counts.PREMATURE] + regs[counts.NATURAL])
        return float(regs[counts.PREMATURE] / total) if total else 0.0


class ValueCounts(ValueState):
    """Counts rows per value; every end is a −1 row."""

    def __init__(self, scope: Scope, spec: Spec, kind: int) -> None:
        super().__init__(scope, spec)
        self._kind = kind

    def step(self, inputs: Sequence[Delta], clock: Clock) -> Delta:
        """Emit the net change of every value at every instant."""
        e = self.events(inputs, clock)
        out, dead = counts.net_counts(
            self._kind, e.ts, e.ids, e.step, e.offsets, self.arr("values"), self.arr("regs")
        )
        return self.finish(out, dead)

    def contents(self, clock: Clock) -> Delta:
        """Every value, repeated as often as it is in the answer."""
        ids = counts.repeat_counts(self._kind, self.keys.live(), self.arr("values"))
        return live_rows(self.keys, ids, None, clock)


class ValuePrefix(ValueState):
    """EXCEPT ALL that keeps the left rows' expiry; only premature ends are −1 rows."""

    value_words = prefix.VALUE_WORDS
    registers = prefix.REGS

    def __init__(self, scope: Scope, spec: Spec) -> None:
        super().__init__(scope, spec)
        scope.array("slots", (32, prefix.SLOT_WORDS))

    def step(self, inputs: Sequence[Delta], clock: Clock) -> Delta:
        """Emit rows that enter the answer, and rows that leave it before they expire."""
        e = self.events(inputs, clock)
        reserve_slots(self.scope, int(e.offsets[2] - e.offsets[1]))
        out, dead = prefix.net_except_all(
            e.ts, e.ids, e.step, e.exp, e.offsets,
            self.arr("values"), self.arr("slots"), self.arr("regs"),
        )  # fmt: skip
        return self.finish(out, dead)

    def contents(self, clock: Clock) -> Delta:
        """The rows of the answer, with their expiry."""
        ids, exp = prefix.shown_rows(self.keys.live(), self.arr("values"), self.arr("slots"))
        return live_rows(self.keys, ids, exp, clock)

    def clean(self, ids: I64) -> None:
        """Free the rows of released values."""
        prefix.drop_lists(ids, self.arr("values"), self.arr("slots"), self.arr("regs"))


def reserve_slots(scope: Scope, more: int) -> None:
    """Make room for `more` rows in the lists of a scope."""
    regs = cast(I64, scope["regs"])
    fresh = max(0, more - int(regs[prefix.FREED]))
    scope.reserve("slots", int(regs[prefix.USED]) + fresh + 1)


class SetOpOp(KeyedOperator):
    """EXCEPT [ALL] or INTERSECT [ALL] of two inputs of equal level and types."""

    def __init__(self, spec: SetOpSpec, left: Operator, right: Operator, scope: Scope) -> None:
        super().__init__(spec, (left, right), scope)
        self._state: ValueCounts | ValuePrefix
        if spec.expiry.tells:
            self._state = ValueCounts(scope, spec, _KINDS[spec.kind, spec.all])
        else:
            self._state = ValuePrefix(scope, spec)

    def premature_share(self) -> float:
        """The share of ends of left rows that the right input has caused so far."""
        return self._state.premature_share()
