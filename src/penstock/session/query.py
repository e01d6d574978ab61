"""Query and Queries: handles on one standing query, and on queries registered together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from penstock.session import reading
from penstock.session.changelog import Callback
from penstock.session.readers import Readers

if TYPE_CHECKING:
    from penstock.session.desk import QueryDesk


class Query:
    """A standing query: its answer, its changes, its plan.

    >>> q = ps.query("SELECT k FROM r [RANGE 5 SECONDS]")  # doctest: +SKIP
    >>> q.view(), q.changes()  # doctest: +SKIP
    """

    __slots__ = ("_at", "_desk", "_readers")

    def __init__(self, desk: QueryDesk, readers: Readers, at: int) -> None:
        self._desk = desk
        self._readers = readers
        self._at = at

    def __repr__(self) -> str:
        return f"Query({self.name!r}, {self.status})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Query):
            return NotImplemented
        return other._readers is self._readers and other._at == self._at

    def __hash__(self) -> int:
        return hash((id(self._readers), self._at))

    @property
    def name(self) -> str:
        """The name of the query."""
        return self._readers.names[self._at]

    @property
    def _dropped(self) -> bool:
        return bool(self._readers.group.dropped[self._at])

    @property
    def status(self) -> str:
        """The state of the query: running, warming, failed or dropped.

        A warming query has windows that are not full yet. If the job fails, its queries have failed
        too.
        """
        return "dropped" if self._dropped else self._desk.status(self.name)

    def view(self) -> pa.Table:
        """The answer at the clock."""
        return self._live().view(self.name)

    def changes(self) -> pa.Table:
        """The changes of the answer since the last call.

        A dropped query returns its last ones once.
        """
        return self._desk.changes(self._readers, self._at)

    def subscribe(self, callback: Callback) -> None:
        """Call `callback` with the changes of every commit that has some."""
        self._live().subscribe(self.name, callback)

    def foreach_batch(
        self, function: Callable[[Any, int], None], whole_template: bool = False
    ) -> None:
        """On Spark: call `function(changes, batch)` with a DataFrame of every batch's changes.

        With `whole_template`, the DataFrame has the changes of all queries that share this query's
        plan. When Spark repeats a batch, the function gets it again, with the same number and the
        same rows.
        """
        self._live().foreach_batch(self.name, function, whole_template)

    def explain(self) -> str:
        """The plan: patterns, state structures, parameters, costs, and what queries share."""
        return self._live().explain(self.name)

    @property
    def siblings(self) -> Queries:
        """The queries registered together."""
        return Queries(self._live(), self._readers)

    def drop(self) -> None:
        """Retract the answer and free the query's state."""
        self._live().drop([(self._readers.group.number, np.array([self._at]))])

    def _live(self) -> QueryDesk:
        """The desk that serves this query; raises an error if the query is gone.

        Another query may have its name by now.
        """
        if self._dropped:
            raise reading.dropped(self.name)
        return self._desk


class Queries(Sequence[Query]):
    """The queries of one `query_many`: a sequence of handles, and operations on all of them.

    Each method returns what the method of every query would return, as one table with the query's
    name in column `_query`. Each change is returned once: here, or by its query's own handle.
    """

    __slots__ = ("_desk", "_readers")

    def __init__(self, desk: QueryDesk, readers: Readers) -> None:
        self._desk = desk
        self._readers = readers

    def __repr__(self) -> str:
        return f"Queries({len(self)})"

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[Query]:
        return (self._at(at) for at in range(len(self)))

    def _at(self, at: int) -> Query:
        return Query(self._desk, self._readers, at)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        places = range(len(self))[index]
        return self._at(places) if isinstance(places, int) else [self._at(at) for at in places]

    def view(self) -> pa.Table:
        """The answers of all running queries at the clock."""
        return self._desk.view_all(self._readers)

    def changes(self) -> pa.Table:
        """The changes of all answers since they were last read, in the order of the changelog."""
        return self._desk.changes(self._readers)

    def subscribe(self, callback: Callback) -> None:
        """Call `callback` with the changes of every commit that changes some of these queries."""
        self._desk.subscribe_all(self._readers, callback)

    def drop(self) -> None:
        """Retract all remaining answers in one step and free the queries' state."""
        group = self._readers.group
        left = np.flatnonzero(~group.dropped)
        if left.shape[0]:
            self._desk.drop([(group.number, left)])
