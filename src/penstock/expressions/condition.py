"""A condition on rows: a conjunct that rejects a row guards the conjuncts that can fail on it.

Conjuncts that can fail, or with failures to count, are evaluated on the rows that the others
accept. A row has no verdict only if a conjunct fails and none rejects the row. This does not
depend on their order, so the optimiser and an eddy may reorder them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.expressions.evaluate import Compiled, EvaluationError, Frame, compile_expr
from penstock.expressions.hidden import Hidden
from penstock.expressions.vec import Vec, either, errors_of
from penstock.logical.expr import Expr, conjunction, conjuncts
from penstock.logical.failing import is_risky
from penstock.logical.truth import held


@dataclass(frozen=True, slots=True)
class Condition:
    """The conjuncts of a condition: those that cannot fail as one expression, the others apart."""

    expr: Expr
    safe: Compiled | None
    risky: tuple[Compiled, ...]

    @staticmethod
    def of(expr: Expr, ctx: Context) -> Condition:
        """Prepare a condition."""
        parts = conjuncts(expr)
        risky = [p for p in parts if is_risky(p)]
        safe = conjunction([p for p in parts if p not in risky])
        compiled = None if safe is None else compile_expr(safe, ctx)
        return Condition(expr, compiled, tuple(compile_expr(held(p), ctx) for p in risky))

    def mask(self, rows: I64, params: I64 | None = None, hidden: Hidden | None = None) -> Bool:
        """The rows for which it is TRUE; raises EvaluationError when some have no verdict."""
        if self.safe is None:
            return self._risky(rows, params, hidden)
        taken = self.safe.mask(rows, params)
        if not self.risky:
            return taken
        if taken.all():
            return self._risky(rows, params, hidden)
        return self._of_some(rows, params, hidden, np.flatnonzero(taken))

    def _of_some(self, rows: I64, params: I64 | None, hidden: Hidden | None, chosen: I64) -> Bool:
        """The same where the others take only these rows."""
        n = rows.shape[1]
        if params is not None and params.shape[1] > 1:
            params = params[:, chosen]
        keep, met = np.zeros(n, np.bool_), Hidden()
        try:
            keep[chosen] = self._risky(np.ascontiguousarray(rows[:, chosen]), params, met)
        except EvaluationError as error:
            bad = np.zeros(n, np.bool_)
            bad[chosen] = error.bad
            raise EvaluationError(bad, error.reason) from None
        if hidden is not None:
            hidden.within(met, chosen)
        return keep

    def _risky(self, rows: I64, params: I64 | None, hidden: Hidden | None) -> Bool:
        n = rows.shape[1]
        if n == 0:
            return np.empty(0, np.bool_)
        frame = Frame(rows, params, self.risky[0].strings, hidden)
        vecs = [part.node(frame) for part in self.risky]
        keep, bad, reason = verdict(vecs, n)
        if bad is not None:
            raise EvaluationError(bad, reason)
        return keep


def verdict(vecs: list[Vec], n: int) -> tuple[Bool, Bool | None, str]:
    """Rows for which all conditions are TRUE; those with no verdict, and why."""
    error, reason = errors_of(vecs)
    keep, rejected = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    for vec in vecs:
        true = _true(vec)
        keep &= true
        rejected |= ~true if vec.error is None else ~(true | vec.error)
    bad = None if error is None else error & ~rejected
    return keep, bad if bad is not None and bad.any() else None, reason


def _true(vec: Vec) -> Bool:
    gone = either(vec.null, vec.error)
    return vec.bools if gone is None else vec.bools & ~gone
