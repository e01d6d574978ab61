"""The expected answer: DuckDB over the windows' contents (Golab & Özsu 2005, Definitions 1, 2).

All points of one query are evaluated by one statement (a lateral join with the points).
`answer` evaluates a single point by the plain statement: it arbitrates when the two could
disagree, and tests compare them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import duckdb

from oracle.fold import Values, bag
from oracle.translate import AT, Reference, Translation, translate
from oracle.windows import BEGINNING, FOREVER, intervals, point
from oracle.world import World

_connection: duckdb.DuckDBPyConnection | None = None
_loaded: Oracle | None = None
"""Whose windows the database holds."""


def connection() -> duckdb.DuckDBPyConnection:
    """The shared in-memory database: one thread, nothing optimised (inputs are tiny)."""
    global _connection
    if _connection is None:
        _connection = duckdb.connect(":memory:", config={"threads": 1})
        _connection.execute("PRAGMA disable_optimizer")
    return _connection


def _fill(name: str, columns: list[tuple[str, str]], rows: list[Values]) -> None:
    body = ", ".join(f"{n} {t}" for n, t in columns)
    connection().execute(f"CREATE OR REPLACE TEMP TABLE {name} ({body})")
    if rows:  # as lists: a thousand literals take longer to bind than the query does to run
        lists = ", ".join(f"unnest(?::{t}[])" for _, t in columns)
        values = [list(column) for column in zip(*rows, strict=True)]
        connection().execute(f"INSERT INTO {name} SELECT {lists}", values)


@dataclass(slots=True)
class Oracle:
    """The answers of one query in one world, whose steps are over.

    `since`: the step at which the query was registered; it sees rows of later steps
    (None: all rows, a query with history).
    """

    sql: str
    world: World
    since: int | None = 0
    views: dict[str, str] = field(default_factory=dict)
    translation: Translation = field(init=False)
    _points: list[int] = field(init=False, default_factory=list)
    _bags: dict[int, Counter[Values]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.translation = translate(self.sql, self.world.streams, self.world.tables, self.views)

    @property
    def streams(self) -> frozenset[str]:
        """The streams the query reads."""
        return self.translation.streams

    def clock(self, step: int) -> int:
        """The query's clock at the end of `step`."""
        return self.world.clock(self.streams, step)

    def points(self) -> list[int]:
        """Every point at which the answer may change, ascending, from the first one on."""
        if not self._points:
            ends = {point(BEGINNING, 0)}
            for reference in self.translation.references:
                for row in self._rows(reference):
                    ends.update(row[-2:])  # type: ignore[arg-type]
            self._points = sorted(p for p in ends if p < FOREVER)
        return self._points

    def only(self, points: list[int]) -> None:
        """Ask for these points alone (instead of every one at which something may change)."""
        self._points = sorted(set(points))

    def at(self, at: int) -> Counter[Values]:
        """The answer at a point."""
        if not self._bags:
            self._evaluate()
        points = self.points()
        return self._bags[points[bisect_right(points, at) - 1]]

    def answer(self, at: int) -> Counter[Values]:
        """The answer at a point by the plain statement."""
        self._load()
        connection().execute("PRAGMA enable_optimizer")
        try:
            return bag(connection().execute(self.translation.text.replace(AT, str(at))).fetchall())
        finally:
            connection().execute("PRAGMA disable_optimizer")

    def _evaluate(self) -> None:
        points = self.points()
        self._load()
        _fill("__points", [("__t", "BIGINT")], [(p,) for p in points])
        text = f"SELECT {AT}, __q.* FROM __points __at, LATERAL ({self.translation.text}) __q"
        found: dict[int, list[Values]] = defaultdict(list)
        for row in connection().execute(text).fetchall():
            found[row[0]].append(row[1:])
        self._bags = {p: bag(found.get(p, ())) for p in points}

    def _load(self) -> None:
        global _loaded
        if _loaded is self:
            return
        _loaded = self
        for reference in self.translation.references:
            _fill(reference.helper, self._columns(reference), self._rows(reference))

    def _columns(self, reference: Reference) -> list[tuple[str, str]]:
        if reference.relation in self.world.tables:
            own = self.world.tables[reference.relation].columns
        else:
            own = (*self.world.streams[reference.relation].columns, ("__j", "BIGINT"))
        return [*own, ("__s", "BIGINT"), ("__e", "BIGINT")]

    def _rows(self, reference: Reference) -> list[Values]:
        if reference.window is None:
            return self._table_rows(reference.relation)
        definition = self.world.streams[reference.relation]
        seen = self.world.rows[reference.relation]
        if self.since is not None:
            seen = [row for row in seen if row.step > self.since]
        lives = intervals(seen, reference.window, definition.names)
        return [
            (*row.values, self._applied(row.ts, row.step), start, end)
            for row, (start, end) in zip(seen, lives, strict=True)
        ]

    def _applied(self, ts: int, step: int) -> int:
        """The step in which a row came to be applied."""
        steps = range(step, self.world.step + 1)
        return next((s for s in steps if self.clock(s) >= ts), self.world.step + 1)

    def _table_rows(self, name: str) -> list[Values]:
        versions = self.world.versions[name]
        if self.world.tables[name].nonretroactive:
            return [(*v.values, v.start, v.end) for v in versions]
        return [(*v.values, self._effect(v.start), self._effect(v.end)) for v in versions]

    def _effect(self, step: int) -> int:
        """The point at which a table update of `step` takes effect: the clock it found."""
        if step == FOREVER:
            return FOREVER
        return point(self.clock(step), step)
