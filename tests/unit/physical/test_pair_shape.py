"""What the queries of a block ask of pairs: a key, a band, ranges, and the rest that is checked."""

from __future__ import annotations

import pytest
from tests.unit.sql.sql_world import bound

import penstock
from penstock.eddy import index_policy
from penstock.indexes.pairs.shape import PairShape
from penstock.logical.nodes import walk
from penstock.optimizer.flow_block import find_block
from penstock.optimizer.optimizer import optimize
from penstock.optimizer.stats import Stats
from penstock.physical.pair_shape import pair_shape

K, A, B, P, D, NAME = range(6)
"""Columns of r and of s."""


def shape_of(where: str) -> PairShape | None:
    node = optimize(bound(f"SELECT x.* FROM r [NOW] x, s [NOW] y WHERE {where}").node, Stats())
    blocks = (find_block(n, frozenset({"r", "s"})) for n in walk(node))
    block = next((b for b in blocks if b is not None), None)
    return None if block is None else pair_shape(block)


def found(where: str) -> PairShape:
    shape = shape_of(where)
    assert shape is not None
    return shape


def test_a_key_a_band_and_ranges() -> None:
    shape = found(
        "x.k = y.k AND y.b - x.b BETWEEN $p AND $q AND x.a > $u AND x.a < $v AND y.p < $w"
    )
    assert shape.key == ((K, K),)
    assert shape.band is not None
    assert (shape.band.columns, shape.band.minuend, shape.band.is_float) == ((B, B), 1, False)
    assert len(shape.band.conditions) == 2
    assert [(r.side, r.column, len(r.conditions), r.is_float) for r in shape.ranges] == [
        (0, A, 2, False), (1, P, 1, True),
    ]  # fmt: skip
    assert shape.rest is None
    assert [r.column for r in shape.of_side(1)] == [P]


def test_all_that_intervals_stand_for_can_be_checked_in_the_words_of_the_query() -> None:
    whole = found("y.b >= x.b + $p + 1 AND x.a > $u").whole
    assert whole is not None
    assert whole.columns == ((0, A), (0, B), (1, B))
    assert str(whole.condition) == "((b >= ((b + $p) + 1)) AND (a > $u))"


def test_columns_of_a_key_stay_together() -> None:
    assert found("x.k = y.k AND x.d = y.d AND x.a > $p").key == ((K, K), (D, D))


@pytest.mark.parametrize(
    "rest",
    [
        "x.a IN ($u, $v)",
        "y.b <> $u",
        "(x.a < $u OR x.a > $v)",
        "x.name LIKE 'a%'",
        "x.name > $u",
        "x.a IS NULL",
        "abs(x.a) < $u",
        "x.a + 1 > $u",
    ],
)
def test_what_is_no_range_is_checked(rest: str) -> None:
    shape = found(f"y.b - x.b <= $p AND {rest}")
    assert shape.ranges == ()
    assert shape.rest is not None


def test_a_text_that_is_equal_is_a_range() -> None:
    (asked,) = found("x.k = y.k AND x.name = $p").ranges
    assert (asked.side, asked.column) == (0, NAME)


@pytest.mark.parametrize("where", ["x.k = y.k AND x.a <> $p", "y.b - x.b <= 3", "x.k = y.k"])
def test_nothing_to_look_up(where: str) -> None:
    assert shape_of(where) is None


# ---- what the user sees --------------------------------------------------------------
@pytest.fixture
def ps() -> penstock.Session:
    session = penstock.connect(runner="inprocess")
    for name in "rs":
        session.sql(f"CREATE STREAM {name} (k INT, b BIGINT, ts BIGINT) TIMESTAMP BY ts")
    return session


JOIN = "SELECT x.k FROM r [RANGE 5] x, s [RANGE 5] y WHERE "


def test_explain_says_that_a_template_with_a_band_runs_by_itself(ps: penstock.Session) -> None:
    many = ps.query_many(f"{JOIN}y.b - x.b BETWEEN $p AND $p + 1", [{"p": p} for p in range(3)])
    assert "by itself: × 3 queries (index over pairs" in many[0].explain()
    ps.push("r", [{"k": 1, "b": 1, "ts": 1}])
    ps.push("s", [{"k": 1, "b": 2, "ts": 1}])
    assert [query.view().num_rows for query in many] == [1, 1, 0]
    assert "by itself: × 3 queries (index over pairs, 1 part" in many[0].explain()
    many[2].drop()
    assert "by itself: × 2 queries (index over pairs, 1 part" in many[0].explain()
    ps.close()


def test_ranges_alone_have_an_index_when_there_are_many(
    ps: penstock.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_policy, "MOST_IN_GROUPS", 3)
    text = f"{JOIN}x.k = y.k AND x.b > $p"
    few = ps.query_many(text, [{"p": p} for p in range(3)])
    assert "index over pairs" not in few[0].explain()
    more = ps.query_many(text, [{"p": 7}, {"p": -1}])
    assert "by itself: × 5 queries (index over pairs" in few[0].explain()
    ps.push("r", [{"k": 1, "b": 1, "ts": 1}])
    ps.push("s", [{"k": 1, "b": 2, "ts": 1}])
    assert [query.view().num_rows for query in (*few, *more)] == [1, 0, 0, 0, 1]
    more.drop()
    assert "index over pairs" not in few[0].explain()
    ps.push("s", [{"k": 1, "b": 2, "ts": 2}])
    ps.advance(ts=2)
    assert [query.view().num_rows for query in few] == [2, 0, 0]
    ps.advance(ts=7)
    assert few[0].view().num_rows == 0
    ps.close()
