"""Names of queries registered together: given one by one, or `q` and consecutive numbers.

Two numbers store the names of a million anonymous queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import I64

_PREFIX = "q"


def numbered(number: int) -> str:
    """The name of an anonymous query."""
    return f"{_PREFIX}{number}"


def number_of(name: str) -> int | None:
    """The number in the name of an anonymous query; None if it is not such a name."""
    digits = name.removeprefix(_PREFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or digits[0] == "0":
        return None
    return int(digits)


class Names(Sequence[str]):
    """The names of some queries by place."""

    __slots__ = ("_count", "first", "given")

    def __init__(self, given: Sequence[str] | None, first: int = 0, count: int = 0) -> None:
        self.given = given  # None: numbers from `first` on
        self.first = first
        self._count = count if given is None else len(given)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        return (
            numbered(self.first + range(self._count)[at]) if self.given is None else self.given[at]
        )

    def at(self, places: I64) -> list[str]:
        """The names at these places."""
        return [self[at] for at in places.tolist()]

    def arrow(self) -> pa.Array:
        """All names as Arrow."""
        if self.given is not None:
            return pa.array(self.given, pa.string())
        numbers = pa.array(range(self.first, self.first + self._count), pa.int64())
        return pc.binary_join_element_wise(_PREFIX, numbers.cast(pa.string()), "")
