"""The residual condition of a join: rows for which it is true; failures go to their queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.delta import I64, Delta, Level

if TYPE_CHECKING:
    from penstock.physical.context import Failures
    from penstock.physical.evaluate import Compiled


def passing(delta: Delta, residual: Compiled | None, failures: Failures, level: Level) -> I64:
    """Positions of the rows that satisfy `residual`; rows it fails on are reported and left out."""
    from penstock.physical.evaluate import EvaluationError

    kept = np.arange(len(delta))
    while residual is not None and kept.shape[0]:
        try:
            return kept[residual.mask(np.ascontiguousarray(delta.rows[:, kept]))]
        except EvaluationError as error:
            failures.add(level, delta.lin[kept[error.bad]], error.reason)
            kept = kept[~error.bad]
    return kept
