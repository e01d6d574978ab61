"""Filter: passes the rows for which a condition is TRUE. It has no state; its edge is its input's.

If the condition fails on a row (overflow, a UDF that raised), the operator drops the row and
reports its lineage, so that only the queries of that row fail (DESIGN §3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Clock, Delta
from penstock.expressions.condition import Condition
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError
from penstock.expressions.hidden import Hidden, Totals
from penstock.physical.operator import Operator
from penstock.physical.replacements import select_rows
from penstock.physical.specs import FilterSpec
from penstock.state.arena import Scope

Params = Callable[[I64], I64]
"""Maps lineage ids to the matrix of their queries' parameters (first row: the NULL word)."""


class FilterOp(Operator):
    """Rows of the input that satisfy `predicate`."""

    def __init__(
        self, spec: FilterSpec, source: Operator, scope: Scope, ctx: Context,
        params: Params | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        self._ctx = ctx
        self._params = params
        self._condition = Condition.of(spec.predicate, ctx)

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Pass the rows that satisfy the predicate."""
        (delta,) = inputs
        return self._filtered(delta, self._ctx.hidden)

    def contents(self, clock: Clock) -> Delta:
        """The input's contents that satisfy the predicate."""
        return self._filtered(self.inputs[0].contents(clock), None)

    def _filtered(self, delta: Delta, totals: Totals | None) -> Delta:
        return select_rows(delta, self._mask(delta, totals)) if len(delta) else delta

    def _mask(self, delta: Delta, totals: Totals | None) -> Bool:
        params, hidden = self._params(delta.lin) if self._params else None, Hidden()
        try:
            mask = self._condition.mask(delta.rows, params, hidden)
            if totals is not None:
                totals.count(hidden, delta.sign)
            return mask
        except EvaluationError as error:
            self._ctx.failures.add(self.edge.lineage, delta.lin[error.bad], error.reason)
            good = ~error.bad
        keep = np.zeros(len(delta), np.bool_)
        if good.any():
            keep[good] = self._mask(delta.take(good), totals)
        return keep
