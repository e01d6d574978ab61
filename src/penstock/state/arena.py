"""The arena: all state of an engine shard as named flat NumPy arrays (DESIGN §5.4).

An operator gets arrays by name from its `Scope` and never keeps them across steps. So a snapshot
is a copy of all arrays, the size is a sum, and growing replaces one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[np.generic]


class Arena:
    """Named flat arrays."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        # indexed names by owner; names in `_fresh` are missing, some may be released
        self._owned: dict[str, set[str]] = {}
        self._indexed: dict[str, Array] = self._arrays
        self._fresh: list[str] = []

    def scope(self, prefix: str) -> Scope:
        """A view of the arrays with names that start with ``prefix/``."""
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
        """Run the block on an empty arena and restore the old one afterwards.

        Arrays that operators create in the block are discarded; the operators use the restored
        arrays when they run.
        """
        kept, self._arrays = self._arrays, {}
        try:
            yield
        finally:
            self._arrays = kept

    def names_in(self, prefix: str) -> list[str]:
        """The names that start with ``prefix/``; scans only the names of one owner."""
        owner, start = _owner(prefix), f"{prefix}/"
        names: Iterable[str] = self._arrays
        if "/" in owner:
            self._index()
            names = sorted(self._owned.get(owner, ()))
        return [name for name in names if name.startswith(start) and name in self._arrays]

    def _index(self) -> None:
        fresh: Iterable[str] = self._fresh
        if self._indexed is not self._arrays:
            self._owned, self._indexed, fresh = {}, self._arrays, self._arrays
        for name in fresh:
            self._owned.setdefault(_owner(name), set()).add(name)
        self._fresh.clear()

    def free(self, prefix: str) -> None:
        """Release the arrays with names that start with ``prefix/``."""
        names = self.names_in(prefix)
        for name in names:
            self.release(self._arrays.pop(name))
        owner = _owner(prefix)
        if owner in self._owned:
            self._owned[owner].difference_update(names)
            if not self._owned[owner]:
                del self._owned[owner]

    # ---- where arrays live: what a kind of arena may change ----------------------------
    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """A new array for this arena; zero pages take no memory until they are touched."""
        return np.zeros(shape, dtype)

    def release(self, array: Array) -> None:
        """Called when an array has left the arena."""

    def extents(self, array: Array) -> list[tuple[int, int]]:
        """Byte ranges of an array; outside of them it is known to be zero."""
        return [(0, array.nbytes)]


def _owner(name: str) -> str:
    """The first two parts of a name, such as a template or a stream."""
    first = name.find("/")
    second = name.find("/", first + 1)
    return name if first < 0 or second < 0 else name[:second]


class Scope:
    """The arrays of one owner inside an arena."""

    __slots__ = ("_arena", "_keys", "prefix")

    def __init__(self, arena: Arena, prefix: str) -> None:
        self._arena = arena
        self.prefix = prefix
        self._keys: dict[str, str] = {}

    def scope(self, name: str) -> Scope:
        """A scope inside this one."""
        return Scope(self._arena, f"{self.prefix}/{name}")

    def __contains__(self, name: str) -> bool:
        return f"{self.prefix}/{name}" in self._arena._arrays

    def __getitem__(self, name: str) -> Array:
        try:
            return self._arena._arrays[self._keys[name]]
        except KeyError:
            key = self._keys[name] = f"{self.prefix}/{name}"
            return self._arena._arrays[key]

    def __setitem__(self, name: str, array: Array) -> None:
        arrays, key = self._arena._arrays, f"{self.prefix}/{name}"
        old = arrays.get(key)
        arrays[key] = array
        if old is None:
            self._arena._fresh.append(key)
        elif old is not array:
            self._arena.release(old)

    def array(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = np.int64, fill: int = 0
    ) -> Array:
        """The array `name`, made (filled with `fill`) when it does not exist."""
        arena, key = self._arena, f"{self.prefix}/{name}"
        found = arena._arrays.get(key)
        if found is None:
            found = arena._arrays[key] = arena.zeros(shape, dtype)
            arena._fresh.append(key)
            if fill:
                found[...] = fill
        return found

    def reserve(self, name: str, length: int, fill: int = 0) -> Array:
        """The array `name`, its first axis grown (by doubling) to at least `length`."""
        old = self[name]
        if old.shape[0] >= length:
            return old
        capacity, kept = max(length, 2 * old.shape[0], 16), slice(0, old.shape[0])
        del old
        return self.renew(name, kept, capacity, fill)

    def renew(self, name: str, kept: slice, capacity: int, fill: int = 0) -> Array:
        """Replace the array `name`: the kept part, then `fill` up to the capacity."""
        old = self._arena._arrays.pop(f"{self.prefix}/{name}")
        new, n = self._arena.zeros((capacity, *old.shape[1:]), old.dtype), kept.stop - kept.start
        new[:n] = old[kept]
        if fill:
            new[n:] = fill
        self[name] = new
        self._arena.release(old)
        return new

    def free(self) -> None:
        """Drop every array of this scope."""
        self._arena.free(self.prefix)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of this scope."""
        arrays = self._arena._arrays
        return sum(arrays[name].nbytes for name in self._arena.names_in(self.prefix))
