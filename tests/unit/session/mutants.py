"""Mutated statements: good ones with tokens taken out, doubled, swapped, replaced or spliced.

A statement is a function of its seed, so that one which fails can be run again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

SETUP = """
CREATE STREAM r (k INT, a BIGINT, x DOUBLE, s STRING, d DECIMAL(10, 2), ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM e (k INT, s STRING, at TIMESTAMP) TIMESTAMP BY at DELAY 1 SECOND RETAIN 1 HOUR;
CREATE TABLE t (k INT, b BIGINT, name STRING);
CREATE TABLE n (k INT, v STRING) NONRETROACTIVE;
INSERT INTO t VALUES (1, 2, 'x'), (2, NULL, 'y');
CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS c FROM r [RANGE 10] GROUP BY k
"""

GOOD = [
    "CREATE STREAM z (k INT, p DECIMAL(9, 3), ts TIMESTAMP) TIMESTAMP BY ts DELAY 5 SECONDS "
    "MAX AHEAD 1 DAY IDLE AFTER 10 SECONDS TICK 1 SECOND RETAIN 1 HOUR",
    "CREATE TABLE IF NOT EXISTS u (k INT, w VARCHAR) NONRETROACTIVE",
    "INSERT INTO t (k, name) VALUES (1, 'a'), (-2, NULL), (3, 'it''s')",
    "UPDATE t SET b = b * 2 + k, name = upper(name) WHERE k IN (1, 2, 3) AND b IS NOT NULL",
    "DELETE FROM t WHERE name LIKE 'x%' OR b BETWEEN 1 AND 9",
    "CREATE MATERIALIZED VIEW w AS SELECT k, sum(x) AS s FROM r [RANGE 10 SLIDE 5] GROUP BY k",
    "CREATE SINK out FROM v INTO console OPTIONS (rows 5)",
    "DROP STREAM IF EXISTS z",
    "DROP MATERIALIZED VIEW w",
    "SHOW STREAMS",
    "DESCRIBE r",
    "EXPLAIN SELECT k FROM r [RANGE 5] WHERE a > 3",
    "EXPLAIN v",
    "SELECT * FROM r [ROWS 10] WHERE s = 'two' OR NOT (a >= 2.5)",
    "SELECT DISTINCT k, s FROM r [PARTITION BY k ROWS 3]",
    "SELECT r.k, t.name FROM r [RANGE 10] JOIN t ON r.k = t.k AND t.b > 1",
    "SELECT r.k, n.v FROM r JOIN n ON r.k = n.k",
    "SELECT p.k FROM r [RANGE 10] p LEFT JOIN r [RANGE 5] AS q ON p.k = q.k AND p.ts <= q.ts + 3",
    "SELECT k FROM r [RANGE 9] UNION ALL SELECT b FROM t",
    "SELECT k, s FROM r [RANGE 9] EXCEPT SELECT k, s FROM r [RANGE 3]",
    "SELECT k FROM r [RANGE 9] INTERSECT SELECT k FROM r [NOW]",
    "SELECT k FROM r [RANGE 10] WHERE k NOT IN (SELECT k FROM t WHERE b > 1)",
    "SELECT k FROM r [RANGE 10] p WHERE EXISTS (SELECT 1 FROM r [RANGE 5] q WHERE q.a = p.a)",
    "WITH c (k, m) AS (SELECT k, max(a) FROM r [RANGE 10] GROUP BY k) SELECT * FROM c WHERE m > 3",
    "SELECT s, avg(x) AS m, median(a) AS n, count(DISTINCT k) AS c FROM r [RANGE 60] GROUP BY 1 "
    "HAVING count(*) > 1",
    "SELECT CASE WHEN a > 1 THEN 'big' WHEN a IS NULL THEN NULL ELSE s END AS c FROM r [RANGE 5]",
    "SELECT CASE k WHEN 1 THEN a ELSE 0 END AS c, coalesce(s, 'none') AS s FROM r [RANGE 5]",
    "SELECT CAST(a AS DOUBLE) / 3 AS q, -x AS m, a % 3 AS r, d * 1.5 AS p FROM r [RANGE 5]",
    "SELECT a::STRING || '-' || s AS t, length(s) AS n, substring(s, 1, 2) AS u FROM r [RANGE 5]",
    "SELECT extract(HOUR FROM at) AS h, at + INTERVAL 5 MINUTES AS l, date_trunc('hour', at) AS t "
    "FROM e [RANGE 1 HOUR SLIDE 10 MINUTES]",
    "SELECT * FROM e [RANGE 2 SECONDS] WHERE at > TIMESTAMP '2026-01-31 12:00:00' "
    "AND at < DATE '2027-01-01'",
    "SELECT k, count(*) FILTER (WHERE a > 2) AS c FROM r [UNBOUNDED] GROUP BY k EMIT ON COMMIT",
    "SELECT a FROM r [RANGE 5] WHERE s ILIKE '%A_' AND a IS DISTINCT FROM 3 WITH HISTORY",
    "SELECT y.z FROM (SELECT k AS z, a FROM r [RANGE 5]) y WHERE y.a IN (1, NULL, 2)",
    "SELECT v.c FROM v WHERE v.k = 1",
    "SELECT p.k FROM r [RANGE 5] p NATURAL JOIN r [RANGE 5] q",
    "SELECT k FROM r [RANGE 5] p FULL JOIN t USING (k)",
    "SELECT count(*) AS c FROM r [RANGE 5] GROUP BY k, upper(s) EMIT CHANGES PER ROW",
]

ODD = [
    *"()[]{},;.*/+-=<>%|&^~!?:@#\\$\"'`", "//", "||", "::", "<>", "!=", "<=>", "->", "=>", "**",
    "''", "()", "[]", "NULL", "TRUE", "NaN", "1e999", "1e-999", "0x1F", "1_000", "-0.0", ".5",
    "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999999999",
    "-9223372036854775808", "0", "'\u00e9'", "'\\'", "'\U0001f600'", "\ud800", "\x00", "/*", "--",
    "$p", "$1", "?", ":x", "@v", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY k",
    "LIMIT 5", "OFFSET 2", "UNION", "EXCEPT ALL", "INTERSECT", "JOIN", "ON", "USING (k)", "CROSS",
    "NATURAL", "SEMI", "ANTI", "LATERAL", "IN", "IN ()", "NOT", "AND", "OR", "IS", "LIKE",
    "BETWEEN", "EXISTS", "CASE", "WHEN", "END", "CAST(", "TRY_CAST(a AS INT)", "AS", "DISTINCT",
    "OVER ()", "FILTER (WHERE a > 1)", "WITHIN GROUP", "ALL", "ANY", "SOME", "INTERVAL",
    "INTERVAL '1' MONTH", "AT TIME ZONE 'UTC'", "DATE '2026-13-99'", "TIMESTAMP 'x'", "RANGE",
    "ROWS", "SLIDE", "PARTITION BY", "NOW", "[RANGE 0]", "[ROWS 9223372036854775808]",
    "[RANGE 9223372036854775808]", "[RANGE $w]", "[NOW]", "[UNBOUNDED]", "EMIT", "WITH HISTORY",
    "WITH", "RECURSIVE", "VALUES (1)", "UNNEST(k)", "TABLESAMPLE (10)", "PIVOT", "QUALIFY",
    "sum(", "count(*)", "count(", "avg(DISTINCT x)", "nope(k)", "ln(0)", "sqrt(-1)", "lag(a)",
    "r", "e", "t", "v", "n", "k", "a", "x", "s", "d", "ts", "at", "r.*", "*", "r.k.k", "DECIMAL",
    "DECIMAL(40, 2)", "NUMERIC(3, 9)", "VARCHAR(3)", "ARRAY<INT>", "STRUCT<a INT>", "MAP", "JSON",
    "DEFAULT", "PRIMARY KEY", "NOT NULL", "OPTIONS", "OPTIONS (a 'b')", "CREATE", "DROP", "SHOW",
]  # fmt: skip


def statements(seed: int, count: int) -> Iterator[str]:
    """Mutants, one after another."""
    luck = random.Random(seed)
    for _ in range(count):
        yield _mutant(luck)


def _mutant(luck: random.Random) -> str:
    tokens = _tokens(luck.choice(GOOD))
    for _ in range(luck.choice((0, 1, 1, 1, 1, 2, 3, 5))):
        tokens = luck.choice(_WAYS)(tokens, luck)
    text = luck.choice((" ", " ", " ", "\n", "  ")).join(tokens)
    return text[: luck.randrange(len(text) + 1)] if luck.random() < 0.05 else text


def _tokens(text: str) -> list[str]:
    return re.findall(r"'(?:[^']|'')*'|\w+|\S", text)


def _delete(tokens: list[str], luck: random.Random) -> list[str]:
    at = luck.randrange(len(tokens) + 1)
    return tokens[:at] + tokens[at + luck.choice((1, 1, 2, 5)) :]


def _double(tokens: list[str], luck: random.Random) -> list[str]:
    start = luck.randrange(len(tokens) + 1)
    some = tokens[start : start + luck.choice((1, 2, 4))]
    return tokens[:start] + some * luck.choice((2, 2, 3)) + tokens[start + len(some) :]


def _swap(tokens: list[str], luck: random.Random) -> list[str]:
    if not tokens:
        return tokens
    a, b = luck.randrange(len(tokens)), luck.randrange(len(tokens))
    tokens[a], tokens[b] = tokens[b], tokens[a]
    return tokens


def _insert(tokens: list[str], luck: random.Random) -> list[str]:
    at = luck.randrange(len(tokens) + 1)
    return [*tokens[:at], luck.choice(ODD), *tokens[at:]]


def _replace(tokens: list[str], luck: random.Random) -> list[str]:
    at = luck.randrange(len(tokens) + 1)
    return [*tokens[:at], luck.choice(ODD), *tokens[at + 1 :]]


def _splice(tokens: list[str], luck: random.Random) -> list[str]:
    other = _tokens(luck.choice(GOOD))
    return tokens[: luck.randrange(len(tokens) + 1)] + other[luck.randrange(len(other)) :]


def _nest(tokens: list[str], luck: random.Random) -> list[str]:
    start = luck.randrange(len(tokens) + 1)
    end = luck.randrange(start, len(tokens) + 1)
    return [*tokens[:start], "(", *tokens[start:end], ")", *tokens[end:]]


_WAYS = (_delete, _double, _swap, _insert, _insert, _replace, _replace, _splice, _nest)
