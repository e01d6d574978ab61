"""Parts of dates and times, on the proleptic Gregorian calendar, without time zones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.arrays import I64
from penstock.errors import TypeError_
from penstock.expressions.arithmetic import DAY_US, coerce
from penstock.expressions.vec import Vec, strict
from penstock.types import TIMESTAMP, Kind, SqlType

Function = Callable[[SqlType, list[Vec]], Vec]
_UNITS_US = {
    "microsecond": 1, "millisecond": 1000, "second": 1_000_000, "minute": 60_000_000,
    "hour": 3_600_000_000, "day": DAY_US,
}  # fmt: skip
_UNITS_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _days(vec: Vec) -> I64:
    return vec.ints if vec.type.kind is Kind.DATE else vec.ints // DAY_US


def _months(days: I64) -> I64:
    """Months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_day(months: I64) -> I64:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def year(type_: SqlType, args: list[Vec]) -> Vec:
    """The year."""
    return strict(type_, args, _months(_days(args[0])) // 12 + 1970)


def month(type_: SqlType, args: list[Vec]) -> Vec:
    """The month, 1 to 12."""
    return strict(type_, args, _months(_days(args[0])) % 12 + 1)


def day(type_: SqlType, args: list[Vec]) -> Vec:
    """The day of the month."""
    days = _days(args[0])
    return strict(type_, args, days - _first_day(_months(days)) + 1)


def dayofweek(type_: SqlType, args: list[Vec]) -> Vec:
    """0 for Sunday to 6 for Saturday."""
    return strict(type_, args, (_days(args[0]) + 4) % 7)


def _clock(unit_us: int, modulus: int) -> Function:
    def apply(type_: SqlType, args: list[Vec]) -> Vec:
        if args[0].type.kind is Kind.DATE:
            return strict(type_, args, np.zeros(args[0].length, np.int64))
        return strict(type_, args, args[0].ints // unit_us % modulus)

    return apply


def epoch(type_: SqlType, args: list[Vec]) -> Vec:
    """Seconds since 1970."""
    us = coerce(args[0], TIMESTAMP)
    if type_.is_float:
        return strict(type_, [us], us.ints / 1e6)
    return strict(type_, [us], us.ints // 1_000_000)


def date_trunc(type_: SqlType, args: list[Vec]) -> Vec:
    """The beginning of the unit a time lies in; weeks begin on Monday."""
    unit, value = args[0].arrow[0].as_py().lower(), args[1]
    if unit in _UNITS_MONTHS:
        step = _UNITS_MONTHS[unit]
        days = _first_day(_months(_days(value)) // step * step)
    elif unit == "week":
        days = (_days(value) + 3) // 7 * 7 - 3
    elif unit in _UNITS_US:
        us = coerce(value, TIMESTAMP)
        values = us.ints // _UNITS_US[unit] * _UNITS_US[unit]
        return strict(type_, [us], values // DAY_US if type_.kind is Kind.DATE else values)
    else:
        raise TypeError_(f"date_trunc has no unit '{unit}'", code="PS-TYPE-016")
    return strict(type_, [value], days if type_.kind is Kind.DATE else days * DAY_US)


TEMPORAL: dict[str, Function] = {
    "year": year,
    "month": month,
    "day": day,
    "dayofweek": dayofweek,
    "hour": _clock(3_600_000_000, 24),
    "minute": _clock(60_000_000, 60),
    "second": _clock(1_000_000, 60),
    "epoch": epoch,
    "date_trunc": date_trunc,
}
