"""SQL types, their Arrow types and their physical form.

Inside the engine every value is 64 bits wide: integers, booleans, dates, timestamps (µs),
scaled decimals and string codes as int64, FLOAT and DOUBLE as the bits of a float64
(−0.0 stored as 0.0, one NaN). Equality of values is then equality of bits.
"""

from __future__ import annotations

import enum

import pyarrow as pa

from penstock.errors import TypeError_
from penstock.frozen import Hashed, frozen


class Kind(enum.Enum):
    """The type families of DESIGN §3."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"  # literals only: a number of µs
    NULL = "NULL"  # the type of a bare NULL


@frozen
class SqlType(Hashed):
    """A SQL type; `precision` and `scale` matter for DECIMAL only."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL and not (0 <= self.scale <= self.precision <= 18):
            raise TypeError_(
                f"DECIMAL({self.precision},{self.scale}) is outside DECIMAL(p≤18, s≤p)",
                code="PS-TYPE-008",
                remedy="use at most 18 digits, or DOUBLE",
            )

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return str(self.kind.value)

    @property
    def is_float(self) -> bool:
        """Whether values are stored as the bits of a float64."""
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_integer(self) -> bool:
        """INT or BIGINT."""
        return self.kind in (Kind.INT, Kind.BIGINT)

    @property
    def is_numeric(self) -> bool:
        """Integers, floats and decimals."""
        return self.is_integer or self.is_float or self.kind is Kind.DECIMAL

    @property
    def is_string(self) -> bool:
        """STRING: stored as a code of the arena's string table."""
        return self.kind is Kind.STRING


BOOLEAN = SqlType(Kind.BOOLEAN)
INT = SqlType(Kind.INT)
BIGINT = SqlType(Kind.BIGINT)
FLOAT = SqlType(Kind.FLOAT)
DOUBLE = SqlType(Kind.DOUBLE)
STRING = SqlType(Kind.STRING)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
INTERVAL = SqlType(Kind.INTERVAL)
NULL = SqlType(Kind.NULL)


def decimal(precision: int, scale: int) -> SqlType:
    """DECIMAL(precision, scale)."""
    return SqlType(Kind.DECIMAL, precision, scale)


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.INTERVAL: pa.int64(),
    Kind.NULL: pa.null(),
}


def arrow_type(type_: SqlType) -> pa.DataType:
    """The Arrow type in which users see values of `type_`."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.kind]
