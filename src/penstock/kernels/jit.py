"""The one place that compiles: `kernel` is numba's njit with the settings of this project.

Numba's disk cache looks only at the file of a kernel, not at the kernels it calls, so the cache
lives in a folder named after the contents of all files that hold kernels.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def _cache_folder() -> Path | None:
    """Where compiled kernels go; None leaves it to numba (a read-only installation)."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted([*here.glob("*.py"), *here.parent.joinpath("state").glob("*.py")]):
        digest.update(source.read_bytes())
    folder = here / "__pycache__" / f"numba-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


if not numba.config.CACHE_DIR:
    numba.config.CACHE_DIR = str(_cache_folder() or "")


def kernel(function: F) -> F:
    """Compile `function` lazily, cached on disk; ``function.py_func`` is its plain twin."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """A helper that is copied into the kernels that call it: a call would pass whole arrays."""
    return cast(
        F, numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")(function)
    )
