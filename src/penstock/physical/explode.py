"""Between rows with query sets and rows with one query each (CACQ §2.2; `state/sets.py`).

Sets are exploded where an operator needs one query per row, and nowhere before.
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
    """The rows that somebody takes, with the codes of their sets (`taken`, by row)."""
    if keyed and bool((delta.sign == -2).any()):
        rows, signs, offsets, qids = split_pairs(taken.offsets, taken.items, delta.sign)
        return delta.take(rows).with_(sign=signs, lin=table.intern(offsets, qids))
    codes = table.intern(taken.offsets, taken.items)
    if codes.all():
        return delta.with_(lin=codes)
    some = np.flatnonzero(codes)
    return delta.take(some).with_(lin=codes[some])


class ExplodeOp(Operator):
    """Rows of a SET edge once for each query."""

    def __init__(self, spec: ExplodeSpec, source: Operator, scope: Scope, sets: SetTable) -> None:
        super().__init__(spec, (source,), scope)
        self._sets = sets

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Every row, query by query; replacements stay together."""
        (delta,) = inputs
        sets = Sets(*self._sets.explode(delta.lin))
        rows, qids, signs = signed_pairs(sets, delta.sign, self.edge.keyed)
        return delta.take(rows).with_(lin=qids, sign=signs)

    def contents(self, clock: Clock) -> Delta:
        """The input's contents, query by query."""
        return self.step([self.inputs[0].contents(clock)], clock)
