"""Evaluates the residual condition of a join and reports rows on which it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import I64
from penstock.delta import Delta, Lineage
from penstock.expressions.hidden import Hidden

if TYPE_CHECKING:
    from penstock.expressions.condition import Condition
    from penstock.expressions.context import Context


def passing(delta: Delta, residual: Condition | None, ctx: Context, level: Lineage) -> I64:
    """Positions of the rows that satisfy `residual`.

    A row on which it fails is reported and dropped.
    """
    from penstock.expressions.evaluate import EvaluationError

    kept = np.arange(len(delta))
    while residual is not None and kept.shape[0]:
        hidden = Hidden()
        try:
            taken = residual.mask(np.ascontiguousarray(delta.rows[:, kept]), None, hidden)
            ctx.hidden.count(hidden, delta.sign[kept])
            return kept[taken]
        except EvaluationError as error:
            ctx.failures.add(level, delta.lin[kept[error.bad]], error.reason)
            kept = kept[~error.bad]
    return kept
