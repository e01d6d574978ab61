"""The one place that compiles: `kernel` is numba's njit with the settings of this project."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function` lazily, cached on disk; ``function.py_func`` is its plain twin."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
