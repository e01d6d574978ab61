"""Figures of a simulation against plain computations."""

from __future__ import annotations

import numpy as np

from penstock.pipeline.figures import Answers, Course, Delays


def test_percentiles_are_close_and_the_rest_is_exact() -> None:
    some = np.random.default_rng(3).lognormal(15, 2, 5000).astype(np.int64)
    delays = Delays()
    for part in np.array_split(some, 7):
        delays.add(part)
    assert (delays.count, delays.total, delays.most) == (5000, some.sum(), some.max())
    assert delays.average == some.sum() / 5000
    for percent in (1, 50, 95, 99, 100):
        exact = np.percentile(some, percent, method="inverted_cdf")
        assert exact <= delays.percentile(percent) * 1.000001 <= exact * 1.023


def test_no_delays_have_no_average() -> None:
    delays = Delays()
    delays.add(np.empty(0, np.int64))
    assert (delays.average, delays.percentile(99)) == (0.0, 0.0)


def test_delays_of_nothing_count() -> None:
    delays = Delays()
    delays.add(np.zeros(3, np.int64))
    assert (delays.count, delays.average, delays.percentile(50)) == (3, 0.0, 0.0)


def test_answers_add_up() -> None:
    answers = Answers()
    answers.add(np.array([4, 6]), np.array([1, 0]), 1)
    answers.add(np.array([5]), np.array([5]), 0)
    assert (answers.changes, answers.deletes, answers.waited) == (3, 1, 6)
    assert answers.delays.average == 5


def test_a_course_keeps_totals_by_slice() -> None:
    course = Course(10)
    course.add(5, np.array([3, 4]))
    course.add(9, np.array([9]))
    course.add(25, np.empty(0, np.int64))
    course.note_queued(31, 7)
    course.note_queued(39, 2)
    assert {
        place: (s.changes, s.total, s.most, s.queued) for place, s in course.slices.items()
    } == {
        0: (3, 16, 9, 0),
        3: (0, 0, 0, 7),
    }
