"""Tables that pick a function by the class of a value, and fail at import if a class is missing.

What every class of a family must have (a cost, a pattern, …) is one table: `case` adds a function
to it, and `complete` at the end of the module compares the table with the family. So a class that
is added later cannot fall through to a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar, get_args, get_origin

from penstock.errors import PlanError

F = TypeVar("F", bound=Callable[..., Any])


def case(table: dict[Any, Any], *classes: type) -> Callable[[F], F]:
    """Enter the decorated function into `table` for each of `classes`."""

    def enter(function: F) -> F:
        table.update(dict.fromkeys(classes, function))
        return function

    return enter


def complete(table: Mapping[Any, object], classes: Iterable[type], what: str) -> None:
    """Raise an error that names the classes for which `table` has no entry."""
    missing = [c.__name__ for c in classes if c not in table]
    if missing:
        raise PlanError(f"no {what} for {', '.join(missing)}")


def classes(union: object) -> list[type]:
    """The classes of a union; of a generic class the class itself."""
    return [get_origin(member) or member for member in get_args(union)]


def subclasses(module: ModuleType, base: type) -> list[type]:
    """The classes below `base` that `module` holds."""
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, base)]
    return [c for c in found if c is not base]
