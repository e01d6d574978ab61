"""Conversion between rows with sets of queries and rows with one query each (CACQ §2.2).

Sets are exploded (`state/sets.py`) only below operators that need one query per row.
"""

from __future__ import annotations

import numpy as np

from penstock.delta import Clock, Delta, Sets
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.sets import split_pairs
from penstock.physical.operator import Operator
from penstock.physical.specs import ExplodeSpec
from penstock.state.arena import Scope
from penstock.state.sets import SetTable


def with_sets(delta: Delta, taken: Sets, table: SetTable, keyed: bool) -> Delta:
    """The rows that a query takes, with the code of their set (`taken`, by row) as lineage."""
    if keyed and bool((delta.sign == -2).any()):
        rows, signs, offsets, qids = split_pairs(taken.offsets, taken.items, delta.sign)
        return delta.take(rows).with_(sign=signs, lin=table.intern(offsets, qids))
    codes = table.intern(taken.offsets, taken.items)
    if codes.all():
        return delta.with_(lin=codes)
    some = np.flatnonzero(codes)
    return delta.take(some).with_(lin=codes[some])


class ExplodeOp(Operator):
    """Turns each row of a SET edge into one row per query."""

    def __init__(self, spec: ExplodeSpec, source: Operator, scope: Scope, sets: SetTable) -> None:
        super().__init__(spec, (source,), scope)
        self._sets = sets

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Emit each row once per query; the halves of a replacement stay adjacent."""
        (delta,) = inputs
        sets = Sets(*self._sets.explode(delta.lin))
        rows, qids, signs = signed_pairs(sets, delta.sign, self.edge.keyed)
        return delta.take(rows).with_(lin=qids, sign=signs)

    def contents(self, clock: Clock) -> Delta:
        """The input's contents, one row per query."""
        return self.step([self.inputs[0].contents(clock)], clock)
