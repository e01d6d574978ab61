"""The index over pairs beside a test of every pair and query, while queries come and go."""

from __future__ import annotations

import operator
from random import Random

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.expressions.context import Context, Failures
from penstock.indexes.pairs import pair_index, part, router
from penstock.indexes.pairs.pair_index import PairIndex, PairQueries
from penstock.indexes.pairs.router import PAIR_STRATEGIES, PairStrategy, Policy
from penstock.indexes.pairs.rows import Prefixes, ProbingRows, Takers
from penstock.indexes.pairs.shape import PairBand, PairRange, PairShape
from penstock.indexes.pairs.sides import PairSide
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Partner
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.logical.lifetime import Lifetime
from penstock.optimizer.query_band import difference_value
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN

K, B, C = 0, 1, 2
"""Columns of both streams: the key, the band's and the ranges'."""
LOW, HIGH, LEFT, RIGHT, LENGTH = range(5)
"""Parameters of queries."""
NULL_BAND = 1 << B


def _compare(fn: str, value: Expr, param: int) -> Expr:
    return Call(BOOLEAN, fn, (value, Param(BIGINT, param)))


GAP = difference_value(False)
BAND = PairBand((B, B), 1, GAP, (_compare("ge", GAP, LOW), _compare("le", GAP, HIGH)))
FUNCTIONS = {"gt": operator.gt, "le": operator.le, "ge": operator.ge}


def _range(side: int, column: int, fn: str, param: int) -> PairRange:
    value = Column(BIGINT, column)
    return PairRange(side, column, value, (_compare(fn, value, param),))


def asked_by(asked: PairRange) -> tuple[str, int]:
    """The comparison of a range, and its parameter."""
    (condition,) = asked.conditions
    assert isinstance(condition, Call)
    bound = condition.args[1]
    assert isinstance(bound, Param)
    return condition.fn, bound.index


RANGES = _range(0, C, "gt", LEFT), _range(1, C, "le", RIGHT)
MORE = (
    _range(0, B, "le", HIGH), _range(0, C, "gt", LEFT),
    _range(1, B, "ge", LOW), _range(1, C, "le", RIGHT), _range(1, K, "le", HIGH),
)  # fmt: skip
SHAPE = PairShape(((K, K),), BAND, RANGES, None, None)
SHAPES = {
    "key, band and ranges": SHAPE,
    "band": PairShape((), BAND, (), None, None),
    "turned band": PairShape((), PairBand((B, B), 0, GAP, BAND.conditions), (), None, None),
    "key and ranges": PairShape(((K, K),), None, RANGES, None, None),
    "key and a range": PairShape(((K, K),), None, RANGES[:1], None, None),
    "key and several ranges": PairShape(((K, K),), None, MORE, None, None),
    "several ranges": PairShape((), None, MORE[:-1], None, None),
    "two keys and a range": PairShape(((K, K), (B, B)), None, RANGES[1:], None, None),
}
Pair = tuple[int, int, int]
"""A probing row, a position, a query."""


class World:
    """Rows of two streams, a table of queries, and an index over it."""

    def __init__(self, rng: Random, shape: PairShape, policy: Policy | None = None) -> None:
        self.rng, self.shape = rng, shape
        self.arena = Arena()
        self.table = QueryTable(self.arena.scope("Q"), 5)
        lives = Lifetime(Param(BIGINT, LENGTH)), Lifetime(6)
        self.ctx = Context(StringTable(self.arena.scope("strings")), {}, Failures())
        wanted = PairQueries(self.table, shape, lives, policy or Policy())
        self.index = PairIndex(wanted, self.ctx)
        self.rows = [self._rows(8), self._rows(16)]
        self.live: list[int] = []
        self.newest = 2  # the last epoch from which a query sees rows

    def _rows(self, n: int) -> I64:
        """Stored rows: the NULL word, then three columns."""
        rng = self.rng
        values = [[0, rng.randint(0, 2), rng.randint(-4, 4), rng.randint(-3, 3)] for _ in range(n)]
        for row in values:
            row[0] = rng.choice((0, 0, 0, 0, 1 << rng.randint(K, C)))
        return np.array(values, np.int64)

    # ---- queries ---------------------------------------------------------------------
    def add(self, n: int) -> I64:
        """Register queries; some have a NULL among their parameters."""
        rng = self.rng
        rows = []
        for _ in range(n):
            low = rng.randint(-5, 4)
            bounds = [low, low + rng.randint(-1, 4), rng.randint(-4, 2), rng.randint(-3, 4)]
            nulls = rng.choice((0,) * 9 + (1 << rng.randint(LOW, RIGHT),))
            rows.append([nulls, *bounds, rng.randint(1, 7)])
        qids = self.table.add(np.array(rows, np.int64).T, self.rng.randint(0, self.newest))
        self.live = sorted({*self.live, *qids.tolist()})
        return qids

    def drop(self, qids: list[int]) -> None:
        """Forget queries; their numbers are free."""
        self.table.drop(np.array(qids, np.int64))
        self.live = [q for q in self.live if q not in qids]

    # ---- answers ---------------------------------------------------------------------
    def batch(self, side: int) -> ProbingRows:
        """The rows of a side, and those of the other in order of key and value."""
        words, partners = self.rows[side], self.rows[1 - side]
        base, n = 100, words.shape[0]
        column = self.index.value_column(1 - side)
        key = tuple(columns[1 - side] for columns in self.shape.key)
        nulls = 1 << column | sum(1 << c for c in key)
        there = np.flatnonzero(partners[:, 0] & nulls == 0)
        found = ProbingRows(
            1 - side,
            partners[there],
            there,
            there,
            0,
            there,
            *[None] * 2,  # type: ignore[arg-type]
        )
        keys = found.keys(key)
        values = partners[there, 1 + column]
        order = np.lexsort((values, keys) if keys.shape[0] else (values,))
        entries = Entries(
            keys[order] if keys.shape[0] else keys, np.ascontiguousarray(values[order]),
            base + there[order], np.array([0, there.shape[0]]),
        )  # fmt: skip
        return ProbingRows(
            side, words, np.arange(n) // 4 + 8, np.arange(n) % 3, base + 2,
            np.full(n, base + partners.shape[0] - 1), entries,
            Partner(partners, self.ts(1 - side), np.arange(partners.shape[0]) % 3, base),
        )  # fmt: skip

    def ts(self, side: int) -> I64:
        return np.arange(self.rows[side].shape[0]) // 3

    def found(self, side: int, index: PairIndex | None = None) -> list[Pair]:
        """The answer of the index, in the order in which it is given."""
        takers = (index or self.index).match(self.batch(side))
        pairs = [
            (int(row), int(position) - 100, int(qid))
            for row, position, qid in zip(takers.rows, takers.positions, takers.qids, strict=True)
        ]  # windows of one length are for the caller to look at
        return [pair for pair in pairs if self._is_living(side, *pair)]

    def expected(self, side: int) -> list[Pair]:
        """Every pair and query that holds."""
        rows, partners = range(len(self.rows[side])), range(2, len(self.rows[1 - side]) - 1)
        return [
            (row, at, qid)
            for row in rows for at in partners for qid in self.live
            if self._holds(side, row, at, qid)
        ]  # fmt: skip

    def _is_living(self, side: int, row: int, at: int, qid: int) -> bool:
        length = 6 if side == 0 else int(self.table.matrix()[qid, 1 + LENGTH])
        return bool(row // 4 + 8 - self.ts(1 - side)[at] < length)

    def _holds(self, side: int, row: int, at: int, qid: int) -> bool:
        nulls, low, high, left, right, _ = self.table.matrix()[qid].tolist()
        pair = [self.rows[side][row].tolist(), self.rows[1 - side][at].tolist()][:: 1 - 2 * side]
        since = int(self.table.since(Lineage.QUERY)[qid])
        if min(row % 3, at % 3) < since or not self._is_living(side, row, at, qid):
            return False
        if any(
            one[0] >> c & 1
            for columns in self.shape.key
            for one, c in zip(pair, columns, strict=True)
        ):
            return False
        if any(pair[0][1 + a] != pair[1][1 + b] for a, b in self.shape.key):
            return False
        asked = []
        if (band := self.shape.band) is not None:
            gap = pair[band.minuend][1 + B] - pair[1 - band.minuend][1 + B]
            missing = (pair[0][0] | pair[1][0]) & NULL_BAND or nulls & (1 << LOW | 1 << HIGH)
            asked.append(not missing and low <= gap <= high)
        for r in self.shape.ranges:
            fn, param = asked_by(r)
            missing = pair[r.side][0] >> r.column & 1 or nulls >> param & 1
            bound = (low, high, left, right)[param]
            asked.append(not missing and FUNCTIONS[fn](pair[r.side][1 + r.column], bound))
        return all(asked)


# ---- codes ---------------------------------------------------------------------------
def triples(takers: Takers) -> list[Pair]:
    columns = (takers.rows, takers.positions, takers.qids)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def told_by(found: Prefixes) -> list[Pair]:
    """The queries that prefixes stand for, one by one."""
    told, ranked = list[Pair](), found.of.ranked
    for at in range(len(found)):
        there = slice(*ranked.members.offsets[found.lists[at] :][:2])
        members = ranked.members.items[there][ranked.ranks[there] < found.lengths[at]].tolist()
        assert members, "a code without a query"
        told += [(int(found.rows[at]), int(found.positions[at]), qid) for qid in members]
    return told


@pytest.mark.parametrize("strategy", ["hotspot", "ssi", "auto"])
@pytest.mark.parametrize("shape", ["band", "turned band"])
def test_coded_queries_are_those_that_are_listed(
    shape: str, strategy: PairStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "FEW", 2)
    monkeypatch.setattr(part, "pays", lambda queries, pairs: True)
    world, codes = World(Random(5), SHAPES[shape], Policy(strategy)), 0
    world.newest = 0
    for turn in range(12):
        world.add((40, 5, 1)[turn % 3])
        world.drop(world.rng.sample(world.live, turn))  # some of a part, or all
        world.index.follow()
        for side in (0, 1):
            batch = world.batch(side)
            takers, coded = world.index.match_coded(batch)
            told = [triple for some in coded for triple in told_by(some)]
            codes += sum(map(len, coded))
            assert sorted(triples(takers) + told) == triples(world.index.match(batch))
            for some in coded:
                order = list(zip(some.rows.tolist(), some.positions.tolist(), strict=True))
                assert order == sorted(order)
    assert codes > 200 or strategy == "auto"


def test_codes_are_left_where_pairs_have_few_queries() -> None:
    world = World(Random(6), SHAPES["band"], Policy("ssi"))
    world.newest = 0
    world.add(4)
    world.index.follow()
    assert world.index.match_coded(world.batch(0))[1]
    takers, coded = world.index.match_coded(world.batch(0))
    assert not coded
    assert triples(takers) == triples(world.index.match(world.batch(0)))
    world.drop(world.live)
    world.add(400)
    world.index.follow()
    for _ in range(3):
        assert world.index.match_coded(world.batch(0))[1]


@pytest.mark.parametrize("strategy", PAIR_STRATEGIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_queries_come_and_go(
    shape: str, strategy: PairStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "FEW", 2)
    rng = Random(len(shape))
    world = World(rng, SHAPES[shape], Policy(strategy))
    used_again, pairs = 0, 0
    for _ in range(8):
        if world.live and rng.random() < 0.7:
            world.drop(rng.sample(world.live, rng.randint(1, len(world.live))))
        before = int(world.table.born().shape[0])
        new = world.add(rng.choice((1, 2, 4, 12)))
        used_again += int(np.count_nonzero(new < before))
        world.index.follow()
        for side in (0, 1):
            found, wanted = world.found(side), world.expected(side)
            if len(SHAPES[shape].key) < 2:
                assert found == wanted
            assert set(found) == set(wanted)  # several columns of a key may be equal by chance
            pairs += len(found)
    assert used_again > 0
    assert pairs > 20


def test_the_number_of_a_gone_query_is_used_again() -> None:
    rng = Random(7)
    world = World(rng, SHAPES["band"])
    world.add(40)
    world.index.follow()
    for _ in range(12):
        world.drop(rng.sample(world.live, 2))
        if rng.random() < 0.7:
            world.index.follow()
        assert set(world.add(1).tolist()) <= set(range(40))
        world.index.follow()
        for side in (0, 1):
            assert world.found(side) == world.expected(side)


def test_a_change_builds_what_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Random(1), SHAPE)
    built: list[int] = []
    made = PairIndex._made

    def counted(index: PairIndex, qids: I64) -> object:
        built.append(qids.shape[0])
        return made(index, qids)

    monkeypatch.setattr(PairIndex, "_made", counted)
    world.add(1000)
    world.index.follow()
    world.index.follow()
    assert built == [1000]  # nothing if nothing has changed
    for _ in range(64):
        world.add(1)
        world.index.follow()
    assert max(built[1:]) < 1000 / pair_index._GROWTH  # the large part stays
    assert sum(built[1:]) < 64 * 16
    built.clear()
    world.drop(world.live[:400])
    world.index.follow()
    assert max(built, default=0) < 1000 / pair_index._GROWTH  # they are marked
    world.drop(world.live[:200])
    world.index.follow()
    assert max(built) == 400  # most are gone
    assert world.found(0) == world.expected(0)


@pytest.mark.parametrize("shape", [name for name in SHAPES if "several" in name or "," in name])
def test_every_axis_gives_the_same(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "FEW", 2)
    world, rng, pairs = World(Random(len(shape)), SHAPES[shape]), Random(1), 0
    for _ in range(8):
        world.add(12)
        if len(world.live) > 12:
            world.drop(rng.sample(world.live, 4))
        world.index.follow()
        for side in (0, 1):
            ways = PairSide.ways(SHAPES[shape], side)
            assert len(ways) > 1
            for way in ways:
                world.index._axes[side].chosen = way
                world.index._turn(side)
                few = world.index.among(np.array(world.live[::2]))
                found = world.found(side)
                assert set(found) == set(world.expected(side))
                assert world.found(side, few) == [p for p in found if p[2] in world.live[::2]]
                pairs += len(found)
    assert pairs > 100


def test_a_large_part_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_index, "_LARGE", 50)
    world = World(Random(5), SHAPE)
    for n in (60, 30, 30, 30, 30):
        world.add(n)
        world.index.follow()
    assert [part.qids.shape[0] for part in world.index._parts] == [60, 60, 60]
    for side in (0, 1):
        assert world.found(side) == world.expected(side)


def test_an_index_of_some_queries() -> None:
    pairs = 0
    for seed in range(4):
        world = World(Random(seed), SHAPES["band"])
        for _ in range(6):
            world.add(5)
        world.index.follow()
        some = world.live[::2]
        few = world.index.among(np.array(some[::-1], np.int64))
        for side in (0, 1):
            wanted = [pair for pair in world.expected(side) if pair[2] in some]
            assert world.found(side, few) == wanted
            pairs += len(wanted)
    assert pairs > 100


def test_no_queries_take_nothing() -> None:
    world = World(Random(3), SHAPE)
    world.index.follow()
    assert world.found(0) == []
    world.add(3)
    world.index.follow()
    world.drop(world.live)
    world.index.follow()
    assert world.found(0) == world.found(1) == []


# ---- exact or not --------------------------------------------------------------------
def _bounds(*params: tuple[int, int]) -> tuple[PairIndex, QueryTable]:
    """An index over a band of queries with these bounds, low plus one and high."""
    arena = Arena()
    table = QueryTable(arena.scope("Q"), 2)
    plus_one = Call(BIGINT, "add", (Param(BIGINT, LOW), Literal(BIGINT, 1)))
    asked = Call(BOOLEAN, "ge", (GAP, plus_one)), _compare("le", GAP, HIGH)
    shape = PairShape((), PairBand((B, B), 1, GAP, asked), (), None, None)
    ctx = Context(StringTable(arena.scope("strings")), {}, Failures())
    index = PairIndex(PairQueries(table, shape, (Lifetime(5), Lifetime(5))), ctx)
    table.add(np.array([[0, *bounds] for bounds in params], np.int64).T, 0)
    index.follow()
    return index, table


def test_bounds_that_cannot_be_computed_and_those_at_the_ends_are_not_exact() -> None:
    index, table = _bounds((0, 5), (MOST, 5), (0, MOST), (LEAST, 5), (0, LEAST), (7, 5))
    exact = [True, False, False, False, False, True]
    assert index.exact(np.arange(6)).tolist() == exact
    assert index.exact(np.array([2, 0, 0])).tolist() == [False, True, True]
    table.drop(np.array([2]))
    assert table.add(np.array([[0], [1], [2]]), 0).tolist() == [2]
    index.follow()
    assert index.exact(np.arange(4)).tolist() == [True, False, True, False]
