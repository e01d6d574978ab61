"""The only module that compiles: `kernel` is numba's njit with the settings of this project.

Numba's disk cache checks only the file of a kernel, not the kernels that it calls. So the compiled
code of a file is stored in a folder named after a hash of that file and of all files it imports. A
change recompiles only the files that depend on it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_PACKAGE = Path(__file__).parent.parent
_IMPORTS = re.compile(r"^from penstock\.([\w.]+) import", re.MULTILINE)
_CHOSEN_BY_USER = bool(numba.config.CACHE_DIR)


@cache
def _imports(module: str) -> tuple[bytes, tuple[str, ...]]:
    """Contents of a file of the package, and the files it imports from."""
    source = _PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
    if not source.exists():
        return b"", ()
    text = source.read_bytes()
    return text, tuple(_IMPORTS.findall(text.decode()))


def _digest(module: str) -> str:
    """The hash of a file's contents and of all files it imports, directly or indirectly."""
    seen: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += _imports(name)[1]
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(_imports(name)[0])
    return digest.hexdigest()[:16]


@cache
def _cache_folder(module: str) -> str:
    """The folder for compiled kernels; empty if numba must choose it (a read-only installation)."""
    folder = _PACKAGE / "kernels" / "__pycache__" / f"numba-{_digest(module)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    return str(folder) if os.access(folder, os.W_OK) else ""


def _compile(function: F, **options: bool) -> F:
    if not _CHOSEN_BY_USER:  # numba reads the setting when it wraps the function
        module = function.__module__.removeprefix("penstock.")
        numba.config.CACHE_DIR = _cache_folder(module)
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))


def kernel(function: F) -> F:
    """Compile `function` lazily, cached on disk; ``function.py_func`` is its plain twin."""
    return _compile(function)


def inlined(function: F) -> F:
    """Inline a helper into the kernels that call it, because a call would pass whole arrays.

    LLVM inlines it, not numba: then loops count fewer references to arrays.
    """
    return _compile(function, forceinline=True)


def lean(function: F) -> F:
    """Compile a kernel that makes no array and calls only such kernels: it counts no references.

    Where a loop passes tuples of many arrays on, counting takes longer than the work.
    """
    return _compile(function, _nrt=False)


def lean_inlined(function: F) -> F:
    """Inline a helper that makes no array; it counts no references."""
    return _compile(function, _nrt=False, forceinline=True)
