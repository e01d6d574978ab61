"""The DuckDB oracle against answers worked out by hand, and against itself."""

from __future__ import annotations

from collections import Counter

import pytest

from oracle.fold import bag
from oracle.oracle import Oracle
from oracle.translate import AT, bind, translate
from oracle.windows import point
from oracle.world import StreamDef, TableDef, World

R = StreamDef("r", (("k", "INT"), ("a", "INT"), ("ts", "BIGINT")))
S = StreamDef("s", (("k", "INT"), ("b", "INT"), ("ts", "BIGINT")), delay=2)
T = TableDef("t", (("k", "INT"), ("name", "STRING")))
N = TableDef("n", (("k", "INT"), ("w", "INT")), nonretroactive=True)


@pytest.fixture
def world() -> World:
    return World({"r": R, "s": S}, {"t": T, "n": N})


def at(oracle: Oracle, instant: int, step: int = 99) -> Counter[tuple[object, ...]]:
    """Both ways of evaluation must agree."""
    found = oracle.at(point(instant, step))
    assert found == oracle.answer(point(instant, step))
    return found


def test_translation_keeps_aliases_and_strings() -> None:
    text = translate("SELECT x.k FROM r [RANGE 5] x JOIN t ON t.k = x.k WHERE t.name = 'r [NOW]'",
                     {"r": R}, {"t": T}).text  # fmt: skip
    assert f"(SELECT k, a, ts FROM __w0 WHERE __s <= {AT} AND {AT} < __e) AS x" in text
    assert "AS t " in text
    assert "'r [NOW]'" in text


def test_a_column_called_like_a_stream_is_left_alone() -> None:
    assert translate("SELECT x.r FROM r [NOW] x", {"r": R}, {}).text.startswith("SELECT x.r FROM (")


def test_bind() -> None:
    assert bind("a BETWEEN $lo AND $hi", {"lo": 1, "hi": None}) == "a BETWEEN 1 AND NULL"


def test_count_over_a_sliding_window(world: World) -> None:
    world.push("r", [(1, 10, 0), (1, None, 3)])
    oracle = Oracle("SELECT k, count(*), sum(a) FROM r [RANGE 5] GROUP BY k", world)
    assert at(oracle, 2) == bag([(1, 1, 10)])
    assert at(oracle, 4) == bag([(1, 2, 10)])
    assert at(oracle, 5) == bag([(1, 1, None)])
    assert at(oracle, 8) == bag([])


def test_aggregate_without_groups_is_never_empty(world: World) -> None:
    oracle = Oracle("SELECT count(*), max(a) FROM r [RANGE 5]", world)
    assert at(oracle, 7) == bag([(0, None)])


def test_except_all_and_outer_join(world: World) -> None:
    world.push("r", [(1, 0, 1), (1, 0, 2)])
    world.push("s", [(1, 7, 2)])
    minus = Oracle("SELECT k FROM r [RANGE 9] EXCEPT ALL SELECT k FROM s [RANGE 3]", world)
    assert [at(minus, t).total() for t in (1, 2, 4, 5)] == [1, 1, 1, 2]
    outer = Oracle("SELECT x.k, y.b FROM r [NOW] x LEFT JOIN s [NOW] y ON x.k = y.k", world)
    assert [at(outer, t) for t in (1, 2)] == [bag([(1, None)]), bag([(1, 7)])]


def test_rows_pushed_before_registration_are_not_seen(world: World) -> None:
    world.push("r", [(1, 1, 1)])
    world.tick()
    world.push("r", [(2, 2, 1)])
    sql = "SELECT k FROM r [RANGE 5]"
    assert at(Oracle(sql, world, since=2), 1) == bag([(2,)])
    assert at(Oracle(sql, world, since=None), 1) == bag([(1,), (2,)])


def test_clock_watermark_and_lateness(world: World) -> None:
    world.push("s", [(1, 1, 10), (1, 1, 4)])
    assert world.clock(frozenset("s")) == 8
    world.push("s", [(1, 1, 7), (1, 1, 8)])
    assert [len(world.rows["s"]), len(world.late["s"])] == [3, 1]
    assert world.clock(frozenset("rs")) < 0
    world.advance(None, 20)
    assert world.clock(frozenset("rs")) == 20


def test_a_table_update_takes_effect_at_the_clock(world: World) -> None:
    world.insert("t", [(1, "old")])
    world.push("r", [(1, 0, 5)])
    world.update("t", 1, "new")
    oracle = Oracle("SELECT t.name FROM r [RANGE 9] x JOIN t ON x.k = t.k", world)
    assert at(oracle, 5, 2) == bag([("old",)])
    assert at(oracle, 5, 3) == bag([("new",)])
    world.delete("t", 1)
    assert at(Oracle(oracle.sql, world), 5) == bag([])


def test_an_nrr_update_touches_later_rows_only(world: World) -> None:
    world.insert("n", [(1, 100)])
    world.push("r", [(1, 0, 5)])
    world.update("n", 1, 200)
    world.push("r", [(1, 1, 5)])
    oracle = Oracle("SELECT x.a, n.w FROM r [RANGE 9] x JOIN n ON x.k = n.k", world)
    assert at(oracle, 6) == bag([(0, 100), (1, 200)])


def test_not_in_with_null(world: World) -> None:
    world.push("r", [(1, 1, 1), (None, 2, 1)])
    world.push("s", [(2, 0, 3), (None, 0, 4)])
    oracle = Oracle("SELECT a FROM r [RANGE 9] WHERE k NOT IN (SELECT k FROM s [RANGE 5])", world)
    assert at(oracle, 2) == bag([(1,), (2,)])
    assert at(oracle, 3) == bag([(1,)])
    assert at(oracle, 4) == bag([])


def test_views_are_inlined(world: World) -> None:
    world.push("r", [(1, 1, 1), (1, 2, 1)])
    views = {"v": "SELECT k, count(*) AS c FROM r [RANGE 3] GROUP BY k"}
    assert at(Oracle("SELECT c FROM v WHERE c > 1", world, views=views), 2) == bag([(2,)])
