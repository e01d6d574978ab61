"""Schedules: turns in order, and the oldest input first."""

from __future__ import annotations

from penstock.pipeline.schedule import OldestFirst, RoundRobin
from penstock.pipeline.units import Unit


class Waiting(Unit):
    """A unit with something to do since a moment."""

    def __init__(self, number: int, since: int) -> None:
        super().__init__(number, f"unit {number}")
        self._since = since

    @property
    def since(self) -> int:
        return self._since


def test_round_robin_takes_turns_in_the_order_of_numbers() -> None:
    units = [Waiting(number, 0) for number in (-2, -1, 0, 3)]
    turns = RoundRobin()
    assert [turns.pick(units).number for _ in range(6)] == [-2, -1, 0, 3, -2, -1]
    assert turns.pick(units[:2]).number == -2
    assert turns.pick(units[2:]).number == 0


def test_oldest_first_prefers_the_unit_further_on_among_equals() -> None:
    units = [Waiting(0, 7), Waiting(1, 5), Waiting(2, 5), Waiting(3, 6)]
    assert OldestFirst().pick(units).number == 2
