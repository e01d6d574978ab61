"""The choice of an axis: its estimates, when it is made again, and that it does not swing."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.arrays import I64
from penstock.indexes.pairs.axes import LOOK, AxisChoice, Estimate, Rows, estimate
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.shape import PairRange, PairShape
from penstock.kernels.pairs.data import Queries
from penstock.logical.expr import Column
from penstock.types import BIGINT

NONE: I64 = np.empty(0, np.int64)
KEY, OWN, LEFT, RIGHT = 0, 1, 1, 2
"""Columns: of both sides, of side 0, and two of side 1."""
DOMAIN = 10_000


def _range(side: int, column: int) -> PairRange:
    return PairRange(side, column, Column(BIGINT, column), ())


SHAPE = PairShape(
    ((KEY, KEY),), None, (_range(0, OWN), _range(1, LEFT), _range(1, RIGHT)), None, None
)


def boxes(n: int, left: int, right: int, seed: int = 0) -> Boxes:
    """Intervals that reach so far on the columns of side 1."""
    rng = np.random.default_rng(seed)
    lows = rng.integers(0, DOMAIN, (3, n))
    highs = lows + np.array([[500], [left], [right]])
    return Boxes(NONE, NONE, lows, highs, np.ones(n, np.bool_))


def rows(n: int, end: int | None = None, seed: int = 1) -> Rows:
    """Rows of both sides: the NULL word, the key, and two values."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, DOMAIN, (n, 4)) for _ in range(2)]
    for some in words:
        some[:, 0], some[:, 1] = 0, rng.integers(0, 10, n)
    return Rows((words[0], words[1]), (end or n, end or n))


def no_stem(side: int, column: int) -> bool:
    return False


def queries(low: I64, high: I64) -> Queries:
    none = np.empty((0, low.shape[0]), np.int64)
    return Queries(low, high, none, none, none, none, NONE, NONE, NONE, NONE)


def axis(choice: AxisChoice) -> int:
    return choice.chosen.value_column


# ---- estimates -----------------------------------------------------------------------
def test_clusters_and_partners_are_counted() -> None:
    gaps = np.arange(1_000)
    middle = np.repeat(np.array([100, 500, 900]), 100)
    found = estimate(queries(middle - 10, middle + 9), gaps)
    assert found == Estimate(3, 1.0, pytest.approx(0.02))
    apart = np.arange(300) * 30
    alone = estimate(queries(apart, apart + 1), gaps)
    assert (alone.groups, alone.coverage) == (0, 0.0)
    assert estimate(queries(apart + 5, apart), gaps) == Estimate(0, 0.0, 0.0)  # all are empty


def test_few_groups_and_few_partners_inside_make_an_axis_cheap() -> None:
    clustered, scattered = Estimate(10, 1.0, 0.01), Estimate(0, 0.0, 0.01)
    wide = Estimate(10, 1.0, 0.5)
    assert clustered.cost(1e5, 1e3, 100) < scattered.cost(1e5, 1e3, 100)
    assert clustered.cost(1e5, 1e3, 100) < wide.cost(1e5, 1e3, 100) / 5


# ---- the choice ----------------------------------------------------------------------
@pytest.mark.parametrize(("left", "right", "chosen"), [(20, 5_000, LEFT), (5_000, 20, RIGHT)])
def test_the_selective_axis_is_chosen(left: int, right: int, chosen: int) -> None:
    choice = AxisChoice(SHAPE, 0)
    some = rows(500)
    assert choice.is_due(some)
    choice.look(boxes(LOOK, left, right), 5_000, some, no_stem)
    assert axis(choice) == chosen
    assert choice.changes == 0


def test_a_side_without_a_choice_never_looks() -> None:
    choice = AxisChoice(SHAPE, 1)
    assert len(choice.ways) == 1
    assert not choice.is_due(rows(500))


def test_it_does_not_swing_between_axes_of_about_the_same_cost() -> None:
    choice = AxisChoice(SHAPE, 0)
    for seed in range(30):
        swing = 100 if seed % 2 else 80
        choice.look(boxes(LOOK, swing, 180 - swing, seed), 5_000, rows(500, seed=seed), no_stem)
    assert choice.changes == 0
    choice.look(boxes(LOOK, 5_000, 20), 5_000, rows(500), no_stem)
    choice.look(boxes(LOOK, 20, 5_000), 5_000, rows(500), no_stem)
    assert choice.changes >= 1
    assert axis(choice) == LEFT


def test_a_stem_that_is_there_counts_at_first() -> None:
    for there, chosen in ((RIGHT, RIGHT), (LEFT, LEFT)):
        choice = AxisChoice(SHAPE, 0)
        choice.look(
            boxes(LOOK, 90, 100), 5_000, rows(500), lambda side, column, at=there: column == at
        )
        assert axis(choice) == chosen


def test_it_is_made_again_when_queries_or_rows_have_changed_much() -> None:
    choice, few = AxisChoice(SHAPE, 0), rows(500)
    assert not choice.is_due(Rows((few.words[0], few.words[1][:0]), (500, 0)))
    choice.look(boxes(LOOK, 50, 60), 4_000, few, no_stem)
    assert not choice.is_due(few)
    choice.count(1_999)
    assert not choice.is_due(few)
    choice.count(1)
    assert choice.is_due(few)
    choice.look(boxes(LOOK, 50, 60), 4_000, few, no_stem)
    assert not choice.is_due(rows(500, end=2_499))
    assert choice.is_due(rows(500, end=2_500))


def test_an_index_of_some_queries_has_the_same_axis() -> None:
    choice = AxisChoice(SHAPE, 0)
    choice.look(boxes(LOOK, 5_000, 20), 5_000, rows(500), no_stem)
    assert axis(choice.fixed()) == axis(choice) == RIGHT
