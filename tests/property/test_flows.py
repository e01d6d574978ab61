"""Flows: populations of selections and joins that share filters and SteMs, against DuckDB.

Queries of many shapes over the same streams, with windows of different lengths on one SteM,
self-joins, bands and disjunctions, also below operators that read further streams, come and go
while rows flow; each must be as exact as if it were alone, however its rows are routed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import penstock
from oracle.check import check, compare
from oracle.driver import Observation, Trace
from oracle.fold import changes_of, rows_of
from oracle.scenario import Advance, Push, Scenario, follow
from penstock.eddy.eddy import ROUTINGS
from penstock.errors import HistoryError
from property.cases import CHUNKS, seeds, tally
from property.data import session

_JOINS = (
    ("r", "FROM r [RANGE {w}] r", ""),
    ("r", "FROM r [RANGE {w}] r", ""),
    ("r s", "FROM r [RANGE {w}] r, s [RANGE {v}] s", "r.k = s.k"),
    ("r s", "FROM s [RANGE {w}] s, r [RANGE {v}] r", "r.k = s.k AND r.a = s.b"),
    ("r s", "FROM r [RANGE {w}] r, s [RANGE {v}] s", "s.b - r.a BETWEEN -1 AND {c}"),
    ("r s u", "FROM r [RANGE {w}] r, s [RANGE {v}] s, u [RANGE {x}] u", "r.k = s.k AND s.k = u.k"),
    ("r s u", "FROM r [RANGE {w}] r, s [RANGE {v}] s, u [NOW] u", "r.k = s.k AND r.a = u.k"),
    ("r r2", "FROM r [RANGE {w}] r, r [RANGE {v}] r2", "r.k = r2.k"),
    ("r r2", "FROM r [RANGE {w}] r, r [RANGE {v}] r2", "r.k = r2.a"),
    ("r s r2", "FROM r [RANGE {w}] r, s [RANGE {v}] s, r [RANGE 2] r2", "r.k = s.k AND s.b = r2.a"),
)  # fmt: skip
_WINDOWED = (  # joins of two windows of any kind
    ("r s", "r.k = s.k"),
    ("r s", "s.b - r.a BETWEEN -1 AND {c}"),
    ("r s", "r.a < s.b"),
    ("r s", "s.b <= r.a - {c}"),
    ("r s", "r.a <> s.b"),
    ("r r2", "r2.a - r.a BETWEEN 0 AND {c}"),
    ("r r2", "r.k = r2.k"),
    ("s s2", "s2.x - s.x BETWEEN -15e-1 AND 3e-1"),
    ("s s2", "s.x < s2.x"),
)
_COLUMNS = {
    "r": ("r.k", "r.a"), "r2": ("r2.k", "r2.a"), "s": ("s.k", "s.b", "s.x"), "u": ("u.k", "u.c"),
    "s2": ("s2.k", "s2.b", "s2.x"),
}  # fmt: skip


def _condition(rng: Random, column: str) -> str:
    if column == "u.c":
        word = rng.choice(("a", "b", "ab", ""))
        return rng.choice((f"u.c = '{word}'", f"u.c <> '{word}'", f"u.c LIKE '{word}%'"))
    low, high = sorted((rng.randint(-1, 4), rng.randint(-1, 4)))
    return rng.choice(
        (
            f"{column} {rng.choice(('<', '<=', '>', '>=', '=', '<>'))} {low}",
            f"{column} BETWEEN {low} AND {high}",
            f"{column} IN ({low}, {high})",
            f"({column} IS NULL OR {column} > {low})",
            f"({column} < {low} OR {column} > {high})",
            f"{column} + 1 > {low}",
        )
    )


def _window(rng: Random) -> str:
    length = rng.randint(1, 6)
    slide = f"RANGE {length} SLIDE {rng.randint(1, length)}"
    return rng.choice((f"RANGE {length}", f"RANGE {length}", slide, "NOW"))


def _windowed(rng: Random, conditions: int) -> tuple[str, list[str]]:
    """A join of two windows as the end of a query, and its columns."""
    aliases, joined = rng.choice(_WINDOWED)
    windows = [_window(rng), _window(rng)]
    if rng.random() < 0.2:
        windows[rng.randrange(2)] = "UNBOUNDED"  # with two of them there is no view to look at
    sources = ", ".join(f"{a[0]} [{w}] {a}" for a, w in zip(aliases.split(), windows, strict=True))
    columns = [c for alias in aliases.split() for c in _COLUMNS[alias]]
    all_of = [joined.format(c=rng.randint(0, 1))]
    all_of += [_condition(rng, rng.choice(columns)) for _ in range(conditions)]
    return f"FROM {sources} WHERE {' AND '.join(all_of)}", columns


def _below(rng: Random) -> str:
    """A join of two windows below operators that read a third stream."""
    source, columns = _windowed(rng, rng.randint(0, 2))
    one, two = (rng.choice([c for c in columns if not c.endswith(".x")]) for _ in range(2))
    u = f"u [RANGE {rng.randint(1, 6)}]"
    return rng.choice(
        (
            f"SELECT {one} AS c0 {source} EXCEPT ALL SELECT k AS c0 FROM {u}",
            f"SELECT {one} AS c0 {source} UNION ALL SELECT k AS c0 FROM {u} WHERE k > 1",
            f"SELECT DISTINCT {one} AS c0, {two} AS c1 {source} AND {one} IN (SELECT k FROM {u})",
            f"SELECT {one} AS c0, count(*) AS c1 {source} "
            f"AND NOT EXISTS (SELECT 1 FROM {u} v WHERE v.k = {two}) GROUP BY {one}",
        )
    )


def _query(rng: Random) -> str:
    """A random block, or a plan around one."""
    kind = rng.random()
    if kind < 0.25:
        return _below(rng)
    if kind < 0.5:
        source, columns = _windowed(rng, rng.choice((0, 0, 1)))
        return f"SELECT {', '.join(f'{c} AS c{i}' for i, c in enumerate(columns))} {source}"
    return _block(rng)


def _block(rng: Random) -> str:
    """A random block: a join or a selection, conditions, some of them in an OR."""
    aliases, source, joined = rng.choice(_JOINS)
    lengths = {name: rng.randint(1, 6) for name in "wvx"}
    columns = [c for alias in aliases.split() for c in _COLUMNS[alias]]
    conditions = [joined.format(c=rng.randint(0, 1))] if joined else []
    for _ in range(rng.randint(0 if joined else 1, 3)):
        first = _condition(rng, rng.choice(columns))
        if rng.random() < 0.25:
            first = f"({first} OR {_condition(rng, rng.choice(columns))})"
        conditions.append(first)
    shown = rng.sample(columns, rng.randint(1, len(columns)))
    chosen = ", ".join(f"{c} AS c{i}" for i, c in enumerate(shown))
    return f"SELECT {chosen} {source.format(**lengths)} WHERE {' AND '.join(conditions)}"


class _Population:
    """A session with queries that come, with history or without, and go."""

    def __init__(self, rng: Random, scenario: Scenario, **options: Any) -> None:
        self.rng, self.scenario = rng, scenario
        self.world = scenario.world()
        self.trace = Trace(scenario, [], self.world, [], [], [])
        self.live: dict[int, Any] = {}
        self.session = penstock.connect(runner="inprocess", **options)

    def run(self) -> Trace:
        """Alternate churn and input."""
        for text in self.scenario.ddl():
            self.session.sql(text)
        for action in self.scenario.actions:
            for _ in range(self.rng.randint(0, 2)):
                self._add()
            if self.live and self.rng.random() < 0.3:
                self._drop(self.rng.choice(sorted(self.live)))
            follow(self.world, action)
            match action:
                case Push(stream, rows):
                    self.session.push(stream, self.scenario.dicts(stream, rows))
                case Advance(stream, ts):
                    self.session.advance(stream, ts)
            self._look()
        names = [s.name for s in self.scenario.streams]
        self.trace.late = {name: self.session.late(name).num_rows for name in names}
        for index in sorted(self.live):
            self._drop(index)
        shared = self.session.stats()
        assert not shared.get("flows"), "the last query takes its flow along"
        assert not shared.get("stems"), "and the SteMs"
        assert not shared.get("joins"), "and the joins of two windows"
        self.session.close()
        return self.trace

    def _add(self) -> None:
        sql, history = _query(self.rng), self.rng.random() < 0.4
        try:
            query = self.session.query(sql, history=history)
        except HistoryError:  # a stream that has brought nothing holds the clock back for ever
            return
        self.live[len(self.trace.sqls)] = query
        self.trace.sqls.append(sql)
        self.trace.seen.append([])
        self.trace.since.append(None if history else self.world.step)
        self.trace.registered.append(self.world.step)

    def _drop(self, index: int) -> None:
        query = self.live.pop(index)
        pending = changes_of(query.changes())
        told: list[Any] = []
        query.subscribe(told.append)
        query.drop()
        changes = pending + [c for table in told for c in changes_of(table)]
        self.trace.seen[index].append(Observation(self.world.step, changes, None, dropped=True))

    def _look(self) -> None:
        for index, query in self.live.items():
            changes = changes_of(query.changes())
            seen = Observation(self.world.step, changes, rows_of(query.view()))
            self.trace.seen[index].append(seen)


def _scenario(rng: Random, rows: int) -> Scenario:
    base = session(rng, {"r", "s", "u"}, set(), rows)
    return replace(base, streams=tuple(replace(s, retain=1000) for s in base.streams))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_population_is_as_exact_as_its_queries(chunk: int) -> None:
    for seed in seeds(31, chunk, 3 * CHUNKS):
        rng = Random(seed)
        options = {"routing": rng.choice(ROUTINGS)}
        trace = _Population(rng, _scenario(rng, 24), **options).run()
        compare(trace)
        tally["flows"] += len(trace.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_a_population_on_shards(chunk: int) -> None:
    for seed in seeds(32, chunk, 5):
        rng = Random(seed)
        trace = _Population(rng, _scenario(rng, 20), shards=rng.choice((1, 2, 3))).run()
        compare(trace)
        tally["flows on shards"] += len(trace.sqls)


_SPECIAL = (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 0.2, 0.3, 1e308, -1e308, 5e-324)
_FLOAT_BANDS = (
    "s2.x - s.x BETWEEN -15e-1 AND 3e-1",
    "s2.x - s.x BETWEEN 1e-1 AND 1e-1",
    "s2.x - s.x <= 0e0",
    "s.x - s2.x <= 2e-1",
    "s2.x - s.x >= 1e-1",
    "s.x - s2.x >= 1e-1 AND s2.x - s.x <= 3e-1",
    "1e-1 <= s2.x - s.x AND s2.x - s.x <= 4e-1",
    "s2.x >= s.x",
    "s2.x <= s.x AND s.k = s2.k",
    "s2.x BETWEEN s.x - 2e-1 AND s.x + 1e-1",
    "s2.x >= s.x + 1e-1",
    "s.x < s2.x",
    "s.x > s2.x AND s2.b - s.b BETWEEN 0 AND 2",
    "s2.x = s.x",
)


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("seed", range(4))
def test_bands_of_infinities_and_nans(seed: int, shards: int | None) -> None:
    rng = Random(seed)
    scenario = session(rng, {"s"}, set(), 24)
    actions = tuple(
        replace(a, rows=tuple((k, b, rng.choice(_SPECIAL), ts) for k, b, _, ts in a.rows))
        if isinstance(a, Push)
        else a
        for a in scenario.actions
    )
    sqls = [
        f"SELECT s.k, s.b, s2.b AS c FROM s [{_window(rng)}], s [{_window(rng)}] s2 WHERE {band}"
        for band in _FLOAT_BANDS
    ]
    check(sqls, replace(scenario, actions=actions), shards=shards)
