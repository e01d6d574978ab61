"""A checkpoint on Spark with every kind of file in it, and what must be said of it afterwards.

Rows come from files (some late, some without a time) and by push; a view is kept, a sink is
written. `abandon` leaves the checkpoint as a killed driver would.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from faults.books import clear_stop
from oracle.fold import bag, rows_of
from penstock.errors import PenstockError

DDL = """
CREATE STREAM IF NOT EXISTS e (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts DELAY 5
  FROM parquet OPTIONS (path '{0}/in', maxFilesPerTrigger '1');
CREATE STREAM IF NOT EXISTS p (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts;
CREATE MATERIALIZED VIEW IF NOT EXISTS groups AS
  SELECT k, count(*) AS n, sum(a) AS total FROM e [RANGE 1000] GROUP BY k;
CREATE MATERIALIZED VIEW IF NOT EXISTS pushed AS
  SELECT k, sum(a) AS total FROM p [RANGE 1000] GROUP BY k;
CREATE MATERIALIZED VIEW IF NOT EXISTS joined AS
  SELECT e.k, p.a FROM e [RANGE 1000] JOIN p [RANGE 1000] ON e.k = p.k;
CREATE SINK IF NOT EXISTS out FROM groups INTO json OPTIONS (path '{0}/out');
"""
VIEWS = ("groups", "pushed", "joined")
SCHEMA = pa.schema([("k", pa.int32()), ("a", pa.int64()), ("ts", pa.int64())])


def rows(n: int) -> list[dict[str, Any]]:
    """The rows of file `n`: one of them late, one without a time."""
    found: list[dict[str, Any]] = [
        {"k": i % 3, "a": 10 * n + i, "ts": 20 * n + i} for i in range(6)
    ]
    return [*found, {"k": 1, "a": 1, "ts": 20 * n - 90}, {"k": 1, "a": 1, "ts": None}]


def bring(home: Path, n: int) -> None:
    """File `n` of the source."""
    pq.write_table(pa.Table.from_pylist(rows(n), schema=SCHEMA), home / "in" / f"{n}.parquet")


def begin(home: Path, spark: Any) -> Any:
    """A session that has run several batches."""
    (home / "in").mkdir(parents=True)
    session = connect(home, spark)
    session.sql(DDL.format(home))
    for n in range(3):
        bring(home, n)
        session.push("p", [{"k": n, "a": n, "ts": 20 * n}])
        session.flush()
        session["pushed"].view()
        if n == 1:
            session.stop()  # which saves the session
    return session


def connect(home: Path, spark: Any) -> Any:
    return penstock.connect(spark=spark, shards=2, checkpoint=home / "checkpoint")


def abandon(session: Any) -> None:
    """Leave everything as it is, as a killed driver does."""
    session._runner.job.close()
    session._runner.answers.views.shut()


def go_on(home: Path, spark: Any) -> dict[str, Any]:
    """Open the checkpoint, bring more, and read everything."""
    session = connect(home, spark)
    try:
        session.sql(DDL.format(home))
        bring(home, 3)
        session.push("p", [{"k": 2, "a": 70, "ts": 60}])
        session.flush()
        found: dict[str, Any] = {name: bag(rows_of(session[name].view())) for name in VIEWS}
        counts = session.stats()["streams"]["e"]
        found["counts"] = {n: counts[n] for n in ("received", "accepted", "late", "quarantined")}
        found["kept out"] = (session.late("e").num_rows, session.quarantine("e").num_rows)
        found["sink"] = sorted(
            line
            for path in (home / "out").glob("part-*.json")
            for line in path.read_text().splitlines()
        )
    finally:
        try:
            session.close()
        except PenstockError:
            abandon(session)
    return found


def outcome(home: Path, spark: Any) -> dict[str, Any] | PenstockError:
    """What comes of it: an answer, or a clear stop."""
    try:
        return go_on(home, spark)
    except Exception as error:
        return clear_stop(error)


def keep(home: Path, aside: Path) -> None:
    """Put a copy aside."""
    shutil.copytree(home, aside)


def put_back(home: Path, aside: Path) -> None:
    """Have what was put aside again, at the same place."""
    shutil.rmtree(home)
    shutil.copytree(aside, home)
