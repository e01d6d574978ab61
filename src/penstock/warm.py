"""Compile the kernels once, so that the first query does not wait: ``python -m penstock.warm``.

Runs small sessions that pass through every operator, on one shard and on two (routing, plans
of two levels); numba keeps the result on disk, where Spark's workers find it.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import penstock
from penstock.cli import demo
from penstock.inprocess.demo_traffic import LINKS, Traffic
from penstock.session import Session

_SCRIPT = """
CREATE STREAM r (k INT, a BIGINT, x DOUBLE, name STRING, ts BIGINT) TIMESTAMP BY ts DELAY 2;
CREATE STREAM s (k INT, a BIGINT, x DOUBLE, name STRING, ts BIGINT) TIMESTAMP BY ts;
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
    "SELECT r.k, label FROM r [RANGE 5] JOIN t ON r.k = t.k",
    "SELECT r.k, label FROM r [RANGE 5] JOIN n ON r.k = n.k",
    "SELECT r.k, s.a FROM r [RANGE 5] LEFT JOIN s [RANGE 3] ON r.k = s.k AND r.a < s.a",
    "SELECT DISTINCT k, name FROM r [RANGE 5]",
    "SELECT DISTINCT k FROM r [ROWS 3]",
    "SELECT k FROM r [RANGE 5] EXCEPT ALL SELECT k FROM s [RANGE 3]",
    "SELECT k FROM r [PARTITION BY k ROWS 2] INTERSECT SELECT k FROM s [RANGE 3]",
    "SELECT k FROM r [RANGE 5] WHERE k NOT IN (SELECT k FROM s [RANGE 4])",
    "SELECT count(*) AS n, sum(a) AS s, max(x) AS m, min(name) AS f FROM r [RANGE 9 SLIDE 3]",
    "SELECT k, avg(x) AS m, stddev(x) AS d, median(a) AS e, count(DISTINCT name) AS c, max(a) AS g"
    " FROM r [RANGE 5] GROUP BY k HAVING count(*) > 1",
    "SELECT r.k, max(s.a) AS m, min(s.x) AS f FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k"
    " GROUP BY r.k",
    "SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k EMIT ON COMMIT",
    "SELECT DISTINCT r.name FROM r [RANGE 5] JOIN s [RANGE 5] ON r.k = s.k",
)
_MANY = (
    "SELECT k, a FROM r [RANGE 5] WHERE a BETWEEN $a AND $b",
    "SELECT k, a FROM r [RANGE 5] WHERE k = $k AND name <> $n AND a > $a",
    "SELECT k, x FROM r [RANGE 5] WHERE x < $x",
    "SELECT name, count(*) AS n FROM r [RANGE 5] WHERE name = $n GROUP BY name",
)
_PARAMS = pa.table(
    {
        "a": range(300), "b": range(3, 303), "k": [i % 3 for i in range(300)],
        "x": [i / 9 for i in range(300)], "n": ["abcdef"[i % 6] for i in range(300)],
    }
)  # fmt: skip


def main() -> None:
    """Run every query over a few rows, on one shard and on two."""
    for shards in (None, 2):
        with penstock.connect(runner="inprocess", shards=shards) as session:
            _run(session, "kernels" if shards is None else "kernels of shards")
    with penstock.connect(runner="inprocess", shards=2) as session:
        tallies = demo.register(session, 1_000, dict.fromkeys(LINKS, ""))
        for link, rows in Traffic(rows=24_000).batches(12_000):
            session.push(link, rows)
        for tally in tallies:
            tally.read()
    if sys.stderr.isatty():
        print(file=sys.stderr)


def _run(session: Session, what: str) -> None:
    session.sql(_SCRIPT)
    queries = []
    for at, text in enumerate(_QUERIES):
        queries.append(session.query(text))
        if sys.stderr.isatty():
            print(f"\rcompiling {what} {at + 1}/{len(_QUERIES)}", end="", file=sys.stderr)
    for text in _MANY:
        wanted = [name for name in _PARAMS.column_names if f"${name}" in text]
        queries += session.query_many(text, _PARAMS.select(wanted))
    for turn in range(1, 4):
        rows = [
            {"k": i % 3, "a": i, "x": i / 7, "name": "abc"[i % 3], "ts": 4 * turn + i % 6}
            for i in range(6 if turn < 3 else 60)  # many enough for the filter of many queries
        ]
        session.push("r", rows)
        session.push("s", rows)
    session.advance(ts=40)
    for query in queries:
        query.view()
        query.changes()
        query.drop()


if __name__ == "__main__":
    main()
