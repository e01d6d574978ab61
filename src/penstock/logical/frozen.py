"""Frozen plan nodes that remember their hash, and what else they derive from their fields.

Plans are compared and looked up all the time; a plain frozen dataclass would walk the whole tree
each time. The hash is computed once per node, and unequal hashes settle a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar, dataclass_transform, overload

C = TypeVar("C", bound=type)
T = TypeVar("T")


class Hashed:
    """Base with room for the hash; it is no field, so it is neither copied nor pickled."""

    __slots__ = ("_hash",)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def frozen(cls: C) -> C:
    """A frozen dataclass with slots (a subclass of Hashed) whose hash is computed once."""
    made: Any = dataclass(frozen=True, slots=True)(cls)
    walk, compare = made.__hash__, made.__eq__

    def hash_once(self: Any) -> int:
        try:
            known: int = self._hash
        except AttributeError:
            known = walk(self)
            object.__setattr__(self, "_hash", known)
        return known

    def equal(self: Any, other: object) -> Any:
        if self is other:
            return True
        if type(self) is not type(other) or hash_once(self) != hash_once(other):
            return False
        return compare(self, other)

    def reduce(self: Any) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, name) for name in made.__match_args__)

    made.__reduce__ = reduce  # what dataclasses have for slots is slow
    made.__hash__ = hash_once
    made.__eq__ = equal
    result: C = made
    return result


class derived(Generic[T]):
    """A property that is computed once, and kept in the slot of its name with a _ before it."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._slot = f"_{make.__name__}"
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, node: None, owner: type) -> Self: ...
    @overload
    def __get__(self, node: object, owner: type) -> T: ...
    def __get__(self, node: object | None, owner: type) -> T | Self:
        if node is None:
            return self
        try:
            known: T = getattr(node, self._slot)
        except AttributeError:
            known = self._make(node)
            object.__setattr__(node, self._slot, known)
        return known
