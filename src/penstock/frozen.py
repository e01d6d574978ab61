"""Frozen values that pickle quickly, and plan nodes that cache what they derive.

Plans are compared and looked up all the time, and go to every shard. A plain frozen dataclass
would walk the whole tree for each hash, and is pickled by a loop over descriptions of its
fields. Here the hash is computed once, and unequal hashes settle a comparison.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def record(cls: C) -> C:
    """A frozen dataclass with slots that is pickled as a call of its constructor.

    Fields that are not compared are not part of the value and are not pickled.
    """
    made: Any = dataclass(frozen=True, slots=True)(cls)
    names = tuple(f.name for f in fields(made) if f.compare)
    several = attrgetter(*names) if len(names) > 1 else None

    def reduce(self: Any) -> tuple[Any, ...]:
        if several is None:
            return type(self), tuple(getattr(self, name) for name in names)
        return type(self), several(self)

    made.__reduce__ = reduce
    result: C = made
    return result


@dataclass_transform(frozen_default=True, kw_only_default=False)
def shared(cls: C) -> C:
    """A record that is pickled as separate bytes, decoded once per process.

    Readers that get the same bytes consecutively share the value and its cached properties.
    """
    made: Any = record(cls)
    plain = made.__reduce__
    made.__reduce__ = lambda self: (_decoded, (pickle.dumps(plain(self), protocol=5),))
    result: C = made
    return result


@lru_cache(maxsize=64)
def _decoded(data: bytes) -> Any:
    made, values = pickle.loads(data)
    return made(*values)


class Hashed:
    """Base with a slot for the hash, which is not a field: it is neither copied nor pickled."""

    __slots__ = ("_hash",)


@dataclass_transform(frozen_default=True, kw_only_default=False)
def frozen(cls: C) -> C:
    """A record (a subclass of Hashed) that computes its hash once."""
    made: Any = record(cls)
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


if TYPE_CHECKING:
    derived = property
else:

    def derived(make: Callable[[Any], Any]) -> property:
        """A property that is computed once and kept in the slot `_<name>`."""
        slot = f"_{make.__name__}"
        known = attrgetter(slot)

        def get(self: Any) -> Any:
            try:
                return known(self)
            except AttributeError:
                object.__setattr__(self, slot, value := make(self))
                return value

        return property(get, doc=make.__doc__)
