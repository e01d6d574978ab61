"""Fits constants that are not negative to measured times, by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.indexes.pairs.constants import Constant
from penstock.indexes.pairs.estimates import F64

_NORMAL = 1.959964  # 95 % of a normal distribution are within so many deviations


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants by amount, with 95 % confidence intervals, and how far predictions are off.

    `spread` is the factor within which half of the predictions are.
    """

    constants: tuple[Constant, ...]
    spread: float


def fit(amounts: F64, times: F64) -> Fit:
    """Fit times to sums of constants times amounts (a row per time).

    Errors are relative to the times. An amount that would get a negative constant gets none.
    """
    weighed, ones = amounts / times[:, None], np.ones(times.shape[0])
    used = [at for at in range(amounts.shape[1]) if amounts[:, at].any()]
    while True:
        found = np.linalg.lstsq(weighed[:, used], ones, rcond=None)[0]
        if (found >= 0).all():
            break
        used.pop(int(np.argmin(found * amounts[:, used].mean(axis=0))))
    left = ones - weighed[:, used] @ found
    freedom = max(times.shape[0] - len(used), 1)
    spread = left @ left / freedom * np.linalg.pinv(weighed[:, used].T @ weighed[:, used])
    reach = dict(zip(used, _NORMAL * np.sqrt(np.diag(spread)), strict=True))
    value = dict(zip(used, found, strict=True))
    constants = tuple(
        Constant(v := float(value.get(at, 0.0)), max(v - (e := float(reach.get(at, 0.0))), 0.0), v + e)
        for at in range(amounts.shape[1])
    )
    ratio = np.abs(np.log(np.maximum(1 - left, 1e-3)))
    return Fit(constants, float(np.exp(np.median(ratio))))
