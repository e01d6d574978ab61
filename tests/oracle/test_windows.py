"""The window oracle against hand-made timelines."""

from __future__ import annotations

import pytest

from oracle.windows import Row, Window, live, parse_window, point

COLUMNS = ("k", "ts")


def rows(*pairs: tuple[object, int]) -> list[Row]:
    return [Row((k, ts), ts, 1, i) for i, (k, ts) in enumerate(pairs)]


def held(window: str, data: list[Row], *instants: int) -> list[list[object]]:
    parsed = parse_window(window)
    return [[r.values[0] for r in live(data, parsed, COLUMNS, point(t, 9))] for t in instants]


def test_range_is_half_open() -> None:
    data = rows(("a", 2), ("b", 4))
    assert held("RANGE 5", data, 1, 2, 4, 6, 7, 8, 9) == [
        [], ["a"], ["a", "b"], ["a", "b"], ["b"], ["b"], [],
    ]  # fmt: skip


def test_slide_holds_what_lies_before_the_boundary() -> None:
    data = rows(("a", 2), ("b", 4), ("c", 5))
    # boundaries at 4, 8, 12: [−2, 4), [2, 8), [6, 12)
    assert held("RANGE 6 SLIDE 4", data, 3, 4, 7, 8, 11, 12) == [
        [], ["a"], ["a"], ["a", "b", "c"], ["a", "b", "c"], [],
    ]  # fmt: skip


def test_tumbling() -> None:
    data = rows(("a", 0), ("b", 4), ("c", 5))
    assert held("RANGE 5 SLIDE 5", data, 4, 5, 9, 10, 14, 15) == [
        [], ["a", "b"], ["a", "b"], ["c"], ["c"], [],
    ]  # fmt: skip


def test_slide_of_negative_times_rounds_down() -> None:
    assert held("RANGE 4 SLIDE 4", rows(("a", -3)), -3, 0, 3, 4) == [[], ["a"], ["a"], []]


def test_rows_in_timestamp_order_not_in_arrival_order() -> None:
    data = rows(("late", 3), ("first", 1), ("second", 2))
    assert held("ROWS 2", data, 1, 2, 3) == [["first"], ["first", "second"], ["second", "late"]]


def test_rows_of_one_instant_displace_each_other() -> None:
    data = [Row(("a", 1), 1, 1, 0), Row(("b", 1), 1, 2, 0)]
    window = Window("rows", 1)
    assert [r.values[0] for r in live(data, window, COLUMNS, point(1, 1))] == ["a"]
    assert [r.values[0] for r in live(data, window, COLUMNS, point(1, 2))] == ["b"]


def test_partitioned_rows_treat_nulls_as_one_partition() -> None:
    data = rows((None, 1), ("x", 2), (None, 3))
    window = Window("rows", 1, 0, ("k",))
    assert [r.ts for r in live(data, window, COLUMNS, point(9, 0))] == [2, 3]


def test_now_and_unbounded() -> None:
    data = rows(("a", 1), ("b", 2))
    assert held("NOW", data, 1, 2, 3) == [["a"], ["b"], []]
    assert held("UNBOUNDED", data, 1, 99) == [["a"], ["a", "b"]]


def test_unknown_window() -> None:
    with pytest.raises(ValueError, match="not a window"):
        parse_window("SOMETIMES")
