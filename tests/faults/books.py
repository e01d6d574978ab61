"""The ledger of a session without Spark: what must hold whatever went wrong.

`Books` pushes rows and judges them as the contract says (late, quarantined, accepted). `check`
holds the session against them: the changes of every query fold to DuckDB's answer over the rows
in its window, no row is taken back more often than it was there, the view says the same, and
accepted + late + quarantined = received.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import groupby
from typing import Any

import duckdb
import pyarrow as pa

import penstock
from oracle.fold import Fold, Values, bag, changes_of, rows_of, same, show
from penstock.errors import PenstockError

DELAY, RANGE = 10, 100
SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("a", pa.int64()),
        ("x", pa.float64()),
        ("w", pa.string()),
        ("ts", pa.int64()),
    ]
)
COLUMNS = "k INT, a BIGINT, x DOUBLE, w STRING, ts BIGINT"
STREAM = f"CREATE STREAM r ({COLUMNS}) TIMESTAMP BY ts DELAY {DELAY} RETAIN 1000"
QUERIES = {
    "groups": "SELECT k, count(*) AS n, sum(a) AS total FROM r [RANGE 100] GROUP BY k",
    "texts": "SELECT w, count(*) AS n, min(a) AS low FROM r [RANGE 100] GROUP BY w",
    "floats": "SELECT x, k FROM r [RANGE 100] WHERE x > 0 OR x IS NULL",
    "kinds": "SELECT DISTINCT w FROM r [RANGE 100] WHERE k <> 7",
    "pairs": "SELECT l.a, m.w FROM r [RANGE 100] AS l JOIN r [RANGE 100] AS m ON l.a = m.a "
    "WHERE l.k <> 7 AND m.k <> 7",
}
Row = dict[str, Any]


def row(ts: Any, **values: Any) -> Row:
    """A row of the stream."""
    return {"k": 1, "a": 0, "x": 0.5, "w": "a", "ts": ts} | values


class Books:
    """A session with the queries above, and what it should say."""

    def __init__(self, session: Any, queries: dict[str, str] | None = None) -> None:
        self.ps = session
        self.queries = dict(QUERIES if queries is None else queries)
        self.folds = {name: Fold() for name in self.queries}
        self.accepted: list[Row] = []
        self.received = self.late = self.quarantined = 0
        self.watermark: int | None = None

    def declare(self) -> Books:
        """The stream and its queries."""
        self.ps.sql(STREAM)
        for name, text in self.queries.items():
            self.ps.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        return self

    def push(self, rows: list[Row]) -> None:
        """Bring rows."""
        self.judge(rows)
        self.ps.push("r", pa.Table.from_pylist(rows, schema=SCHEMA))

    def judge(self, rows: list[Row]) -> None:
        """What becomes of the rows of one batch."""
        self.received += len(rows)
        timed = [row for row in rows if row["ts"] is not None]
        self.quarantined += len(rows) - len(timed)
        mark = self.watermark
        kept = [row for row in timed if mark is None or row["ts"] >= mark]
        self.late += len(timed) - len(kept)
        self.accepted += kept
        if kept:
            newest = max(row["ts"] for row in kept) - DELAY
            self.watermark = newest if mark is None else max(mark, newest)

    def failed(self, name: str) -> None:
        """A query must have failed: it says why, and has taken back what it showed."""
        assert self.ps[name].status == "failed"
        self._fold(name)
        assert not self.folds[name].held
        del self.queries[name], self.folds[name]

    def check(self) -> None:
        """Hold the session against the books."""
        counts = self.ps.stats()["streams"]["r"]
        assert counts["received"] == self.received
        assert counts["accepted"] == len(self.accepted)
        assert counts["late"] == self.late
        assert counts["quarantined"] == self.quarantined
        for name, wanted in self.answers().items():
            self._fold(name)
            seen = self.folds[name].held
            assert same(seen, wanted), f"{name}: {show(seen)} instead of {show(wanted)}"
            shown = bag(rows_of(self.ps[name].view()))
            assert same(shown, wanted), f"view {name}: {show(shown)} instead of {show(wanted)}"

    def _fold(self, name: str) -> None:
        changes = changes_of(self.ps[name].changes())
        for _, instant in groupby(changes, key=lambda change: change.time):
            self.folds[name].apply(instant)

    def answers(self) -> dict[str, Counter[Values]]:
        """The queries by DuckDB over the rows in their window."""
        clock = self.watermark
        live = [] if clock is None else [r for r in self.accepted if _is_live(r, clock)]
        with duckdb.connect() as db:
            db.register("r", pa.Table.from_pylist(live, schema=SCHEMA))
            texts = {name: text.replace(" [RANGE 100]", "") for name, text in self.queries.items()}
            return {
                name: bag(rows_of(db.sql(text).to_arrow_table())) for name, text in texts.items()
            }


def _is_live(row: Row, clock: int) -> bool:
    return bool(row["ts"] <= clock < row["ts"] + RANGE)


def open_books(shards: int | None = None, **options: Any) -> Books:
    """The books of a new session."""
    return Books(penstock.connect(runner="inprocess", shards=shards, **options)).declare()


def clear_stop(error: BaseException) -> PenstockError:
    """The error of a clear stop: ours, with a code and a remedy, and nothing of Java or Python."""
    assert isinstance(error, PenstockError), repr(error)
    text = str(error)
    assert error.code.startswith("PS-"), text
    assert error.remedy, f"no remedy: {text}"
    for foreign in ("Traceback", "java.", "org.apache", "\tat ", 'File "', "py4j"):
        assert foreign not in text, text
    return error


def close(session: Any) -> None:
    """End a session that a test has left in any state."""
    with suppress(PenstockError):
        session.close()
