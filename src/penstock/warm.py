"""Compile the kernels once, so that the first query does not wait: ``python -m penstock.warm``.

Runs small sessions that pass through every operator, on one shard and on two (routing, plans
of two levels); numba keeps the result on disk, where Spark's workers find it. The costs of
strategies for pairs of streams are measured, as `penstock calibrate` does more thoroughly. Where
there is Java, a small job on Spark has it record the classes of Spark (`spark/java.py`).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

import penstock
from penstock.cli import demo
from penstock.cli.demo_traffic import LINKS, Traffic
from penstock.indexes.pairs.calibration import calibrate
from penstock.indexes.pairs.constants import constants_path
from penstock.indexes.pairs.router import PAIR_STRATEGIES
from penstock.kernels.compiling import tell_never
from penstock.logical.strategy import STRATEGIES
from penstock.session import Queries, Query, Session
from penstock.spark import java

_SCRIPT = """
CREATE STREAM r (k INT, a BIGINT, x DOUBLE, name STRING, ts BIGINT)
  TIMESTAMP BY ts DELAY 2 RETAIN 50;
CREATE STREAM s (k INT, a BIGINT, x DOUBLE, name STRING, ts BIGINT) TIMESTAMP BY ts RETAIN 50;
CREATE STREAM u (k INT, ts BIGINT) TIMESTAMP BY ts RETAIN 50;
CREATE TABLE t (k INT, label STRING);
CREATE TABLE n (k INT, label STRING) NONRETROACTIVE;
INSERT INTO t VALUES (1, 'one'), (2, 'two');
INSERT INTO n VALUES (1, 'one'), (2, 'two');
"""

_QUERIES = (
    "SELECT name, a + 1 AS b FROM r [RANGE 5] WHERE x > 0.5 AND k = 1 AND name <> 'z'",
    "SELECT k FROM r [RANGE 5] WHERE name IN ('a', 'b') OR name = 'c'",
    "SELECT r.k, r.a, s.a AS b FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k WHERE r.a > 1",
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5] ON s.a - r.a BETWEEN -1 AND 1",
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5] ON s.x - r.x BETWEEN -1 AND 1",
    "SELECT r.k, s.k AS j FROM r [ROWS 3] JOIN s [RANGE 5] ON s.a - r.a BETWEEN -1 AND 1",
    "SELECT r.k, s.k AS j FROM r [ROWS 3] JOIN s [RANGE 5] ON s.x - r.x BETWEEN -1 AND 1",
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5] ON s.a <> r.a",
    "SELECT r.k, label FROM r [RANGE 5] JOIN t ON r.k = t.k",
    "SELECT r.k, label FROM r [RANGE 5] JOIN n ON r.k = n.k",
    "SELECT r.k, s.a FROM r [RANGE 5] LEFT JOIN s [RANGE 3] ON r.k = s.k AND r.a < s.a",
    "SELECT DISTINCT k, name FROM r [RANGE 5]",
    "SELECT DISTINCT k FROM r [ROWS 3]",
    "SELECT k FROM r [RANGE 5] EXCEPT ALL SELECT k FROM s [RANGE 3]",
    "SELECT k FROM r [PARTITION BY k ROWS 2] INTERSECT SELECT k FROM s [RANGE 3]",
    "SELECT k FROM r [RANGE 5] WHERE k NOT IN (SELECT k FROM s [RANGE 4])",
    "SELECT count(*) AS n, sum(a) AS s, max(x) AS m, min(name) AS f FROM r [RANGE 9 SLIDE 3]",
    "SELECT sum(x) AS s, avg(a) AS m FROM r [RANGE 9]",
    "SELECT k, avg(x) AS m, stddev(x) AS d, median(a) AS e, count(DISTINCT name) AS c, max(a) AS g"
    " FROM r [RANGE 5] GROUP BY k HAVING count(*) > 1",
    "SELECT r.k, max(s.a) AS m, min(s.x) AS f FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k"
    " GROUP BY r.k",
    "SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k EMIT ON COMMIT",
    "SELECT DISTINCT r.name FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k",
    "SELECT max(a) AS m, min(name) AS f, max(x) AS e FROM r [UNBOUNDED]",
    "SELECT a * 2 - k AS b, substr(name, 1, 1) AS n, length(name) AS l FROM r [RANGE 5]"
    " WHERE name > 'aa' AND strpos(name, lower(name)) < 9 AND name LIKE '%b%'",
    "SELECT k FROM r [RANGE 5] WHERE (a > 3 OR x < 0.5) AND (name LIKE 'a%' OR k IS NULL)",
    "SELECT k FROM r [RANGE 5] WHERE warm_up(a, 3)",
    "SELECT r.k, s.a FROM r [RANGE 5] JOIN s [RANGE 9] ON s.a - r.a BETWEEN -1 AND 1 WHERE r.k = 1",
    "SELECT r.k FROM r [RANGE 5], s [RANGE 9], s [RANGE 3] AS u WHERE r.k = s.k AND s.a = u.a",
    "SELECT r.k FROM r [RANGE 5], s [RANGE 9], u [RANGE 3] WHERE r.k = u.k"
    " AND s.a - r.a BETWEEN -1 AND 1",
    "SELECT k FROM r [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM s [RANGE 3] WHERE s.k = r.k)",
    "SELECT e.k, s.a FROM (SELECT k FROM r [RANGE 5] INTERSECT SELECT k FROM s [RANGE 3]) e"
    " JOIN s [RANGE 3] ON e.k = s.k",
    "SELECT CASE WHEN name = 'a' THEN 1 ELSE 0 END AS c, name < lower(name) AS d,"
    " name IN ('x', 'y') AS i FROM r [RANGE 5]",
    "SELECT e.k, label FROM (SELECT k FROM r [RANGE 5] EXCEPT SELECT k FROM s [RANGE 3]) e"
    " JOIN n ON e.k = n.k",
)
_LATE = (  # negations that are known by then to have few premature results
    "SELECT e.k FROM (SELECT k FROM r [RANGE 5] EXCEPT ALL SELECT k FROM s [RANGE 3]) e"
    " JOIN u [RANGE 3] ON e.k = u.k",
    "SELECT e.k FROM (SELECT k FROM r [RANGE 5] WHERE NOT EXISTS"
    " (SELECT 1 FROM s [RANGE 3] WHERE s.k = r.k)) e JOIN u [RANGE 3] ON e.k = u.k",
)
_OVERFLOW = "SELECT (k + 9223372036854775800) * a AS b FROM r [RANGE 5]"  # it fails
_MANY = (
    "SELECT k, a FROM r [RANGE 5] WHERE a BETWEEN $a AND $b",
    "SELECT k, a FROM r [RANGE 5] WHERE k = $k AND name <> $n AND a > $a",
    "SELECT k, x FROM r [RANGE 5] WHERE x < $x",
    "SELECT name, count(*) AS n FROM r [RANGE 5] WHERE name = $n GROUP BY name",
    "SELECT a FROM r [RANGE 5] WHERE a < $a EMIT CHANGES PER ROW",
    "SELECT k, count(*) AS n FROM r [RANGE 5] WHERE k = $k GROUP BY k EMIT CHANGES PER ROW",
    "SELECT count(*) AS n FROM r [RANGE 5] WHERE a > $a EMIT ON COMMIT",
    "SELECT k FROM r [RANGE 5] WHERE name LIKE $n OR a IN ($a, $b)",
    "SELECT r.k, s.a FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k WHERE r.a > $a",
    "SELECT a, n FROM (SELECT a, count(*) AS n FROM r [RANGE 5] GROUP BY a) g WHERE n > $a"
    " EMIT CHANGES PER ROW",
    "SELECT a, n FROM (SELECT a, sum(k) AS n FROM r [RANGE 5] GROUP BY a) g WHERE n > $a",
    "SELECT count(*) AS n, avg(s.k) AS m FROM r [RANGE 5] JOIN s [RANGE 5]"
    " ON s.a - r.a BETWEEN $a - 9223372036854775807 - 1 AND $b",
    "SELECT count(*) AS n, sum(s.a) AS t FROM r [RANGE 5] JOIN s [RANGE 5]"
    " ON s.a - r.a BETWEEN $a AND $b EMIT ON COMMIT",
)
_ROWS = 1_300  # of parameters: more than a flow takes from one template
_PARAMS = pa.table(
    {
        "a": range(_ROWS), "b": range(3, _ROWS + 3), "k": [i % 3 for i in range(_ROWS)],
        "x": [i / 9 for i in range(_ROWS)], "n": ["abcdef"[i % 6] for i in range(_ROWS)],
    }
)  # fmt: skip
_PAIRS = (  # run with every strategy for pairs
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5] ON s.a - r.a BETWEEN $a AND $b",
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5]"
    " ON r.k = s.k AND s.x - r.x BETWEEN $x AND $b AND r.a > $a AND s.a < $b",
    "SELECT r.k, s.k AS j FROM r [RANGE 5] JOIN s [RANGE 5] ON abs(s.a - r.a) <= $b"
    " EMIT CHANGES PER ROW",
    "SELECT r.k, s.k AS j FROM r [RANGE $b] JOIN s [RANGE $b]"
    " ON r.k = s.k AND r.a < s.a + $a AND r.name = s.name AND s.x > $x AND r.a > $k",
    "SELECT r.k, s.k AS j FROM r [RANGE $b] JOIN s [RANGE $b] ON abs(s.a - r.a) < $a",
)
_FOLLOWED = 9_000
_TEXTS = 9_000
_JOB = """
CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts FROM json OPTIONS (path '{folder}/r');
CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts;
CREATE MATERIALIZED VIEW total AS
  SELECT count(*) AS n FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k;
CREATE SINK written FROM total INTO parquet OPTIONS (path '{folder}/out');
"""


def main() -> None:
    """Compile, measure, and record."""
    tell_never()
    compile_kernels()
    try:
        measure_costs()
    except OSError as error:  # optional: the defaults serve
        print(f"costs of pairs were not stored: {error}", file=sys.stderr)
    try:
        record_spark()
    except Exception as error:  # optional: without it Spark only starts more slowly
        print(f"Spark's classes were not recorded: {error}", file=sys.stderr)


def compile_kernels() -> None:
    """Run every query over a few rows, on one shard and on two."""
    for shards in (None, 2):
        with penstock.connect(runner="inprocess", shards=shards) as session:
            _run(session, "kernels" if shards is None else "kernels of shards")
            _renew_texts(session)
    for other in STRATEGIES:
        with penstock.connect(runner="inprocess", strategy=other.name) as session:
            _expire(session)
    for strategy in PAIR_STRATEGIES:
        with penstock.connect(runner="inprocess", pairs=strategy) as session:
            _find_pairs(session)
    for strategy in ("auto", "hotspot"):
        with penstock.connect(runner="inprocess", pairs=strategy) as session:
            _follow_many(session)
    with penstock.connect(runner="inprocess", shards=2) as session:
        traffic = Traffic(rows=24_000)
        shows = demo.Demo(session, traffic, Console(quiet=True))
        demo.register(shows, 1_000, dict.fromkeys(LINKS, ""))
        for link, rows in traffic.batches(12_000):
            session.push(link, rows)
        shows.read()
    if sys.stderr.isatty():
        print(file=sys.stderr)


def measure_costs() -> None:
    """Measure the costs of strategies for pairs of streams, unless they are known."""
    path = constants_path()
    if not path.exists():
        calibrate(quick=True).write(path)


def record_spark() -> None:
    """Run a small job on Spark: a source, pushed rows, both levels, a sink, a view."""
    with java.recorded() as options, tempfile.TemporaryDirectory() as folder:
        if options is None:
            return
        source = Path(folder, "r", "1.json")
        source.parent.mkdir()
        source.write_text('{"k": 1, "ts": 1}\n')
        with penstock.connect(spark_options=options) as session:
            session.sql(_JOB.format(folder=folder))
            session.push("s", [{"k": 1, "ts": 1}])
            session["total"].view()


def _run(session: Session, what: str) -> None:
    session.sql(_SCRIPT)
    session.register_udf("warm_up", _exceeds, ["BIGINT", "BIGINT"], "BOOLEAN")
    session.query(_OVERFLOW)
    queries: list[Query | Queries] = []
    for at, text in enumerate(_QUERIES):
        queries.append(session.query(text))
        if sys.stderr.isatty():
            print(f"\rcompiling {what} {at + 1}/{len(_QUERIES)}", end="", file=sys.stderr)
    queries += _many(session, _PARAMS.slice(0, _ROWS - 9))
    for turn in range(1, 4):
        count = 6 if turn < 3 else 60  # enough for the index of very many queries
        session.push("r", _rows(turn, count, 0))
        session.push("s", _rows(turn, count, 3 if turn < 3 else 1))
        session.push("u", [{"k": 1, "ts": 4 * turn}])
        if turn == 2:
            queries += [session.query(text) for text in _LATE]
            queries += _many(session, _PARAMS.slice(_ROWS - 9))
    queries += [session.query(text, history=True) for text in _LATE]
    for turn in (30, 60):  # old rows leave the logs, and so the indexes over them
        session.push("r", _rows(turn, 6, 0))
        session.push("s", _rows(turn, 6, 1))
    session.advance(ts=300)
    for query in queries:
        query.view()
        query.changes()
        query.drop()


def _expire(session: Session) -> None:
    """Every query over a few rows that come and leave."""
    session.sql(_SCRIPT)
    session.register_udf("warm_up", _exceeds, ["BIGINT", "BIGINT"], "BOOLEAN")
    queries = [session.query(text) for text in _QUERIES]
    for turn in range(1, 4):
        session.push("r", _rows(turn, 6, 0))
        session.push("s", _rows(turn, 6, 1))
    session.advance(ts=300)
    for query in queries:
        query.view()
        query.changes()
        query.drop()


def _find_pairs(session: Session) -> None:
    """Joins with bounds of each query's own: queries come and go while rows arrive."""
    session.sql(_SCRIPT)
    for turn in range(1, 4):
        several = _many(session, _PARAMS.slice(100 * turn, 90), _PAIRS)
        session.push("r", _rows(turn, 20, 0))
        session.push("s", _rows(turn, 20, 1))
        for queries in several:
            queries[0].view()
            queries[1].drop()
            queries.changes()
    session.advance(ts=300)


def _follow_many(session: Session) -> None:
    """Few queries come to very many of one template and leave: their groups follow each change."""
    session.sql(_SCRIPT)
    scattered = range(0, 20 * _FOLLOWED, 10)
    lows = [at if i % 3 else i % 7 for i, at in zip(range(_FOLLOWED), scattered, strict=False)]
    values = {"a": lows, "b": [low + 9 for low in lows], "x": [low / 9 for low in lows]}
    params, few = pa.table(values), 20
    several = _many(session, params.slice(few), _PAIRS[:2])
    for turn in range(1, 4):
        session.push("r", _rows(turn, 20, 0))
        session.push("s", _rows(turn, 20, 1))
        several += _many(session, params.slice(0, few), _PAIRS[:2])
        for queries in several:
            queries[turn].drop()
    session.advance(ts=300)


def _many(session: Session, params: pa.Table, texts: Iterable[str] = _MANY) -> list[Queries]:
    found = []
    for text in texts:
        wanted = [name for name in params.column_names if f"${name}" in text]
        found.append(session.query_many(text, params.select(wanted)))
    return found


def _renew_texts(session: Session) -> None:
    """Add and expire enough strings for a collection of the string table."""
    query = session.query("SELECT DISTINCT name FROM r [RANGE 1]")
    for ts in range(301, 307):
        texts = [f"{ts} {i}" for i in range(_TEXTS)]
        session.push("r", pa.table({"name": texts, "ts": [ts] * _TEXTS}))
    query.changes()


def _rows(turn: int, count: int, shift: int) -> list[dict[str, object]]:
    return [
        {"k": i % 3 + shift, "a": i, "x": i / 7, "name": "abc"[i % 3], "ts": 4 * turn + i % 6}
        for i in range(count)
    ]


def _exceeds(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.greater(a, b)


if __name__ == "__main__":
    main()
