"""The band of a join as its kernels test it."""

from __future__ import annotations

import numpy as np

from penstock.kernels.join import FLOAT_BAND, INT_BAND, Test
from penstock.logical.nodes import Band
from penstock.schema import Schema

_MIN, _MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NO_LINEAGE = np.zeros(0, np.int64)


def band_test(band: Band | None, left: Schema, tagged: int) -> Test:
    """Translate a band into the form that kernels read."""
    if band is None:
        return Test(0, 0, 0, _MIN, _MAX, -np.inf, np.inf, tagged, _NO_LINEAGE)
    columns = (band.left_column, band.right_column)
    if left[band.left_column].type.is_float:
        low = -np.inf if band.low is None else float(band.low)
        high = np.inf if band.high is None else float(band.high)
        return Test(FLOAT_BAND, *columns, _MIN, _MAX, low, high, tagged, _NO_LINEAGE)
    bounds = (_MIN if band.low is None else band.low, _MAX if band.high is None else band.high)
    ints = (int(bounds[0]), int(bounds[1]))
    return Test(INT_BAND, *columns, *ints, -np.inf, np.inf, tagged, _NO_LINEAGE)
