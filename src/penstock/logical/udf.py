"""User-defined functions: Python callables over Arrow arrays, declared with their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.types import SqlType


@dataclass(frozen=True, slots=True)
class Udf:
    """A registered function: takes and returns Arrow arrays of equal length.

    A call that takes longer than `timeout_s` counts as failed. Plans know it by `name`, which has a
    number if queries still call a former function of that name: `f@2`.
    """

    name: str
    function: Callable[..., pa.Array]
    arguments: tuple[SqlType, ...]
    result: SqlType
    timeout_s: float = 60.0

    @property
    def spelled(self) -> str:
        """Its name in SQL."""
        return self.name.partition("@")[0]
