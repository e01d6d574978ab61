"""Penstock: very many standing SQL queries, kept exactly up to date over live streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.session import Queries, Query, Session, connect

__version__ = "0.1.0"
__all__ = ["PenstockError", "Queries", "Query", "Session", "__version__", "connect"]


def __getattr__(name: str) -> Any:
    """Load the engine only when it is asked for, so that light imports stay light."""
    if name in ("Queries", "Query", "Session", "connect"):
        from penstock import session

        return getattr(session, name)
    raise AttributeError(name)
