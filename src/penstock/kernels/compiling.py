"""Says once, on standard error, that kernels are being compiled: the first query waits for it.

Only where no kernel of this version is on disk yet, and only in a process that opens a session:
workers say nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from penstock.kernels import jit

NOTICE = (
    "penstock compiles its kernels for this machine, once: queries wait for it, up to a minute in"
    " all (python -m penstock.warm does it ahead)"
)


class _Notice(event.Listener):  # type: ignore[misc]
    """Waits for the first kernel that is compiled."""

    def __init__(self) -> None:
        self.is_due: bool | None = None  # whether it is to be said; None: not known yet

    def on_start(self, event: Any) -> None:
        """A function of this package or of the user is being compiled."""
        module = event.data["dispatcher"].py_func.__module__
        if self.is_due and module.startswith("penstock."):
            self.is_due = False
            print(NOTICE, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """It is compiled."""


_notice = _Notice()


def tell_once() -> None:
    """Say it when the first kernel is compiled, if there are none."""
    if _notice.is_due is None:
        _notice.is_due = not any(map(_has_kernels, _folders()))
        event.register("numba:compile", _notice)


def _folders() -> set[str]:
    """Where the kernels of the modules that are loaded are kept."""
    if jit._CHOSEN_BY_USER:
        return {numba.config.CACHE_DIR}
    loaded = [name.removeprefix("penstock.") for name in sys.modules]
    return {jit._cache_folder(name) for name in loaded if name.startswith("kernels.")}


def _has_kernels(folder: str) -> bool:
    return bool(folder) and any(Path(folder).glob("*/*.nbi"))


def tell_never() -> None:
    """Say nothing: a process that compiles on purpose knows."""
    _notice.is_due = False
