"""The functions an expression may call: names, argument kinds, result types.

The binder checks and casts arguments by this table, so the evaluator can rely on it: it never
sees another argument type. All functions
are pure and deterministic, so a replay gives the same changelog (DESIGN §3). Except where the
note says otherwise, a NULL argument gives NULL.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, SqlType


class Arg(enum.Enum):
    """The type that an argument position accepts; the binder casts to it."""

    ANY = "any value"
    SAME = "values of one common type"  # all SAME arguments of a call have equal types
    NUMBER = "a number"  # BIGINT, DOUBLE or DECIMAL
    REAL = "a number, taken as DOUBLE"
    INTEGER = "an integer"  # BIGINT
    STRING = "a string"
    LITERAL = "a string literal"
    BOOLEAN = "a condition"
    TIME = "a DATE or TIMESTAMP"


Result = Callable[[Sequence[SqlType]], SqlType]


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called: `args`, of which the last `optional` may be left out.

    With `variadic` the last argument may repeat. `operator` functions are written with SQL
    syntax (``a + b``, CASE, CAST) and cannot be called by name. `note` is documentation.
    """

    name: str
    args: tuple[Arg, ...]
    result: Result
    optional: int = 0
    variadic: bool = False
    operator: bool = False
    note: str = ""

    def accepts(self, count: int) -> bool:
        """Whether it can be called with `count` arguments."""
        least = len(self.args) - self.optional
        return count >= least and (self.variadic or count <= len(self.args))

    def arg(self, position: int) -> Arg:
        """The kind of the argument at `position`."""
        return self.args[min(position, len(self.args) - 1)]


def fixed(type_: SqlType) -> Result:
    """A result type that does not depend on the arguments."""
    return lambda types: type_


def nth(position: int) -> Result:
    """The type of the argument at `position`."""
    return lambda types: types[position]


def _operators() -> list[Signature]:
    number2 = (Arg.NUMBER, Arg.NUMBER)
    same2 = (Arg.SAME, Arg.SAME)
    comparisons = [
        Signature(n, same2, fixed(BOOLEAN), operator=True)
        for n in ("eq", "ne", "lt", "le", "gt", "ge")
    ]
    return [
        Signature("add", number2, nth(0), operator=True, note="TIMESTAMP + INTERVAL too"),
        Signature("sub", number2, nth(0), operator=True, note="TIMESTAMP - TIMESTAMP is BIGINT µs"),
        Signature("mul", number2, nth(0), operator=True, note="scales of decimals add up"),
        Signature("div", (Arg.REAL, Arg.REAL), fixed(DOUBLE), operator=True),
        Signature("neg", (Arg.NUMBER,), nth(0), operator=True),
        *comparisons,
        Signature("and", (Arg.BOOLEAN,) * 2, fixed(BOOLEAN), operator=True, note="three-valued"),
        Signature("or", (Arg.BOOLEAN,) * 2, fixed(BOOLEAN), operator=True, note="three-valued"),
        Signature("not", (Arg.BOOLEAN,), fixed(BOOLEAN), operator=True),
        Signature("is_null", (Arg.ANY,), fixed(BOOLEAN), operator=True, note="never NULL"),
        Signature("is_not_null", (Arg.ANY,), fixed(BOOLEAN), operator=True, note="never NULL"),
        Signature(
            "case", (Arg.BOOLEAN, Arg.SAME), nth(1), variadic=True, operator=True,
            note="condition 1, value 1, …, else: always an odd number of arguments",
        ),
        Signature("cast", (Arg.ANY,), nth(0), operator=True, note="to the type of the call"),
        Signature(
            "magnitude", (Arg.REAL,), fixed(BIGINT), operator=True,
            note="a number for 64 binary orders of magnitude; shards add up each apart",
        ),
        Signature("try_cast", (Arg.ANY,), nth(0), operator=True, note="NULL where cast fails"),
        *(
            Signature(
                n, (Arg.STRING, Arg.STRING), fixed(BOOLEAN), operator=True,
                note="the pattern reads no column",
            )
            for n in ("like", "ilike")
        ),
        Signature(
            "in", (Arg.SAME, Arg.SAME), fixed(BOOLEAN), variadic=True, operator=True,
            note="a value, then non-NULL literals of its type, or parameters",
        ),
    ]  # fmt: skip


def _numbers() -> list[Signature]:
    real, number = (Arg.REAL,), (Arg.NUMBER,)
    whole = "an integer stays as it is; DECIMAL becomes DOUBLE"
    return [
        Signature("mod", (Arg.NUMBER, Arg.NUMBER), nth(0), note="the sign is the dividend's"),
        Signature("abs", number, nth(0)),
        Signature("sign", number, nth(0), note="-1, 0 or 1; DECIMAL becomes DOUBLE"),
        Signature(
            "round", (Arg.NUMBER, Arg.INTEGER), nth(0), optional=1,
            note=f"half away from zero; digits must be a literal; {whole}",
        ),
        Signature("floor", number, nth(0), note=whole),
        Signature("ceil", number, nth(0), note=whole),
        Signature("sqrt", real, fixed(DOUBLE)),
        Signature("ln", real, fixed(DOUBLE)),
        Signature("exp", real, fixed(DOUBLE)),
        Signature("power", (Arg.REAL, Arg.REAL), fixed(DOUBLE)),
        Signature("greatest", (Arg.SAME,), nth(0), variadic=True, note="NULLs are skipped"),
        Signature("least", (Arg.SAME,), nth(0), variadic=True, note="NULLs are skipped"),
        Signature("coalesce", (Arg.SAME,), nth(0), variadic=True, note="first that is not NULL"),
        Signature("nullif", (Arg.SAME, Arg.SAME), nth(0), note="NULL when both are equal"),
        Signature("is_nan", real, fixed(BOOLEAN)),
    ]  # fmt: skip


def _strings() -> list[Signature]:
    one, two = (Arg.STRING,), (Arg.STRING, Arg.STRING)
    counted = (Arg.STRING, Arg.INTEGER)
    pad = (Arg.STRING, Arg.INTEGER, Arg.STRING)
    same = [Signature(n, one, fixed(STRING)) for n in ("lower", "upper", "reverse")]
    trims = [Signature(n, one, fixed(STRING), note="of spaces") for n in ("trim", "ltrim", "rtrim")]
    tests = [Signature(n, two, fixed(BOOLEAN)) for n in ("starts_with", "ends_with", "contains")]
    return [
        *same, *trims, *tests,
        Signature("length", one, fixed(BIGINT), note="in characters"),
        Signature(
            "substr", (Arg.STRING, Arg.INTEGER, Arg.INTEGER), fixed(STRING), optional=1,
            note="positions count from 1",
        ),
        Signature("concat", one, fixed(STRING), variadic=True, note="NULL when any part is NULL"),
        Signature("replace", (Arg.STRING,) * 3, fixed(STRING)),
        Signature("left", counted, fixed(STRING)),
        Signature("right", counted, fixed(STRING)),
        Signature("lpad", pad, fixed(STRING), optional=1, note="pads with spaces by default"),
        Signature("rpad", pad, fixed(STRING), optional=1, note="pads with spaces by default"),
        Signature("strpos", two, fixed(BIGINT), note="from 1; 0 when not found"),
    ]  # fmt: skip


def _times() -> list[Signature]:
    parts = [
        Signature(n, (Arg.TIME,), fixed(BIGINT))
        for n in ("year", "month", "day", "hour", "minute", "second")
    ]
    return [
        *parts,
        Signature("dayofweek", (Arg.TIME,), fixed(BIGINT), note="0 is Sunday, 6 is Saturday"),
        Signature("epoch", (Arg.TIME,), fixed(DOUBLE), note="seconds since 1970-01-01"),
        Signature(
            "date_trunc", (Arg.LITERAL, Arg.TIME), fixed(TIMESTAMP),
            note=f"units: {', '.join(TRUNC_UNITS)}; a DATE is taken as TIMESTAMP",
        ),
    ]  # fmt: skip


TRUNC_UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter",
    "year",
)  # fmt: skip
"""First arguments of date_trunc, in lower case; weeks begin on Monday."""

FUNCTIONS: dict[str, Signature] = {
    s.name: s for s in [*_operators(), *_numbers(), *_strings(), *_times()]
}
"""Every `Call.fn` but ``udf:<name>``."""

ALIASES = {
    "ceiling": "ceil", "pow": "power", "isnan": "is_nan", "substring": "substr", "len": "length",
    "char_length": "length", "character_length": "length", "lcase": "lower", "ucase": "upper",
    "prefix": "starts_with", "startswith": "starts_with", "suffix": "ends_with",
    "endswith": "ends_with", "instr": "strpos", "ifnull": "coalesce", "dow": "dayofweek",
    "datetrunc": "date_trunc", "dayofmonth": "day",
}  # fmt: skip
"""Other spellings."""

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev", "median")
SUM_PARTS = ("sum_high", "sum_middle", "sum_low", "sum_shift")
"""The columns of a partial sum of doubles, in this order (`kernels/aggregates_parts.py`)."""
SUM_OF_PARTS = "sum_of_parts"
"""Their sum: the argument is the first of four columns that follow one another."""
AGGREGATE_ALIASES = {"stddev_samp": "stddev", "mean": "avg"}
VOLATILE = frozenset({
    "random", "rand", "uuid", "gen_random_uuid", "now", "current_timestamp", "current_date",
    "current_time", "localtime", "localtimestamp", "today", "transaction_timestamp",
    "clock_timestamp", "statement_timestamp", "getdate", "sysdate", "current_datetime",
    "unix_timestamp", "currenttimestamp", "currentdate", "currenttime", "currentdatetime",
})  # fmt: skip
"""Functions that depend on time or place of execution: refused, because a replay would differ."""
