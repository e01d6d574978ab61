"""Fits constants that are not negative to measured times, by least squares."""

from __future__ import annotations

import numpy as np

from penstock.indexes.pairs.constants import Constant
from penstock.indexes.pairs.estimates import F64

_NORMAL = 1.959964  # 95 % of a normal distribution are within so many deviations
_ROUNDS = 4  # predictions hardly change after it
_FAR = 8.0  # a prediction is never taken to be off by more


def fit(amounts: F64, times: F64) -> list[Constant]:
    """Fit times to sums of constants times amounts (a row per time).

    Errors are relative to what is predicted, so that no row counts for more because its time is
    small by chance. An amount that would get a negative constant gets none.
    """
    expected = times
    for _ in range(_ROUNDS):
        used, found, reach = _least_squares(amounts, times, expected)
        expected = np.maximum(amounts[:, used] @ found, times / _FAR)
    value, within = np.zeros(amounts.shape[1]), np.zeros(amounts.shape[1])
    value[used], within[used] = found, reach
    constants = zip(value, np.maximum(value - within, 0), value + within, strict=True)
    return [Constant(*map(float, found)) for found in constants]


def typical(values: list[float]) -> Constant:
    """The median, with its 95 % confidence interval."""
    ordered, n = sorted(values), len(values)
    reach = _NORMAL * np.sqrt(n) / 2  # ranks around the middle
    low, high = max(int(n / 2 - reach), 0), min(int(np.ceil(n / 2 + reach)), n - 1)
    return Constant(float(np.median(ordered)), ordered[low], ordered[high])


def _least_squares(amounts: F64, times: F64, expected: F64) -> tuple[list[int], F64, F64]:
    """Which amounts are used, their constants, and the reach of the intervals."""
    weighed, target = amounts / expected[:, None], times / expected
    used = [at for at in range(amounts.shape[1]) if amounts[:, at].any()]
    while True:
        found = np.linalg.lstsq(weighed[:, used], target, rcond=None)[0]
        if (found >= 0).all() or len(used) == 1:
            break
        used.pop(int(np.argmin(found * weighed[:, used].mean(axis=0))))
    left = target - weighed[:, used] @ found
    freedom = max(times.shape[0] - len(used), 1)
    spread = left @ left / freedom * np.linalg.pinv(weighed[:, used].T @ weighed[:, used])
    return used, np.asarray(found, np.float64), _NORMAL * np.sqrt(np.diag(spread))
