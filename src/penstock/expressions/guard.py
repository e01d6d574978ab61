"""Finding the rows at which a vectorised function fails: all at once first, then by halves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.arrays import Bool
from penstock.types import SqlType, arrow_type


class WrongResult(Exception):
    """The function breaks its contract on all rows, so there are no bad rows to find."""


def attempt(
    function: Callable[[pa.Array, SqlType], pa.Array], array: pa.Array, type_: SqlType
) -> tuple[pa.Array, Bool | None]:
    """function(array), NULL in the rows where it fails, and these rows."""

    def run(begin: int, end: int) -> pa.Array:
        return function(array.slice(begin, end - begin), type_)

    result, bad, _ = by_halves(run, len(array), type_)
    return result, bad


def by_halves(
    function: Callable[[int, int], pa.Array], n: int, type_: SqlType
) -> tuple[pa.Array, Bool | None, str]:
    """function(0, n) put together from slices, its failing rows (NULL there) and a reason.

    Every exception of `function` counts: it may be a user's. Slices are split until the
    failing rows stand alone, so k bad rows cost about 2k·log(n/k) calls.
    """
    parts: list[pa.Array] = []
    bad: Bool | None = None
    reason = ""
    todo = [(0, n)]
    while todo:
        begin, end = todo.pop()
        try:
            parts.append(function(begin, end))
        except WrongResult:
            raise
        except Exception as error:
            reason = reason or f"{type(error).__name__}: {error}"
            if end - begin > 1:
                middle = (begin + end) // 2
                todo += [(middle, end), (begin, middle)]
                continue
            bad = np.zeros(n, np.bool_) if bad is None else bad
            bad[begin] = True
            parts.append(pa.nulls(1, arrow_type(type_)))
    return join_parts(parts, type_), bad, reason


def join_parts(parts: list[pa.Array], type_: SqlType) -> pa.Array:
    """Arrays one after another as one array of the type's Arrow type."""
    if len(parts) == 1:
        return parts[0]
    return pa.chunked_array(parts, arrow_type(type_)).combine_chunks()
