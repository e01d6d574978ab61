"""Frozen plan nodes that remember their hash.

Plans are compared and looked up all the time; a plain frozen dataclass would walk the whole tree
each time. The hash is computed once per node, and unequal hashes settle a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C", bound=type)


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

    made.__hash__ = hash_once
    made.__eq__ = equal
    result: C = made
    return result
