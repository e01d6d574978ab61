"""Bound plans mean what the text means: the same rows as DuckDB gives for the same SQL."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import plan_bags
import pytest

from penstock.sql.binder import bind
from penstock.sql.catalog import MemoryCatalog, table_def
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import CreateTable, Select

SCHEMA = "CREATE TABLE a (k INT, x INT, y BIGINT); CREATE TABLE b (k INT, x BIGINT, y INT); "
SCHEMA += "CREATE TABLE c (k INT, x INT)"
QUERIES = [
    "SELECT * FROM a, b WHERE a.k = b.k AND a.x > 1 AND b.y + a.y > 2",
    "SELECT a.k, b.y FROM a, b WHERE b.x - a.x BETWEEN -1 AND 1",
    "SELECT a.k, b.y FROM a JOIN b ON b.x > a.x AND b.x < a.x + 3",
    "SELECT * FROM a JOIN b ON a.k + 1 = b.x * 2 AND a.y <> b.y",
    "SELECT * FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1 AND b.y > 1",
    "SELECT * FROM a RIGHT JOIN b ON a.k = b.k AND a.x >= b.x",
    "SELECT * FROM a FULL JOIN b ON a.k = b.x + 1",
    "SELECT * FROM a FULL JOIN b USING (k)",
    "SELECT k, a.x, b.x FROM a LEFT JOIN b USING (k, x)",
    "SELECT * FROM a NATURAL JOIN c",
    "SELECT 1 FROM a CROSS JOIN c",
    "SELECT a.k, b.k, c.k FROM a, b LEFT JOIN c ON b.x = c.x WHERE a.k = b.k AND c.k = a.x",
    "SELECT a.k, b.k, c.k FROM a, b FULL JOIN c ON b.k = c.k WHERE a.k = c.x",
    "SELECT * FROM a SEMI JOIN b ON a.k = b.k AND b.y > a.x",
    "SELECT * FROM a ANTI JOIN b ON a.k = b.k",
    "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y < a.x AND b.x = 1)",
    "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.y >= a.y AND b.k <> a.k)",
    "SELECT * FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x > 2)",
    "SELECT * FROM a WHERE k IN (SELECT x FROM b WHERE y > 0)",
    "SELECT * FROM a WHERE k + 1 IN (SELECT x FROM b WHERE b.y = a.y)",
    "SELECT * FROM a WHERE (k, x) IN (SELECT k, x FROM c)",
    "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b WHERE x > 9)",
    "SELECT * FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.x = a.x)",
    "SELECT * FROM a WHERE k NOT IN (SELECT k + 1 FROM b WHERE b.x > a.x AND b.y = a.y)",
    "SELECT * FROM a WHERE k NOT IN (SELECT max(k) FROM b GROUP BY x) AND x > 0",
    "SELECT * FROM a WHERE x > 0 AND NOT (k IN (SELECT k FROM b UNION ALL SELECT x FROM c))",
    "SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x NOT IN "
    "(SELECT c.x FROM c WHERE c.k = b.k))",
    "SELECT DISTINCT k, x + 1 FROM a",
    "SELECT k, count(*), count(x), sum(y), min(x), max(y), count(DISTINCT y) FROM a GROUP BY k",
    "SELECT k + x AS s, count(*) AS n FROM a GROUP BY s HAVING n > 1 AND sum(y) > 1",
    "SELECT sum(x) FILTER (WHERE y > 1), count(*) FILTER (WHERE k IS NULL) FROM a WHERE k > 99",
    "SELECT x, sum(k * 2) + 1, max(y) - min(y) FROM a GROUP BY 1 HAVING count(*) > 1 OR x IS NULL",
    "SELECT k FROM a GROUP BY k",
    "SELECT a.k, count(b.k) FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "SELECT k, x FROM a UNION SELECT k, x FROM b",
    "SELECT k, x FROM a UNION ALL SELECT k, x FROM b",
    "SELECT k, x FROM a INTERSECT SELECT k, x FROM b",
    "SELECT k FROM a INTERSECT ALL SELECT k FROM b",
    "SELECT k, x FROM a EXCEPT SELECT k, x FROM b",
    "SELECT k FROM a EXCEPT ALL SELECT k FROM b",
    "SELECT k FROM a UNION ALL SELECT k FROM b INTERSECT SELECT k FROM c EXCEPT SELECT x FROM c",
    "WITH q AS (SELECT k, count(*) AS n FROM a GROUP BY k) SELECT q.n, r.n FROM q, q r "
    "WHERE q.n = r.n AND q.k <> r.k",
    "SELECT * FROM a WHERE k IN (1, 2, NULL) OR x NOT IN (1, 2)",
    "SELECT * FROM a WHERE NOT (k > 1 AND x < 2) AND (y IS NULL OR y BETWEEN 1 AND 2)",
    "SELECT * FROM a WHERE k IS NOT DISTINCT FROM x OR (k > 1) IS NOT TRUE",
    "SELECT CASE WHEN k > 1 THEN x WHEN k = 1 THEN 7 ELSE y END, coalesce(x, k, 0), -k FROM a",
    "SELECT p.k, q.k FROM (SELECT k, x FROM a WHERE x > 0) p JOIN (SELECT * FROM b) q ON p.x = q.y",
]


def catalog() -> MemoryCatalog:
    result = MemoryCatalog()
    for statement in parse_script(SCHEMA):
        assert isinstance(statement, CreateTable)
        result.add(table_def(statement))
    return result


def contents(seed: int) -> plan_bags.Tables:
    chance = random.Random(seed)

    def cell() -> int | None:
        return chance.choice([None, 0, 1, 2, 3]) if seed % 3 else chance.choice([0, 1, 2, 3])

    def table(width: int) -> list[plan_bags.Row]:
        return [tuple(cell() for _ in range(width)) for _ in range(chance.randrange(0, 9))]

    return {"a": table(3), "b": table(3), "c": table(2)}


@pytest.fixture(scope="module")
def connections() -> list[tuple[plan_bags.Tables, duckdb.DuckDBPyConnection]]:
    result = []
    for seed in range(12):
        connection = duckdb.connect()
        connection.execute(SCHEMA)
        tables = contents(seed)
        for name, content in tables.items():
            marks = ", ".join("?" * (2 if name == "c" else 3))
            for row in content:
                connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)
        result.append((tables, connection))
    return result


@pytest.mark.parametrize("sql", QUERIES)
def test_same_rows(
    sql: str, connections: list[tuple[plan_bags.Tables, duckdb.DuckDBPyConnection]]
) -> None:
    statement = parse_statement(sql)
    assert isinstance(statement, Select)
    node = bind(statement.body.query, catalog()).node
    for tables, connection in connections:
        expected = Counter(connection.execute(sql).fetchall())
        assert Counter(plan_bags.rows(node, tables)) == expected, tables
