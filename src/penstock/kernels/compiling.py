"""Prints a notice on standard error when kernels are compiled and the first query has to wait.

The notice appears once, only if no kernel of this version is cached on disk, and only in a process
that opens a session, not in workers.
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
    """Waits for the first kernel to be compiled."""

    def __init__(self) -> None:
        self.is_due: bool | None = None  # whether to print; None: not known yet

    def on_start(self, event: Any) -> None:
        """Called when a function of this package or of the user is being compiled."""
        module = event.data["dispatcher"].py_func.__module__
        if self.is_due and module.startswith("penstock."):
            self.is_due = False
            print(NOTICE, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Called when it has been compiled."""


_notice = _Notice()


def tell_once() -> None:
    """Print the notice when the first kernel is compiled, unless compiled kernels are cached."""
    if _notice.is_due is None:
        _notice.is_due = not any(map(_has_kernels, _folders()))
        event.register("numba:compile", _notice)


def _folders() -> set[str]:
    """The cache folders of the loaded modules' kernels."""
    if jit._CHOSEN_BY_USER:
        return {numba.config.CACHE_DIR}
    loaded = [name.removeprefix("penstock.") for name in sys.modules]
    return {jit._cache_folder(name) for name in loaded if name.startswith("kernels.")}


def _has_kernels(folder: str) -> bool:
    return bool(folder) and any(Path(folder).glob("*/*.nbi"))


def tell_never() -> None:
    """Print no notice: this process compiles on purpose."""
    _notice.is_due = False
