"""live: queries come and go while rows flow: single texts, parameter rows, templates, drops.

Rows are pushed in steps, and queries are added and dropped between the steps. Texts are all
different: of a known template (other constants), or each of a template of its own. A step beside
which queries are added is compared with the same step on the same queries, nothing being added.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import MINUTE, Cost, Result, at_least, at_most, connect, plain, timed
from penstock.session import Query, Session

TEXTS, TEMPLATES, ROWS, BULK, STEPS = 1_000, 300, 1_000, 10_000, 20
STANDING = (0, 100_000, 1_000_000)
LEAST_TEXTS, LEAST_ROWS, MOST_SLOWER = 200.0, 10_000.0, 2.0
KNOWN = f"SELECT k, a FROM r [RANGE {MINUTE}] WHERE k = {{}} AND a >= {{}}"
MANY = f"SELECT k, a FROM r [RANGE {MINUTE}] WHERE k = $key AND a >= $least"
FORMS = (  # no two texts of these have a template in common
    "SELECT k, a + {n} AS b FROM r [RANGE {w}] WHERE k = {n}",
    "SELECT a * {n} AS b FROM r [RANGE {w}] WHERE a > {n} AND k < {n}",
    "SELECT k, sum(a + {n}) AS total FROM r [RANGE {w}] WHERE a > {n} GROUP BY k",
    "SELECT DISTINCT k, a % {n} AS b FROM r [RANGE {w}] WHERE a > {n}",
    "SELECT x.a, y.a + {n} AS b FROM r [RANGE {w}] x JOIN s [RANGE {w}] y ON x.k = y.k "
    "WHERE x.a > {n}",
    "SELECT k + {n} AS b FROM r [RANGE {w}] WHERE a > {n} EXCEPT ALL SELECT k FROM s [RANGE {w}]",
)


class Stream:
    """A stream (k, a, ts) that goes on: a second of event time with every step."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._rng = np.random.default_rng(1)
        self._second = 0

    def step(self, rows: int) -> pa.Table:
        """The rows of the next second."""
        self._second += 1
        ts = np.sort(self._rng.integers(0, 1_000_000, rows)) + self._second * 1_000_000
        keys = self._rng.integers(0, self._keys, rows)
        return pa.table({"k": keys, "a": self._rng.integers(0, 1_000_000, rows), "ts": ts})


def _params(first: int, n: int) -> pa.Table:
    return pa.table({"key": np.arange(first, first + n), "least": np.zeros(n, np.int64)})


def _new_template(n: int) -> str:
    return FORMS[n % len(FORMS)].format(n=n + 7, w=MINUTE + n)


def _between_steps(
    ps: Session, rows: Stream, size: int, steps: int, do: Callable[[], object]
) -> tuple[Cost, Cost]:
    """Cost of what is done between steps, and of the steps."""
    done, stepped = Cost(0.0, 0.0), Cost(0.0, 0.0)
    for _ in range(steps):
        with timed() as cost:
            do()
        done.cpu, done.wall = done.cpu + cost.cpu, done.wall + cost.wall
        table = rows.step(size)
        with timed() as cost:
            ps.push("r", table)
        stepped.cpu, stepped.wall = stepped.cpu + cost.cpu, stepped.wall + cost.wall
    return done, stepped


def _rate(n: int, cost: Cost, target: float, unit: str) -> Result:
    return at_least(n / cost.cpu, n / cost.wall, target, unit)


def _texts(ps: Session, name: str, texts: int, steps: int, out: Result) -> None:
    """Texts of a known template, added and dropped between steps; each step has new rows."""
    rows, number = Stream(texts), count()
    each = max(1, texts // steps)
    handles: list[Query] = [ps.query(KNOWN.format(-1, -1))]

    def add() -> None:
        for _ in range(each):
            n = next(number)
            handles.append(ps.query(KNOWN.format(n, 3 * n)))

    def drop() -> None:
        for _ in range(min(each, len(handles) - 1)):
            handles.pop().drop()

    ps.push("r", rows.step(ROWS))
    added, beside = _between_steps(ps, rows, ROWS, steps, add)
    _, alone = _between_steps(ps, rows, ROWS, steps, lambda: None)
    dropped, _ = _between_steps(ps, rows, ROWS, steps, drop)
    out[f"{name}texts of a known template"] = _rate(each * steps, added, LEAST_TEXTS, "texts/s")
    out[f"{name}drops one by one"] = _rate(each * steps, dropped, LEAST_TEXTS, "drops/s")
    ratio = beside.cpu / alone.cpu, beside.wall / alone.wall
    out[f"{name}a step beside {texts:,} texts"] = at_most(*ratio, MOST_SLOWER)


def _templates(templates: int, steps: int, out: Result) -> None:
    """Texts of a template of their own each, and what a step over all of them costs."""
    ps, rows, number = connect("r", "s"), Stream(1_000), count()
    for n in range(len(FORMS)):  # compiles what they need
        ps.query(_new_template(10 * TEMPLATES + n))
    ps.push("s", rows.step(ROWS))
    ps.push("r", rows.step(ROWS))
    each = max(1, templates // steps)

    def add() -> None:
        for _ in range(each):
            ps.query(_new_template(next(number)))

    added, _ = _between_steps(ps, rows, ROWS, steps, add)
    _, full = _between_steps(ps, rows, 100, 5, lambda: None)
    out["texts of a new template each"] = _rate(each * steps, added, LEAST_TEXTS, "texts/s")
    per = 1e3 / 5 / (each * steps)
    out["a step of 100 rows"] = plain(full.cpu * per, full.wall * per, "ms/template")


def _bulk(ps: Session, name: str, standing: int, bulk: int, out: Result) -> None:
    """Parameter rows beside many that stand already."""
    ps.query_many(MANY, _params(0, 10))
    ps.push("r", Stream(1_000_000).step(ROWS))
    if standing:
        ps.query_many(MANY, _params(0, standing))
    ps.push("r", Stream(1_000_000).step(ROWS))
    with timed() as adding:
        made = ps.query_many(MANY, _params(standing, bulk))
    out[f"{name}rows into {standing:,} queries"] = _rate(bulk, adding, LEAST_ROWS, "rows/s")
    with timed() as one:
        for n in range(20):
            made.append(ps.query(KNOWN.format(n, n)))
    out[f"{name}texts into {standing:,} queries"] = _rate(20, one, LEAST_TEXTS, "texts/s")
    with timed() as dropping:
        for query in made[-20:]:
            query.drop()
    out[f"{name}drops from {standing:,} queries"] = _rate(20, dropping, LEAST_TEXTS, "drops/s")


def run(scale: float = 1.0) -> Result:
    texts, steps = max(20, int(TEXTS * scale)), max(2, int(STEPS * scale))
    out: Result = {}
    _texts(connect("r"), "", texts, steps, out)
    sharded = penstock.connect(runner="inprocess", shards=2)
    sharded.sql("CREATE STREAM r (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    _texts(sharded, "2 shards: ", texts, steps, out)
    _templates(max(12, int(TEMPLATES * scale)), steps, out)
    for standing in STANDING:
        _bulk(connect("r"), "", int(standing * scale), int(BULK * scale), out)
    sharded = penstock.connect(runner="inprocess", shards=2)
    sharded.sql("CREATE STREAM r (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    _bulk(sharded, "2 shards: ", int(STANDING[1] * scale), int(BULK * scale), out)
    return out
