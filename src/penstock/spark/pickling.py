"""Pickles that may hold functions of the user's script, which workers cannot import."""

from __future__ import annotations

from typing import Any, cast

from pyspark import cloudpickle


def dumps(value: Any) -> bytes:
    """Pickle; `wire.loads` reads it."""
    return cast(bytes, cloudpickle.dumps(value, protocol=5))  # type: ignore[no-untyped-call]
