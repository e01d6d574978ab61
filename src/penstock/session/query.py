"""Query: a handle on one standing query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import NameError_

if TYPE_CHECKING:
    from penstock.session.session import Session

Callback = Callable[[pa.Table], None]


class Query:
    """A standing query: its answer, its changes, its plan.

    >>> q = ps.query("SELECT k FROM r [RANGE 5 SECONDS]")  # doctest: +SKIP
    >>> q.view(), q.changes()  # doctest: +SKIP
    """

    __slots__ = ("_dropped", "_final", "_initial", "_read", "_session", "name")

    def __init__(self, session: Session, name: str, read: int, initial: pa.Table | None) -> None:
        self._session = session
        self.name = name
        self._read = read
        self._initial = initial
        self._dropped = False
        self._final: pa.Table | None = None  # what a dropped or failed query has left to read

    def __repr__(self) -> str:
        return f"Query({self.name!r}, {self.status})"

    @property
    def status(self) -> str:
        """running, warming (its windows have not filled yet), failed or dropped."""
        return "dropped" if self._dropped else self._session._status(self.name)

    def view(self) -> pa.Table:
        """The answer at the clock."""
        return self._live()._view(self.name)

    def changes(self) -> pa.Table:
        """The changes of the answer since the last call; what a dropped query had left, once."""
        if self._final is not None:
            left, self._final = self._final, self._final.slice(0, 0)
            return left
        return self._session._changes(self)

    def subscribe(self, callback: Callback) -> None:
        """Call `callback` with the changes of every commit that has some."""
        self._live()._subscribe(self.name, callback)

    def foreach_batch(
        self, function: Callable[[Any, int], None], whole_template: bool = False
    ) -> None:
        """On Spark: call `function(changes, batch)` with a DataFrame of every batch's changes.

        With `whole_template`, of all queries that share this one's plan. A batch may come twice
        (same number, same rows) when Spark repeats it.
        """
        self._live()._foreach_batch(self.name, function, whole_template)

    def explain(self) -> str:
        """The plan: patterns, state structures, parameters, cost, who shares each operator."""
        return self._live()._explain_query(self.name)

    def drop(self) -> None:
        """Retract the answer and free the query's state."""
        self._live()._drop_query(self.name)

    def _live(self) -> Session:
        """The session, unless this query is gone (its name may be another's by now)."""
        if self._dropped:
            raise NameError_(f"query {self.name} was dropped", code="PS-NAME-004")
        return self._session
