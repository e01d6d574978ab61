"""The workloads of the CACQ paper: sensor readings, stock quotes and articles, and their queries.

Streams are Arrow tables with a time column `ts` that counts rows; queries are the SQL that
`Session.query` takes. Everything random is seeded.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from penstock.session import Session

FIELDS = ("a", "b", "c", "d", "e")
VALUES = 100  # of a field, of a price
SENSOR = "(idx BIGINT, a BIGINT, b BIGINT, c BIGINT, d BIGINT, e BIGINT, ts BIGINT)"
STOCKS, USERS = 2_250, 100
SHORTEST_ARTICLE, LONGEST_ARTICLE = 200, 1_000  # bytes
CHEAPEST_CALL_NS, DEAREST_CALL_NS = 10_000, 500_000
JOIN = "FROM stocks [UNBOUNDED] AS s JOIN articles [UNBOUNDED] AS t ON s.symbol = t.symbol"


# ---- sensors (§3.2.5) ----------------------------------------------------------------
def readings(rows: int, seed: int, start: int = 0) -> pa.Table:
    """Rows of a sensor: a sequence number and five fields, uniform in [0, 100)."""
    rng = np.random.default_rng(seed)
    index = np.arange(start, start + rows)
    fields = {name: rng.integers(0, VALUES, rows) for name in FIELDS}
    return pa.table({"idx": index, **fields, "ts": index})


def create_sensors(ps: Session, *names: str) -> None:
    for name in names:
        ps.sql(f"CREATE STREAM {name} {SENSOR} TIMESTAMP BY ts")


def _select(source: str, parts: list[str]) -> str:
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    return f"SELECT idx FROM {source}{where}"


def _comparison(rng: np.random.Generator, field: str) -> str:
    return f"{field} {rng.choice(['<', '>', '<=', '>='])} {rng.integers(0, VALUES)}"


def random_queries(count: int, seed: int, source: str = "s") -> list[str]:
    """§3.2.8: a predicate on each field with probability ½."""
    rng = np.random.default_rng(seed)
    return [
        _select(source, [_comparison(rng, field) for field in FIELDS if rng.random() < 0.5])
        for _ in range(count)
    ]


def spread_queries(count: int, sources: list[str], seed: int) -> list[str]:
    """§3.2.8: one predicate on field a of a source chosen at random."""
    rng = np.random.default_rng(seed)
    return [_select(rng.choice(sources), [_comparison(rng, "a")]) for _ in range(count)]


def _nested(bounds: tuple[int, ...]) -> list[str]:
    """Five queries; the n-th has the first n predicates."""
    parts = [f"{field} > {bound}" for field, bound in zip(FIELDS, bounds, strict=True)]
    return [_select("s", parts[: n + 1]) for n in range(len(parts))]


TABLE_3 = _nested((90, 70, 50, 30, 10))
TABLE_4 = {
    1: [_select("s", [f"{f} > {x}"]) for f, x in zip(FIELDS, (30, 50, 10, 40, 90), strict=True)],
    2: _nested((10,) * 5),
    3: _nested((10, 30, 50, 70, 90)),
}


# ---- stocks and articles (§5) --------------------------------------------------------
def create_stocks(ps: Session) -> None:
    ps.sql("CREATE STREAM stocks (symbol STRING, price DOUBLE, ts BIGINT) TIMESTAMP BY ts")
    ps.sql("CREATE STREAM articles (symbol STRING, body STRING, ts BIGINT) TIMESTAMP BY ts")


def update(stocks: int, articles_per_stock: int, seed: int) -> dict[str, pa.Table]:
    """One update: a quote of each stock, its articles, all of one instant."""
    rng = np.random.default_rng(seed)
    symbols = pa.array([f"S{i:05d}" for i in range(stocks)])
    price = VALUES * (1.0 - rng.random(stocks))  # in (0, 100]
    n = stocks * articles_per_stock
    which = rng.permutation(np.repeat(np.arange(stocks), articles_per_stock))
    sizes = rng.integers(SHORTEST_ARTICLE, LONGEST_ARTICLE + 1, n)
    letters = rng.integers(ord("a"), ord("z") + 1, LONGEST_ARTICLE + n, np.uint8).tobytes()
    body = pa.array([letters[i : i + size].decode() for i, size in enumerate(sizes.tolist())])
    now = np.zeros(n, np.int64)
    return {
        "stocks": pa.table({"symbol": symbols, "price": price, "ts": now[:stocks]}),
        "articles": pa.table({"symbol": symbols.take(which), "body": body, "ts": now}),
    }


def price_queries(count: int, seed: int) -> list[str]:
    """Quotes above distinct prices with their articles; together they select every quote."""
    rng = np.random.default_rng(seed)
    bounds = [0.0, *(VALUES * rng.random(count - 1)).tolist()]
    return [f"SELECT s.symbol, price, body {JOIN} WHERE price > {x!r}" for x in bounds]


JUDGED = f"SELECT s.symbol, price, body {JOIN} WHERE likes($user, price)"
"""Quotes that the function of a user selects, with their articles."""


class Judge:
    """The functions of all users: each call takes its time and selects some of the quotes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._bounds = VALUES * self._rng.random(USERS)
        self.calls = 0

    def register(self, ps: Session) -> None:
        """Make the functions known as `likes`."""
        ps.register_udf("likes", self._likes, ["BIGINT", "DOUBLE"], "BOOLEAN", timeout_s=3600.0)

    def _likes(self, user: pa.Array, price: pa.Array) -> pa.Array:
        for cost in self._rng.integers(CHEAPEST_CALL_NS, DEAREST_CALL_NS + 1, len(price)):
            end = time.thread_time_ns() + int(cost)
            while time.thread_time_ns() < end:
                pass
        self.calls += len(price)
        return pa.array(np.asarray(price) > self._bounds[np.asarray(user)])
