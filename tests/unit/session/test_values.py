"""Constants as 64-bit words: the same as through Arrow."""

from __future__ import annotations

import math

import pytest

from penstock.logical.expr import Literal
from penstock.session.values import (
    arrow_value,
    cast_scalar,
    literal_rows,
    params_schema,
    rows_of,
)
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    decimal,
)

LITERALS = (
    Literal(INT, -3),
    Literal(BIGINT, -(1 << 63)),
    Literal(BOOLEAN, True),
    Literal(DOUBLE, -0.0),
    Literal(DOUBLE, math.nan),
    Literal(DOUBLE, -math.inf),
    Literal(FLOAT, 0.1),
    Literal(FLOAT, -3e38),
    Literal(decimal(18, 2), -(10**17)),
    Literal(STRING, ""),
    Literal(STRING, "it's ü"),
    Literal(DATE, -1),
    Literal(TIMESTAMP, 1_700_000_000_000_001),
    Literal(INT, None),
)


@pytest.mark.parametrize("chosen", [LITERALS, LITERALS[::-1], LITERALS[:1], ()])
def test_words_are_those_of_arrow(chosen: tuple[Literal, ...]) -> None:
    strings = StringTable(Arena().scope("strings"))
    schema = params_schema([(f"p{i}", x.type) for i, x in enumerate(chosen)])
    columns = [[cast_scalar(arrow_value(x), x.type, "p")] for x in chosen]
    words = literal_rows(chosen, strings)
    assert words.shape == (1 + len(chosen), 1)
    if chosen:
        assert words.tolist() == rows_of(columns, schema, strings).tolist()
