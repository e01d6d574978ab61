"""Penstock: very many standing SQL queries, kept exactly up to date over live streams."""

from __future__ import annotations

from penstock.errors import PenstockError

__version__ = "0.1.0"
__all__ = ["PenstockError", "__version__"]
