"""Bands whose bounds and differences lie at the ends of BIGINT, against Python's integers.

DuckDB is no reference here: it fails on rows that a band does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import pytest

import penstock
from penstock.errors import QueryFailed
from penstock.indexes.pairs.router import PAIR_STRATEGIES, PairStrategy
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


@pytest.mark.parametrize("name", PAIR_STRATEGIES)
@pytest.mark.parametrize(("xs", "ys"), [([0], ENDS), ([-1, -1], ENDS[1:]), (ENDS[:-1], [-1])])
def test_bounds_at_the_ends(
    name: PairStrategy, xs: Sequence[int], ys: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_strategy(monkeypatch, name)
    params = [{"lo": lo, "hi": hi} for lo, hi in product(ENDS, ENDS)]
    for text, condition in BANDS.items():
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
