"""live: queries added and dropped while rows flow: texts, parameter rows, templates.

Rows are pushed in steps, and queries are added and dropped between the steps. Texts are all
different: of a known template (other constants), or each of a template of its own. A step beside
which queries are added is compared with the same step on the same queries, nothing being added.
The time includes work that shards defer until a read: the benchmark waits for `flush()`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import MINUTE, SECOND, Cost, Result, at_least, at_most, plain, timed
from penstock.session import Query, Session

TEXTS, TEMPLATES, ROWS, BULK, STEPS = 1_000, 1_000, 1_000, 10_000, 20
STANDING = (0, 100_000, 1_000_000)
LEAST_TEXTS, LEAST_ROWS, MOST_SLOWER, MOST_SECONDS = 200.0, 10_000.0, 2.0, 1.0
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
        ts = np.sort(self._rng.integers(0, SECOND, rows)) + self._second * SECOND
        keys = self._rng.integers(0, self._keys, rows)
        return pa.table({"k": keys, "a": self._rng.integers(0, 1_000_000, rows), "ts": ts})


def _connect(shards: int | None) -> Session:
    ps = penstock.connect(runner="inprocess", shards=shards)
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    return ps


def new_template(n: int) -> str:
    """A text with its own template."""
    return FORMS[n % len(FORMS)].format(n=n + 7, w=MINUTE + n)


def params_from(first: int, n: int) -> pa.Table:
    """Rows of parameters for `MANY`."""
    return pa.table({"key": np.arange(first, first + n), "least": np.zeros(n, np.int64)})


def _between_steps(
    ps: Session, rows: Stream, steps: int, do: Callable[[], object], size: int = ROWS
) -> tuple[Cost, Cost]:
    """Cost of what is done between steps, and of the steps."""
    done, stepped = Cost(0.0, 0.0), Cost(0.0, 0.0)
    for _ in range(steps):
        table = rows.step(size)
        for cost, work in ((done, do), (stepped, lambda: ps.push("r", table))):  # noqa: B023
            with timed() as part:
                work()
            cost.cpu, cost.wall = cost.cpu + part.cpu, cost.wall + part.wall
    return done, stepped


def _rate(n: int, cost: Cost, target: float, unit: str) -> Result:
    return at_least(n / cost.cpu, n / cost.wall, target, unit)


def _texts(shards: int | None, texts: int, steps: int, out: Result) -> None:
    """Texts of a known template: added between steps, standing, dropped between steps."""
    ps, rows, number = _connect(shards), Stream(texts), count()
    each = texts // steps
    handles: list[Query] = []

    def add() -> None:
        for n in (next(number) for _ in range(each)):
            handles.append(ps.query(KNOWN.format(n, 3 * n)))
        ps.flush()

    def drop() -> None:
        for _ in range(each):
            handles.pop().drop()
        ps.flush()

    ps.query(KNOWN.format(-1, -1))
    ps.push("r", rows.step(ROWS))
    added, beside = _between_steps(ps, rows, steps, add)
    _, alone = _between_steps(ps, rows, steps, lambda: None)
    dropped, _ = _between_steps(ps, rows, steps, drop)
    where = f"{shards} shards: " if shards else ""
    out[f"{where}texts of a known template"] = _rate(each * steps, added, LEAST_TEXTS, "texts/s")
    out[f"{where}drops one by one"] = _rate(each * steps, dropped, LEAST_TEXTS, "drops/s")
    ratio = beside.cpu / alone.cpu, beside.wall / alone.wall
    out[f"{where}a step beside {each} texts"] = at_most(*ratio, MOST_SLOWER)


def _templates(shards: int | None, templates: int, steps: int, out: Result) -> None:
    """Texts of a template of their own each, what a step over all costs, some more and drops."""
    ps, rows, number = _connect(shards), Stream(1_000), count()
    each = templates // steps

    def add() -> None:
        for n in (next(number) for _ in range(each)):
            ps.query(new_template(n))
        ps.flush()

    ps.push("s", rows.step(ROWS))
    added, _ = _between_steps(ps, rows, steps, add)
    _, full = _between_steps(ps, rows, 5, lambda: None, 100)
    with timed() as more:
        handles = [ps.query(new_template(next(number))) for _ in range(each)]
        ps.flush()
    ps.push("r", rows.step(100))
    with timed() as dropped:
        for query in handles:
            query.drop()
        ps.flush()
    where = f"{shards} shards: " if shards else ""
    out[f"{where}texts of new templates"] = _rate(each * steps, added, LEAST_TEXTS, "texts/s")
    beside = f"beside {each * steps:,} templates"
    out[f"{where}new templates {beside}"] = _rate(each, more, LEAST_TEXTS, "texts/s")
    out[f"{where}drops of templates {beside}"] = _rate(each, dropped, LEAST_TEXTS, "drops/s")
    per = 1e3 / 5 / (each * steps)
    out[f"{where}a step of 100 rows"] = plain(full.cpu * per, full.wall * per, "ms/template")


def _bulk(shards: int | None, standing: int, bulk: int, out: Result) -> None:
    """Parameter rows, and single texts, beside many that stand already."""
    ps, rows = _connect(shards), Stream(1_000_000)
    ps.query_many(MANY, params_from(0, 10 + standing))
    ps.push("r", rows.step(ROWS))
    with timed() as adding:
        made = ps.query_many(MANY, params_from(standing, bulk))
    table = rows.step(ROWS)
    with timed() as after:
        ps.push("r", table)
    with timed() as texts:
        singles = [ps.query(KNOWN.format(n, n)) for n in range(50)]
        ps.flush()
    ps.push("r", rows.step(ROWS))
    with timed() as drops:
        for query in singles:
            query.drop()
        ps.flush()
    with timed() as dropping:
        made.drop()
    where = f"{shards} shards, " if shards else ""
    where += f"beside {standing:,}: "
    out[f"{where}parameter rows"] = _rate(bulk, adding, LEAST_ROWS, "rows/s")
    both = adding.cpu + after.cpu, adding.wall + after.wall
    out[f"{where}adding {bulk:,} and the next step"] = at_most(*both, MOST_SECONDS, "s")
    out[f"{where}drops together"] = _rate(bulk, dropping, LEAST_ROWS, "rows/s")
    out[f"{where}texts"] = _rate(len(singles), texts, LEAST_TEXTS, "texts/s")
    out[f"{where}drops"] = _rate(len(singles), drops, LEAST_TEXTS, "drops/s")


def run(scale: float = 1.0) -> Result:
    texts, steps = max(40, int(TEXTS * scale)), max(4, int(STEPS * scale))
    templates, bulk = max(24, int(TEMPLATES * scale)), int(BULK * scale)
    out: Result = {}
    for shards in (None, 2):
        for scratch in ({}, out):  # the first time, what is needed is compiled
            _texts(shards, texts if scratch is out else 40, steps if scratch is out else 4, scratch)
            _templates(shards, templates if scratch is out else 24, 4, scratch)
    for standing in STANDING:
        _bulk(None, int(standing * scale), bulk, out)
    _bulk(2, int(STANDING[1] * scale), bulk, out)
    return out
