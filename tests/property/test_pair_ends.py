"""Bands whose bounds and differences lie at the ends of BIGINT or of DOUBLE, against Python.

DuckDB is no reference for integers here: it fails on rows that a band does not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import pytest

import penstock
from penstock.errors import QueryFailed
from penstock.indexes.pairs.router import PAIR_STRATEGIES
from property.pair_population import use_strategy

LEAST, MOST = -(2**63), 2**63 - 1
ENDS = (LEAST, LEAST + 1, LEAST + 2, -1, 0, 1, MOST - 1, MOST)


class Overflow(Exception):
    """A number that is no BIGINT."""


def fit(n: int) -> int:
    if not LEAST <= n <= MOST:
        raise Overflow
    return n


Condition = Callable[[int, int, int, int], bool]
"""Of x, y, lo and hi."""
Pair = tuple[int, int]
BANDS: dict[str, Condition] = {
    "y.a - x.a BETWEEN $lo AND $hi": lambda x, y, lo, hi: lo <= fit(y - x) <= hi,
    "x.a - y.a BETWEEN $lo AND $hi": lambda x, y, lo, hi: lo <= fit(x - y) <= hi,
    "y.a - x.a > $lo": lambda x, y, lo, hi: fit(y - x) > lo,
    "y.a - x.a < $hi": lambda x, y, lo, hi: fit(y - x) < hi,
    "y.a - x.a <= $hi": lambda x, y, lo, hi: fit(y - x) <= hi,
    "y.a - x.a = $hi": lambda x, y, lo, hi: fit(y - x) == hi,
    "x.a - y.a >= $hi": lambda x, y, lo, hi: fit(x - y) >= hi,
    "abs(y.a - x.a) <= $hi": lambda x, y, lo, hi: fit(abs(fit(y - x))) <= hi,
    "abs(x.a - y.a) < $hi": lambda x, y, lo, hi: fit(abs(fit(x - y))) < hi,
    "y.a >= x.a + $lo": lambda x, y, lo, hi: y >= fit(x + lo),
    "y.a - $lo > x.a": lambda x, y, lo, hi: fit(y - lo) > x,
    "y.a - x.a - $lo <= $hi": lambda x, y, lo, hi: fit(fit(y - x) - lo) <= hi,
    "y.a >= x.a + $lo + 1": lambda x, y, lo, hi: y >= fit(fit(x + lo) + 1),
    "y.a - x.a >= $lo AND x.a - y.a >= $hi": lambda x, y, lo, hi: (
        fit(y - x) >= lo and fit(x - y) >= hi
    ),
    "y.a BETWEEN x.a + $lo AND x.a + $hi": lambda x, y, lo, hi: fit(x + lo) <= y <= fit(x + hi),
}  # fmt: skip


def answer(
    condition: Condition, xs: Sequence[int], ys: Sequence[int], lo: int, hi: int
) -> tuple[Counter[Pair], set[Pair]]:
    """The pairs that hold, and those that overflow: they may fail the query."""
    found, overflows = Counter[Pair](), set[Pair]()
    for x, y in product(xs, ys):
        try:
            found[x, y] += condition(x, y, lo, hi)
        except Overflow:
            overflows.add((x, y))
    return +found, overflows


@pytest.mark.parametrize(("xs", "ys"), [([0], ENDS), ([-1, -1], ENDS[1:]), (ENDS[:-1], [-1])])
@pytest.mark.parametrize("first", [0, 4])
def test_bounds_at_the_ends(
    xs: Sequence[int], ys: Sequence[int], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = [{"lo": lo, "hi": hi} for lo, hi in product(ENDS, ENDS)]
    for at, (text, condition) in enumerate(BANDS.items(), first):
        use_strategy(monkeypatch, PAIR_STRATEGIES[at % len(PAIR_STRATEGIES)])
        names = [n for n in ("lo", "hi") if f"${n}" in text]
        chosen = {tuple(p[n] for n in names): p for p in params}
        with penstock.connect(runner="inprocess") as ps:
            for stream in "rs":
                ps.sql(f"CREATE STREAM {stream} (a BIGINT, ts BIGINT) TIMESTAMP BY ts")
            sql = f"SELECT x.a, y.a AS b FROM r [RANGE 5] x, s [RANGE 5] y WHERE {text}"
            queries = ps.query_many(sql, [{n: p[n] for n in names} for p in chosen.values()])
            ps.push("r", [{"a": x, "ts": 1} for x in xs[:1]])
            ps.push("s", [{"a": y, "ts": 1} for y in ys[::2]])
            ps.push("r", [{"a": x, "ts": 1} for x in xs[1:]])
            ps.push("s", [{"a": y, "ts": 1} for y in ys[1::2]])
            for p, query in zip(chosen.values(), queries, strict=True):
                wanted, overflows = answer(condition, xs, ys, p["lo"], p["hi"])
                try:
                    rows = [(row["a"], row["b"]) for row in query.view().to_pylist()]
                except QueryFailed:
                    assert overflows, (text, p)
                else:
                    found = Counter(pair for pair in rows if pair not in overflows)
                    assert found == wanted, (text, p)


# ---- floats --------------------------------------------------------------------------
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0)
SMALL_AND_LARGE = (5e-324, -5e-324, 0.1, -0.2, 0.30000000000000004, 1e308)


def rank(value: float) -> tuple[bool, float]:
    """The order of SQL: NaN is equal to itself and above all others."""
    return (True, 0.0) if math.isnan(value) else (False, value)


FLOATS: dict[str, Callable[[float, float, float, float], bool]] = {
    "y.a - x.a BETWEEN $lo AND $hi": lambda x, y, lo, hi: rank(lo) <= rank(y - x) <= rank(hi),
    "x.a - y.a BETWEEN $lo AND $hi": lambda x, y, lo, hi: rank(lo) <= rank(x - y) <= rank(hi),
    "y.a - x.a > $lo": lambda x, y, lo, hi: rank(y - x) > rank(lo),
    "x.a - y.a < $hi": lambda x, y, lo, hi: rank(x - y) < rank(hi),
    "$lo = y.a - x.a": lambda x, y, lo, hi: rank(y - x) == rank(lo),
    "abs(y.a - x.a) <= $hi": lambda x, y, lo, hi: rank(abs(y - x)) <= rank(hi),
    "abs(x.a - y.a) < $hi": lambda x, y, lo, hi: rank(abs(x - y)) < rank(hi),
    "y.a - x.a >= $lo AND x.a - y.a >= $hi": lambda x, y, lo, hi: (
        rank(y - x) >= rank(lo) and rank(x - y) >= rank(hi)
    ),
    "x.a >= $lo AND y.a <= $hi AND y.a - x.a >= $lo": lambda x, y, lo, hi: (
        rank(x) >= rank(lo) and rank(y) <= rank(hi) and rank(y - x) >= rank(lo)
    ),
}


@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT"])
@pytest.mark.parametrize("first", [0, 2, 4])
def test_floats_that_are_no_numbers(
    type_: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = SPECIAL + ((0.5, -1.25) if type_ == "FLOAT" else SMALL_AND_LARGE)
    for at, (text, condition) in enumerate(FLOATS.items(), first):
        use_strategy(monkeypatch, PAIR_STRATEGIES[at % len(PAIR_STRATEGIES)])
        names = [n for n in ("lo", "hi") if f"${n}" in text]
        params = {
            repr([p[n] for n in names]): p
            for p in ({"lo": lo, "hi": hi} for lo, hi in product(values, values))
        }
        with penstock.connect(runner="inprocess") as ps:
            for stream in "rs":
                ps.sql(f"CREATE STREAM {stream} (k INT, a {type_}, ts BIGINT) TIMESTAMP BY ts")
            sql = f"SELECT x.k, y.k AS l FROM r [RANGE 5] x, s [RANGE 5] y WHERE {text}"
            queries = ps.query_many(sql, [{n: p[n] for n in names} for p in params.values()])
            rows = [{"k": i, "a": value, "ts": 1} for i, value in enumerate(values)]
            for part in (slice(0, None, 2), slice(1, None, 2)):
                ps.push("r", rows[part])
                ps.push("s", rows[part])
            for p, query in zip(params.values(), queries, strict=True):
                wanted = {
                    (i, j)
                    for (i, x), (j, y) in product(enumerate(values), enumerate(values))
                    if condition(x, y, p["lo"], p["hi"])
                }
                found = {(row["k"], row["l"]) for row in query.view().to_pylist()}
                assert found == wanted, (text, p)
