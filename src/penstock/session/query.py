"""Query: a handle on one standing query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from penstock.session.session import Session

Callback = Callable[[pa.Table], None]


class Query:
    """A standing query: its answer, its changes, its plan.

    >>> q = ps.query("SELECT k FROM r [RANGE 5 SECONDS]")  # doctest: +SKIP
    >>> q.view(), q.changes()  # doctest: +SKIP
    """

    __slots__ = ("_final", "_initial", "_read", "_session", "name")

    def __init__(self, session: Session, name: str, read: int, initial: pa.Table | None) -> None:
        self._session = session
        self.name = name
        self._read = read
        self._initial = initial
        self._final: pa.Table | None = None  # what a dropped query has left to read

    def __repr__(self) -> str:
        return f"Query({self.name!r}, {self.status})"

    @property
    def status(self) -> str:
        """running, warming (its windows have not filled since it was registered), or failed."""
        return self._session._status(self.name)

    def view(self) -> pa.Table:
        """The answer at the clock."""
        return self._session._view(self.name)

    def changes(self) -> pa.Table:
        """The changes of the answer since the last call; a dropped query's last ones once more."""
        if self._final is not None:
            left, self._final = self._final, self._final.slice(0, 0)
            return left
        return self._session._changes(self)

    def subscribe(self, callback: Callback) -> None:
        """Call `callback` with the changes of every commit that has some."""
        self._session._subscribe(self.name, callback)

    def explain(self) -> str:
        """The plan: patterns, state structures, parameters, cost, who shares each operator."""
        return self._session._explain_query(self.name)

    def drop(self) -> None:
        """Retract the answer and free the query's state."""
        self._session._drop_query(self.name)
