"""Lengths of time as written: a number with a unit word, or a plain number of units.

A TIMESTAMP-timed stream measures in µs and needs the word; a BIGINT-timed one counts plain
units and must not have it (DESIGN §3, Time).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import Place, TypeError_

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
CALENDAR = frozenset({"MONTH", "MONTHS", "QUARTER", "QUARTERS", "YEAR", "YEARS"})
"""Unit words that have no fixed length."""
LONGEST = 1 << 61
"""The longest length of time. Event times have the same bound, so that sums fit 64 bits."""
UNITS = {word: n for unit, n in _MICROS.items() for word in (unit, unit + "S")}
"""µs of each unit word, in upper case."""


def written(micros: int) -> str:
    """A length of time as the dialect writes it: ``written(90_000_000) == "90 SECONDS"``."""
    unit, one = next((u, n) for u, n in reversed(_MICROS.items()) if micros % n == 0)
    amount = micros // one
    return f"{amount} {unit}{'' if amount == 1 else 'S'}"


_MOST_DIGITS = 40  # of any valid number


def whole(text: str) -> int | None:
    """A whole number as written; None if it is not one or is far too large."""
    digits = text.replace("_", "")
    return int(digits) if digits.isdigit() and len(digits) <= _MOST_DIGITS else None


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: `amount` of `unit` (None: plain units of a BIGINT time column).

    If the length is a parameter, ``$name``, each query gives its amount.
    """

    amount: int
    unit: str | None
    place: Place | None = None
    name: str | None = None

    @property
    def micros(self) -> int:
        """As µs; the unit must be there."""
        return self.amount * self.one

    @property
    def one(self) -> int:
        """The length of one unit, in µs or plain units."""
        return UNITS[self.unit] if self.unit else 1

    def resolve(self, unit_time: bool, what: str) -> int:
        """As a number of µs or, on a BIGINT-timed stream, plain units; else an error."""
        amount = f"${self.name}" if self.name else str(self.amount)
        if unit_time and self.unit:
            raise TypeError_(
                f"{what} has a unit of time, but the stream's time is a BIGINT",
                code="PS-TYPE-007",
                place=self.place,
                remedy=f"write the plain number of units, for example {what} {amount}",
            )
        if not unit_time and not self.unit:
            raise TypeError_(
                f"{what} has no unit of time, but the stream's time is a TIMESTAMP",
                code="PS-TYPE-007",
                place=self.place,
                remedy=f"add a unit, for example {what} {amount} SECONDS",
            )
        length = self.amount if unit_time else self.micros
        if length > LONGEST:
            raise TypeError_(
                f"{what} is longer than the range of event time",
                code="PS-TYPE-011",
                place=self.place,
                remedy="write [UNBOUNDED]"
                if what in ("RANGE", "SLIDE")
                else f"give at most {LONGEST} units or microseconds",
            )
        return length
