"""Joins over shared SteMs beside joins that keep their rows, step by step and row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.eddy.flows import Flows
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError
from penstock.logical.expr import Literal
from penstock.logical.nodes import Band, Join, JoinKind, Now, Range, Rows, Scan, Unbounded
from penstock.physical.expiry_policy import decide
from penstock.physical.join import JoinOp
from penstock.physical.join_specs import JoinSpec, WindowJoinSpec
from penstock.physical.joined_windows import joined_windows
from penstock.physical.scan import ScanOp
from penstock.physical.specs import ScanSpec
from penstock.physical.window_join import WindowJoinOp
from penstock.queries.query_table import QueryTable
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.state.strings import StringTable
from penstock.stems.window_join import Stride
from penstock.types import BIGINT, BOOLEAN, DOUBLE

SCHEMA = Schema((Field("k", BIGINT), Field("x", DOUBLE), Field("a", BIGINT), Field("ts", BIGINT)))
FLOATS = np.array([0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 2.0, 0.1, 0.30000000000000004, 1e300])
WINDOWS = (Range(3), Range(9), Range(40), Now(), Unbounded(True), Range(6, slide=4), Range(3, 3))
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
INT_BAND, FLOAT_BAND = Band(2, 2, -1, 2), Band(1, 1, -1.0, 1.5)
BANDS = (
    INT_BAND, Band(2, 0, 1, None), Band(2, 2, None, 0), Band(0, 2, 3, 3), Band(2, 2, 2, 1),
    Band(2, 2, LEAST, MOST), FLOAT_BAND, Band(1, 1, None, -0.1), Band(1, 1, 0.1, 0.2),
    Band(1, 1, 0.0, None), Band(1, 1, -np.inf, 0.0), Band(1, 1, np.inf, None),
)  # fmt: skip


class Residual:
    """Third columns differ; it has no value where the left one is 3."""

    expr = "third columns differ"

    def mask(self, rows: Any, params: Any = None, hidden: Any = None) -> Any:
        if (rows[3] == 3).any():
            raise EvaluationError(rows[3] == 3, "three")
        return rows[3] != rows[-1]


def _sorted(delta: Delta) -> Delta:
    """Changes of one kind and instant in the order of their values."""
    kinds = np.cumsum(np.diff(np.stack([delta.ts, delta.sign]), prepend=0).any(axis=0))
    return delta.take(np.lexsort((delta.lin, delta.exp, *delta.rows, kinds)))


@dataclass
class Both:
    """A join over SteMs and its twin, which reads the same logs."""

    shared: WindowJoinOp
    twin: JoinOp
    queries: QueryTable
    at_commit: bool
    clock: int = BEGINNING
    has_run: bool = False

    def step(self, now: int) -> int:
        before = self.clock if self.has_run else now
        clock = Clock(before, now, self.at_commit)
        self.clock, self.has_run = now, True
        found = self.shared.step([], clock)
        expected = self.twin.step([scan.step([], clock) for scan in self.twin.inputs], clock)
        self.same(found, expected)
        self.look()
        return len(found)

    def look(self) -> None:
        if self.has_run:
            clock = Clock(self.clock, self.clock)
            self.same(self.shared.contents(clock), self.twin.contents(clock))

    def failing(self, ctx: Context) -> set[int]:
        """The queries that see a row on which the residual failed."""
        since, live = self.queries.since(Lineage.EPOCH), self.queries.live(Lineage.QUERY)
        epochs = [lin for _, lin, _ in ctx.failures.drain()]
        return {int(qid) for lin in epochs for qid in live[since[live] <= lin]}

    def same(self, found: Delta, expected: Delta) -> None:
        if self.twin._keys.bucketed:  # it tells partners by bucket, not by age
            found, expected = _sorted(found), _sorted(expected)
        for name in ("rows", "ts", "exp", "sign"):
            assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
        since = self.queries.since(Lineage.EPOCH)
        for qid in self.queries.live(Lineage.QUERY):
            seen = (found.lin >= since[qid]).tolist(), (expected.lin >= since[qid]).tolist()
            assert seen[0] == seen[1]


@dataclass
class World:
    """Two streams, the joins over them, and their clocks."""

    rng: np.random.Generator
    keys: int
    arena: Arena = field(default_factory=Arena)
    joins: list[Both] = field(default_factory=list)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.ctx = Context(StringTable(self.arena.scope("strings")), {}, Failures())
        self.twins = Context(self.ctx.strings, {}, Failures())
        self.flows = Flows(self.arena, self.ctx)
        self.logs = {n: SourceLog(self.arena.scope(f"streams/{n}"), SCHEMA, 0) for n in "rs"}

    def push(self, name: str, n: int) -> None:
        """Some rows from the watermark on, ties and disorder among them, NULLs in every column."""
        rng, log = self.rng, self.logs[name]
        low = max(log.watermark, 0)
        ts = low + rng.integers(0, 6, n)
        rows = np.zeros((5, n), np.int64)
        rows[1], rows[3], rows[4] = rng.integers(0, self.keys, n), rng.integers(0, 5, n), ts
        rows[2] = rng.choice(FLOATS, n).view(np.int64)
        for c in range(3):
            null = rng.random(n) < (0.1 if self.epoch % 3 else 0)
            rows[0] |= null.astype(np.int64) << c
            rows[1 + c, null] = 0
        self.epoch += 1
        log.add(rows, ts, self.epoch)
        log.advance(low + int(rng.integers(0, 5)))

    def add(self) -> None:
        """A join of any kind, for queries without and perhaps with history."""
        rng = self.rng
        if not self.joins or rng.random() < 0.6:  # else it shares the pairs of the one before
            names = [str(n) for n in rng.choice(list("rs"), 2)]
            self.scans = [self._scan(name) for name in names]
            self.equi = [((0, 0),), ((2, 2), (0, 0)), ((0, 2),), (), ()][rng.integers(5)]
            self.band = [None, None, INT_BAND, FLOAT_BAND][rng.integers(4)]
            if not self.equi and rng.random() < 0.9:
                self.band = BANDS[rng.integers(len(BANDS))]
        scans, equi, band = self.scans, self.equi, self.band
        residual = Residual() if rng.random() < 0.2 else None
        columns = tuple(rng.permutation(6)[: rng.integers(1, 7)].tolist())
        columns = columns if residual is None and rng.random() < 0.7 else None
        explicit, at_commit = bool(rng.random() < 0.7), bool(rng.random() < 0.3)
        self.join(scans, equi, band, residual, columns, explicit, at_commit)

    def join(
        self, scans: list[Scan], equi: Any, band: Band | None, residual: Any, columns: Any,
        explicit: bool, at_commit: bool,
    ) -> None:  # fmt: skip
        """A join and its twin."""
        node = Join(*scans, JoinKind.INNER, equi, band)
        scope = self.arena.scope(f"join-{len(self.joins)}")
        queries = QueryTable(scope.scope("Q"), 0)
        self._query(queries)
        windows = joined_windows(node)
        assert windows is not None
        logs = [self.logs[w.stream] for w in windows]
        asked = None if residual is None else Literal(BOOLEAN, True)  # a mock stands for it
        wish = "explicit" if explicit else "expiring"
        spec = decide(WindowJoinSpec.of(node, windows, asked, columns), wish)
        place = scope.scope("shared")
        shared = WindowJoinOp(spec, place, self.ctx, residual, logs, queries, self.flows)
        left, right = (
            ScanOp(ScanSpec.of(scan, at_commit), scope.scope(f"scan-{i}"), log)
            for i, (scan, log) in enumerate(zip(scans, logs, strict=True))
        )
        sides = left.spec, right.spec
        twin_spec = JoinSpec.of(*sides, equi, band, asked, (False, False), columns)
        spec = decide(twin_spec, wish)
        since = partial(queries.since, Lineage.EPOCH)
        twin = JoinOp(spec, left, right, scope.scope("twin"), self.twins, residual, since)
        self.joins.append(Both(shared, twin, queries, at_commit))

    def _scan(self, name: str) -> Scan:
        return Scan(name, SCHEMA, WINDOWS[self.rng.integers(len(WINDOWS))], (0, 1, 2))

    def _query(self, queries: QueryTable) -> None:
        since = 0 if self.rng.random() < 0.4 else self.epoch + 1
        queries.add(np.zeros((1, 1), np.int64), since)

    def step(self) -> int:
        """All joins move to the clock, some lag behind; then logs are trimmed."""
        self.flows.begin()
        found = 0
        for both in self.joins:
            if self.rng.random() < 0.2:
                continue
            if self.rng.random() < 0.1:
                self._query(both.queries)
            now = min(log.watermark for log in both.shared._logs)
            found += both.step(max(now, both.clock))
            assert both.failing(self.ctx) == both.failing(self.twins)
        for name, log in self.logs.items():
            needed = [both.shared.needs(both.clock).get(name, NEVER) for both in self.joins]
            read = [
                max(0, scan.position())
                for both in self.joins
                for scan in both.twin.inputs
                if isinstance(scan, ScanOp) and scan.node.stream == name
            ]
            log.trim(min([*needed, *read, NEVER]))
        for both in self.joins:
            both.look()
            assert both.failing(self.ctx) == both.failing(self.twins)
        return found


@pytest.mark.parametrize("seed", range(12))
def test_a_join_over_stems_gives_what_one_that_keeps_its_rows_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng, keys=(2, 6, 40)[seed % 3])
    found = 0
    for at in range(40):
        if at % 5 == 0:
            world.add()
        for name in "rs":
            world.push(name, int(rng.choice((0, 1, 5, 30))))
        found += world.step()
        if at == 25:
            world.arena.restore(world.arena.snapshot())
    assert found > 500
    for both in world.joins:
        both.shared.close()
    assert len(world.flows.stems) == 0
    assert not list(world.flows.joins)


@pytest.mark.parametrize("seed", range(4))
def test_steps_of_many_rows_for_few_keys(seed: int) -> None:
    world, found = World(np.random.default_rng(seed), keys=3), 0
    for _ in range(6):
        world.add()
    for n in (400, 300, 0, 300):
        world.push("r", n)
        world.push("s", n)
        found += world.step()
    assert found > 10_000


@pytest.mark.parametrize("band", [Band(2, 2, -3, 2), Band(2, 2, 0, None), Band(2, 2, 5, 900)])
@pytest.mark.parametrize("lengths", [(7, 30), (400, 90), (NEVER, 5)])
def test_bands_of_few_and_of_many_rows_in_long_steps(band: Band, lengths: tuple[int, int]) -> None:
    """Batches that are longer than a window, and windows of which a band takes most."""
    world = World(np.random.default_rng(7), keys=3)
    for explicit in (True, False):
        windows = [Unbounded(True) if n == NEVER else Range(n) for n in lengths]
        scans = [Scan(name, SCHEMA, w, (0, 1, 2)) for name, w in zip("rs", windows, strict=True)]
        world.join(scans, (), band, None, None, explicit, False)
    found = 0
    for _ in range(5):
        for name, log in world.logs.items():
            n, low = 500, max(log.watermark, 0)
            rows = np.zeros((5, n), np.int64)
            rows[3], rows[4] = world.rng.integers(-1000, 1000, n), low + np.arange(n) // 2
            log.add(rows, rows[4], 1)
            log.advance(low + 240 if name == "r" else low + 200)
        found += world.step()
    assert found > 1000


def test_pairs_are_found_once_for_templates_that_ask_for_the_same() -> None:
    world = World(np.random.default_rng(2), keys=4)
    scans = [Scan(name, SCHEMA, Range(9), (0, 1, 2)) for name in "rs"]
    node = Join(*scans, JoinKind.INNER, ((0, 0),))
    windows = joined_windows(node)
    assert windows is not None
    logs = [world.logs[w.stream] for w in windows]
    first, second = (world.flows.joins.acquire(windows, None, logs) for _ in range(2))
    for name in "rs":
        world.push(name, 30)
    stride = Stride((0, 0), (30, 30), BEGINNING, 9, BEGINNING, True)
    found = first.in_step(stride)
    assert len(found.ts) > 30
    assert second.in_step(stride) is found
    world.flows.begin()
    again = second.in_step(stride)
    assert again is not found
    assert [array.tolist() for array in again] == [array.tolist() for array in found]
    assert [world.flows.stems.readers(stem) for stem in world.flows.stems] == [1, 1]


def test_windows_that_are_no_span_of_the_log_stay_with_their_join() -> None:
    scans = [Scan("r", SCHEMA, Range(9), (0, 1)), Scan("s", SCHEMA, Rows(3), (0, 1))]
    assert joined_windows(Join(*scans, JoinKind.INNER, ((0, 0),))) is None


def test_a_key_is_named_in_the_same_order_however_it_is_written() -> None:
    r, s = (Scan(name, SCHEMA, Range(9), (0, 2)) for name in "rs")
    one = joined_windows(Join(r, s, JoinKind.INNER, ((0, 1), (1, 0))))
    other = joined_windows(Join(s, r, JoinKind.INNER, ((0, 1), (1, 0))))
    assert one is not None
    assert other is not None
    assert one == other[::-1]
