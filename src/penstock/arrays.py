"""Array types of rows, and the times before and after all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]
Bool = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
"""`exp` of a row that does not expire."""
BEGINNING = np.iinfo(np.int64).min
"""A clock before any event time."""
