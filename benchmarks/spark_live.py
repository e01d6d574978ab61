"""Spark: queries added and dropped while batches run: texts, parameter rows, templates.

A thread pushes rows all the time. What is measured is how long calls take, and how long after
the last one all are in the answers (`flush`), which is a batch or two; nothing is restarted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.live import (
    KNOWN,
    LEAST_ROWS,
    LEAST_TEXTS,
    MANY,
    ROWS,
    Stream,
    new_template,
    params_from,
)
from benchmarks.pipeline import Result, at_least, plain
from benchmarks.spark_pipeline import apart
from penstock.session import Query, Session

TEXTS, TEMPLATES, BULK = 500, 200, 10_000
FEED, PAUSE_S = 100, 0.5  # rows of a push, and between pushes


class _Feed(threading.Thread):
    """Pushes rows until it is stopped."""

    def __init__(self, ps: Session, rows: Stream) -> None:
        super().__init__(daemon=True)
        self._ps, self._rows = ps, rows
        self._done = threading.Event()

    def run(self) -> None:
        """Push and pause."""
        while not self._done.wait(PAUSE_S):
            self._ps.push("r", self._rows.step(FEED))

    def stop(self) -> None:
        """Return when nothing is pushed any more."""
        self._done.set()
        self.join()


def _timed(ps: Session, count: int, work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What `work` gives, and its cost: the calls, and until they are in the answers."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    start = time.perf_counter()
    ps.flush()
    later = time.perf_counter() - start
    return made, {"cpu": count / cpu, "wall": count / wall, "later": later}


def _drop(queries: list[Query]) -> None:
    for query in queries:
        query.drop()


def ours() -> dict[str, dict[str, float]]:
    """Rates by what is done, the first time everything being warmed."""
    import penstock

    rows, found = Stream(1_000), {}
    with penstock.connect(master="local[2,4]", shards=2) as ps:
        for name in ("r", "s"):
            ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        ps.push("s", rows.step(ROWS))
        ps.query(KNOWN.format(-1, -1))
        feed = _Feed(ps, rows)
        feed.start()
        for texts, templates, bulk in ((20, 12, BULK), (TEXTS, TEMPLATES, BULK)):
            known, found["texts of a known template"] = _timed(
                ps, texts, lambda n=texts: [ps.query(KNOWN.format(i, 3 * i)) for i in range(n)]
            )
            new, found["texts of new templates"] = _timed(
                ps, templates, lambda n=templates: [ps.query(new_template(i)) for i in range(n)]
            )
            many, found["parameter rows"] = _timed(
                ps, bulk, lambda n=bulk: ps.query_many(MANY, params_from(0, n))
            )
            _, found["drops one by one"] = _timed(ps, texts, lambda q=known: _drop(q))
            _, found["drops of templates"] = _timed(ps, templates, lambda q=new: _drop(q))
            _, found["drops together"] = _timed(ps, bulk, lambda q=many: q.drop())
        feed.stop()
    return found


def run() -> Result:
    """The rates, in a process of its own."""
    out: Result = {}
    for name, cost in apart(__name__).items():
        many = name in ("parameter rows", "drops together")
        unit = "rows/s" if many else "texts/s" if "texts" in name else "drops/s"
        out[name] = at_least(cost["cpu"], cost["wall"], LEAST_ROWS if many else LEAST_TEXTS, unit)
        out[f"{name}: in the answers"] = plain(cost["later"], cost["later"], "s later")
    return out


if __name__ == "__main__":
    print(json.dumps(ours()))
