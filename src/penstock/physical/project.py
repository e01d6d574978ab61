"""Project: computed columns. It has no state; time, expiry and lineage are those of the input.

Plain columns are copied as words; only computed columns are evaluated. A row that fails is dropped
and reported as in `filter.py`.
"""

from __future__ import annotations

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError, compile_expr, evaluate_rows
from penstock.expressions.hidden import Hidden, Totals
from penstock.kernels.rows import select_columns
from penstock.logical.expr import Column
from penstock.physical.filter import Params
from penstock.physical.operator import Operator
from penstock.physical.replacements import drop_unchanged, select_rows
from penstock.physical.specs import ProjectSpec
from penstock.state.arena import Scope


class ProjectOp(Operator):
    """Computes one output column per expression."""

    def __init__(
        self, spec: ProjectSpec, source: Operator, scope: Scope, ctx: Context,
        params: Params | None = None,
    ) -> None:  # fmt: skip
        super().__init__(spec, (source,), scope)
        self.exprs = spec.exprs
        self._ctx = ctx
        self._params = params
        self._compiled = [compile_expr(e, ctx) for e in self.exprs]
        columns = [e.index for e in self.exprs if isinstance(e, Column)]
        self._plain = tuple(columns) if len(columns) == len(self.exprs) else None

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Compute the columns of every row."""
        (delta,) = inputs
        if not len(delta):
            return Delta.empty(len(self.exprs))
        return drop_unchanged(self._project(delta, self._ctx.hidden))

    def contents(self, clock: Clock) -> Delta:
        """The input's contents, projected."""
        held = self.inputs[0].contents(clock)
        return self._project(held, None) if len(held) else Delta.empty(len(self.exprs))

    def _project(self, delta: Delta, totals: Totals | None) -> Delta:
        if self._plain is not None:
            return delta.with_(rows=select_columns(delta.rows, self._plain))
        try:
            return delta.with_(rows=self._rows(delta, totals))
        except EvaluationError as error:
            self._ctx.failures.add(self.edge.lineage, delta.lin[error.bad], error.reason)
            rest = select_rows(delta, ~error.bad)
        return self._project(rest, totals) if len(rest) else Delta.empty(len(self.exprs))

    def _rows(self, delta: Delta, totals: Totals | None) -> I64:
        params, hidden = self._params(delta.lin) if self._params else None, Hidden()
        rows = evaluate_rows(self._compiled, delta.rows, params, hidden)
        if totals is not None:
            totals.count(hidden, delta.sign)
        return rows
