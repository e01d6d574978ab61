"""Expressions that fail on some pairs: what a query with an index shows is what it shows alone.

A query fails exactly if a pair that its index finds fails it; all others go on. ON ERROR NULL and
SKIP ROW hide what fails. The reference tests every pair in Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest

import penstock
from penstock.errors import QueryFailed
from penstock.indexes.pairs.router import PAIR_STRATEGIES
from property.pair_population import use_index, use_strategy

Row = tuple[int, int, str | None, int]
"""k, b, a text that may be a number, ts."""


class Fails(Exception):
    """A condition has no value."""


def number(text: str | None) -> int | None:
    """CAST(text AS BIGINT)."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise Fails from None


CONDITIONS: dict[str, Any] = {
    "CAST(x.v AS BIGINT) > $p": lambda x, y, p: _more(number(x[2]), p),
    "CAST(x.v AS BIGINT) + CAST(y.v AS BIGINT) > $p": lambda x, y, p: _more(
        _plus(number(x[2]), number(y[2])), p
    ),
    "(x.v IN ('1', '2', '3') OR CAST(y.v AS BIGINT) > $p)": lambda x, y, p: (
        x[2] in ("1", "2", "3") or _more(number(y[2]), p)
    ),
    "10 / (y.b - x.b) > $p": lambda x, y, p: x[1] != y[1] and 10 / (y[1] - x[1]) > p,
}
"""Residuals beside the index, and what they say of a pair."""


def _more(value: int | None, p: int) -> bool:
    return value is not None and value > p


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


INDEXED: dict[str, Any] = {
    "abs(y.b - x.b) <= $w": lambda x, y, w: abs(y[1] - x[1]) <= w,
    "x.k = y.k AND x.b <= $w": lambda x, y, w: x[0] == y[0] and x[1] <= w,
}


def rows_of(rng: Random, n: int) -> list[Row]:
    """Rows in order of time, few of them with a text that is no number."""
    texts = ("1", "2", "3", "7", "-4", None, *(("x",) if rng.random() < 0.5 else ()))
    return [(rng.randrange(2), rng.randint(-4, 4), rng.choice(texts), i // 3) for i in range(n)]


def pairs(rows: list[list[Row]], now: int) -> Iterator[tuple[Row, Row]]:
    """The pairs that windows of length 4 have held until now."""
    for x, y in product(*rows):
        if max(x[3], y[3]) <= now and abs(x[3] - y[3]) < 4:
            yield x, y


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("on_error", ["FAIL", "NULL", "SKIP ROW"])
def test_a_failure_stays_with_its_query(
    on_error: str, shards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_index(monkeypatch)
    rng, failed, hidden = Random(len(on_error)), 0, 0
    for at, (indexed, condition) in enumerate(product(INDEXED, CONDITIONS)):
        use_strategy(monkeypatch, PAIR_STRATEGIES[at % len(PAIR_STRATEGIES)], at)
        params = [{"w": rng.randint(0, 5), "p": rng.randint(-5, 5)} for _ in range(8)]
        rows = [rows_of(rng, 18), rows_of(rng, 18)]
        with penstock.connect(runner="inprocess", shards=shards) as ps:
            for name in "rs":
                ps.sql(
                    f"CREATE STREAM {name} (k INT, b BIGINT, v STRING, ts BIGINT) TIMESTAMP BY ts"
                )
            queries = ps.query_many(
                f"SELECT x.k, x.b, y.b AS c FROM r [RANGE 4] x, s [RANGE 4] y "
                f"WHERE {indexed} AND {condition} ON ERROR {on_error}",
                params,
            )
            failing: set[int] = set()
            for start in range(0, 18, 6):
                for name, some in zip("rs", rows, strict=True):
                    names = ("k", "b", "v", "ts")
                    part = [dict(zip(names, row, strict=True)) for row in some[start : start + 6]]
                    ps.push(name, part)
                now = start // 3 + 1
                ps.advance(ts=now)
                for number_, (p, query) in enumerate(zip(params, queries, strict=True)):
                    wanted, fails = _expected(indexed, condition, rows, p, now)
                    if fails and on_error == "FAIL":
                        failing.add(number_)
                    hidden += fails
                    if number_ in failing:
                        failed += 1
                        with pytest.raises(QueryFailed):
                            query.view()
                        continue
                    shown = query.view().to_pylist()
                    found = Counter((row["k"], row["b"], row["c"]) for row in shown)
                    assert found == wanted, (indexed, condition, p)
    assert failed if on_error == "FAIL" else hidden


def _expected(
    indexed: str, condition: str, rows: list[list[Row]], p: dict[str, int], now: int
) -> tuple[Counter[tuple[int, int, int]], bool]:
    """What the query shows at an instant, and whether a pair has failed it until then."""
    shown, fails = Counter[tuple[int, int, int]](), False
    for x, y in pairs(rows, now):
        if not INDEXED[indexed](x, y, p["w"]):
            continue
        try:
            holds = CONDITIONS[condition](x, y, p["p"])
        except Fails:
            fails = True
            continue
        if holds and now - min(x[3], y[3]) < 4:
            shown[x[0], x[1], y[1]] += 1
    return shown, fails
