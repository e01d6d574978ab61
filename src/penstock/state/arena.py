"""The arena: all state of an engine shard as named flat NumPy arrays (DESIGN §5.4).

An operator asks its `Scope` for arrays by name and never keeps them across steps, so a
snapshot is a copy of arrays, accounting is a sum, and growing is replacing one array.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[np.generic]


class Arena:
    """Named flat arrays."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def scope(self, prefix: str) -> Scope:
        """A view of the arrays whose names start with ``prefix/``."""
        return Scope(self, prefix)

    def names(self) -> Iterator[str]:
        """All array names in creation order."""
        return iter(self._arrays)

    def arrays(self) -> dict[str, Array]:
        """The arrays by name (not copies)."""
        return self._arrays

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in self._arrays.values())

    def snapshot(self) -> dict[str, Array]:
        """A copy of every array."""
        return {name: array.copy() for name, array in self._arrays.items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Replace the whole content by a copy of `arrays`."""
        fresh = {name: self.zeros(array.shape, array.dtype) for name, array in arrays.items()}
        for name, array in fresh.items():
            array[...] = arrays[name]
        self.attach(fresh)

    def attach(self, arrays: dict[str, Array]) -> None:
        """Replace the whole content by these very arrays; scopes see them at once."""
        old, self._arrays = self._arrays, arrays
        kept = {id(array) for array in arrays.values()}
        for array in old.values():
            if id(array) not in kept:
                self.release(array)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Within, the arena is empty; afterwards it is what it was.

        Operators built within make their first arrays in vain, and find those of the arena
        when they run.
        """
        kept, self._arrays = self._arrays, {}
        try:
            yield
        finally:
            self._arrays = kept

    # ---- where arrays live: what a kind of arena may change ----------------------------
    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """A new array for this arena; what is only zero is left to the system until touched."""
        return np.zeros(shape, dtype)

    def release(self, array: Array) -> None:
        """Called when an array has left the arena."""

    def extents(self, array: Array) -> list[tuple[int, int]]:
        """Byte ranges of an array of the arena outside of which it is known to be zero."""
        return [(0, array.nbytes)]


class Scope:
    """The arrays of one owner inside an arena."""

    def __init__(self, arena: Arena, prefix: str) -> None:
        self._arena = arena
        self.prefix = prefix

    def scope(self, name: str) -> Scope:
        """A scope inside this one."""
        return Scope(self._arena, f"{self.prefix}/{name}")

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}/{name}" in self._arena._arrays

    def __getitem__(self, name: str) -> Array:
        return self._arena._arrays[f"{self.prefix}/{name}"]

    def __setitem__(self, name: str, array: Array) -> None:
        arrays, key = self._arena._arrays, f"{self.prefix}/{name}"
        old = arrays.get(key)
        arrays[key] = array
        if old is not None and old is not array:
            self._arena.release(old)

    def array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.int64, fill: int = 0
    ) -> Array:
        """The array `name`, made (filled with `fill`) when it does not exist."""
        if name not in self:
            new = self._arena.zeros(shape, dtype)
            if fill:
                new[...] = fill
            self[name] = new
        return self[name]

    def reserve(self, name: str, length: int, fill: int = 0) -> Array:
        """The array `name`, its first axis grown (by doubling) to at least `length`."""
        old = self[name]
        if old.shape[0] >= length:
            return old
        capacity = max(length, 2 * old.shape[0], 16)
        used = old.shape[0]
        del old
        return self._resize(name, used, capacity, fill)

    def _resize(self, name: str, used: int, capacity: int, fill: int) -> Array:
        old = self._arena._arrays.pop(f"{self.prefix}/{name}")
        new = self._arena.zeros((capacity, *old.shape[1:]), old.dtype)
        new[:used] = old
        if fill:
            new[used:] = fill
        self[name] = new
        self._arena.release(old)
        return new

    def free(self) -> None:
        """Drop every array of this scope."""
        arrays = self._arena._arrays
        for name in [n for n in arrays if n.startswith(self.prefix + "/")]:
            self._arena.release(arrays.pop(name))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of this scope."""
        start = self.prefix + "/"
        return sum(a.nbytes for n, a in self._arena._arrays.items() if n.startswith(start))
