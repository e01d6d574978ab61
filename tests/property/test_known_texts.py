"""A text that is known by its tokens gives exactly what the full way gives, errors included.

A SELECT may stand alone or in CREATE MATERIALIZED VIEW: then the plan that stands for the view is
compared too, and what a query over it becomes.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from sqlglot.tokenizer_core import TokenType

from penstock.errors import PenstockError
from penstock.logical.nodes import Node
from penstock.session.compile import Compiled, compile_select
from penstock.session.known_texts import KnownTexts
from penstock.sql import body
from penstock.sql.binder import bind
from penstock.sql.catalog import MemoryCatalog, ViewDef, stream_def, table_def
from penstock.sql.cursor import Text
from penstock.sql.dialect import tokenize
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateStream, CreateTable, CreateView, Select
from property.cases import CHUNKS, seeds, tally
from property.data import STREAMS, TABLES
from property.plans import Plans

WIDE = """CREATE STREAM w (k INT, a INT, b BIGINT, p DOUBLE, f FLOAT, d DECIMAL(10,2),
    e DECIMAL(18,0), name STRING, ok BOOLEAN, day DATE, at TIMESTAMP, ts TIMESTAMP)
    TIMESTAMP BY ts"""
VIEWS = {
    "busy": "SELECT k, a FROM w WHERE a > 7 AND name = 'x'",
    "counts": "SELECT k, count(*) AS n FROM w [RANGE 1 HOUR] WHERE p > 1.5 GROUP BY k",
}
FORMS = (
    "SELECT k FROM w [NOW] WHERE k = 1 AND b > 2 AND p <= 1.5 AND d <> 10.25 AND name = 'x'",
    "SELECT k FROM w [NOW] WHERE 1 < k AND -2 >= b AND NOT (p = -1.5 OR d = - -3)",
    "SELECT k FROM w [NOW] WHERE f > 1.5 AND e < 100 AND k BETWEEN 1 AND 20",
    "SELECT k FROM w [NOW] WHERE day >= '2024-01-01' AND at < '2024-01-01 10:00:00'",
    "SELECT k FROM w [NOW] WHERE at = TIMESTAMP '2024-01-01 10:00:00' AND day < DATE '2024-02-01'",
    "SELECT k FROM w [NOW] WHERE name LIKE 'a%' AND name IN ('x', 'y') AND a IN (1, 2, 3)",
    "SELECT k, 5 AS five, 'x' AS x FROM w [RANGE 5 MINUTES] WHERE five > 3",
    "SELECT k + 1 AS z, count(*) AS n FROM w [RANGE 90 SECONDS SLIDE 30 SECONDS] WHERE a > 5 "
    "GROUP BY k + 1 HAVING count(*) > 2 AND sum(b) < 100 AND z > 3",
    "SELECT a > 5 AS big, a, max(k) AS m FROM w [ROWS 10] GROUP BY a, a > 5 "
    "HAVING a > 7 AND max(k) = 3",
    "SELECT a > 5 AS big, a FROM w [ROWS 10] GROUP BY a HAVING big AND count(*) > 1",
    "SELECT 'x' AS c, max(name) AS m FROM w [ROWS 10] GROUP BY 'x' HAVING max(name) = 'y'",
    "SELECT k, count(*) FILTER (WHERE a > 5) AS n FROM w [NOW] GROUP BY 1 HAVING count(*) > 5",
    "SELECT x.k FROM w [RANGE 1 HOUR] x JOIN w [RANGE 2 HOURS] y ON x.k = y.k AND y.a > 5 "
    "AND y.b BETWEEN x.b - 10 AND x.b + 10 WHERE x.a < 3",
    "SELECT x.k FROM w [RANGE 5 MINUTES] x JOIN w [RANGE 5 MINUTES] y ON x.k = y.k "
    "WHERE x.a > 5 AND y.b < 7",
    "SELECT x.k FROM r [RANGE 5] x JOIN s [RANGE 5] y ON x.k = y.k JOIN u [RANGE 7] z ON y.k = z.k",
    "WITH c AS (SELECT k, a FROM w [RANGE 5 SECONDS] WHERE a > 5) "
    "SELECT x.k FROM c x JOIN c y ON x.k = y.k UNION ALL SELECT k FROM c WHERE a < 7",
    "SELECT x.k FROM busy [RANGE 5 HOURS] x JOIN busy [RANGE 5 HOURS] y ON x.k = y.k",
    "SELECT k FROM busy WHERE a > 7 AND k < 3",
    "SELECT k FROM counts WHERE n > 7 AND k IS NOT DISTINCT FROM 3",
    "WITH c AS (SELECT k, a FROM w [NOW] WHERE a > 5) SELECT x.k FROM c x, c y "
    "WHERE x.k = y.k AND x.a > 2",
    "SELECT k FROM w [NOW] WHERE k NOT IN (SELECT a FROM w [NOW] WHERE b > 5) AND p > 1e3",
    "SELECT CASE WHEN a > 5 THEN 1 ELSE 2.5 END AS c FROM w [NOW] WHERE CASE a WHEN 3 THEN 1 "
    "ELSE 0 END = 1 AND coalesce(a, 4) > 2 AND round(p, 2) = 1.25",
    "SELECT k FROM w [NOW] WHERE at > ts - INTERVAL 5 MINUTES AND at < ts + INTERVAL '2' HOURS",
    "SELECT k FROM w [NOW] WHERE CAST(a AS DECIMAL(10, 2)) > 1.5 AND a + 2 > 3 AND 4 = 4 AND k > 2",
    "SELECT k FROM w [NOW] WHERE a > .5 AND a < 5. AND p > 0.5e1 AND name = 'it''s' AND $p = 4",
    "SELECT k FROM w [NOW] WHERE k = 7 AND a >= 2 EMIT ON COMMIT WITH HISTORY",
    "SELECT k FROM w [RANGE 5 MINUTES] WHERE a = 5 AND ok = 1; SELECT k FROM w [NOW]",
)
NUMBERS = (
    "0", "1", "2", "3", "5", "7", "10", "20", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.5", "1.50", "2.0", "10.25", "0.001", "123456789012345678901.5",
    "1e3", "1_000", "2e0", "1e400", "0.0", "0e0", "12345678901234567",
)  # fmt: skip
STRINGS = (
    "'x'", "'y'", "''", "'it''s'", "'a%'", "'2024-01-01'", "'2024-02-30'", "'2024-01-01 10:00:00'",
    "'2024-01-01T10:00:00+02:00'", "'12'", "'true'",
)  # fmt: skip


def _catalog() -> MemoryCatalog:
    found = MemoryCatalog()
    for sql in (WIDE, *(d.ddl() for d in (*STREAMS.values(), *TABLES.values()))):
        statement = parse_statement(sql)
        if isinstance(statement, CreateStream):
            found.add(stream_def(statement))
        else:
            assert isinstance(statement, CreateTable)
            found.add(table_def(statement))
    for name, sql in VIEWS.items():
        select = parse_statement(sql)
        assert isinstance(select, Select)
        found.add(ViewDef(name, bind(select.body.query, found).node))
    return found


def _varied(sql: str, rng: Random, numbers: list[str], strings: list[str]) -> str:
    """The text with some of its numbers and strings replaced."""
    out, at, share = "", 0, rng.choice((0.1, 0.5))
    for token in tokenize(Text(sql)):
        if token.token_type not in (TokenType.NUMBER, TokenType.STRING) or rng.random() > share:
            continue
        is_number = (token.token_type is TokenType.NUMBER) == (rng.random() < 0.95)
        out += sql[at : token.start] + rng.choice(numbers if is_number else strings)
        at = token.end + 1
    return out + sql[at:]


def _as_view(sql: str, rng: Random) -> str:
    """The SELECT as the definition of a view, or as it is."""
    if rng.random() < 0.5:
        return sql
    kept = rng.choice(("", "IF NOT EXISTS ", "/* again */ if\nnot exists "))
    between = rng.choice((" AS ", " as\n  ", " AS -- its rows\n"))
    return f"CREATE MATERIALIZED VIEW {kept}v{rng.randrange(9)}{between}{sql}"


def _outcome(texts: KnownTexts, sql: str, catalog: MemoryCatalog) -> tuple[Any, ...]:
    try:
        statement = parse_statement(sql, texts.recognise)
        if isinstance(statement, CreateView):
            node, made = texts.define(statement.select, catalog)
            named = (statement.name, node, hash(node), *_over(node, catalog))
        else:
            assert isinstance(statement, Select)
            made, named = texts.prepare(statement, catalog), ()
    except PenstockError as error:
        return type(error), error.code, error.message, error.place, error.remedy
    return made, *_parts(made.compiled), *named, statement.place, statement.source


def _parts(compiled: Compiled) -> tuple[Any, ...]:
    return repr(compiled.literals), compiled.params, hash(compiled.template)


def _over(node: Node, catalog: MemoryCatalog) -> tuple[Any, ...]:
    """What a query over two windows of a view becomes: a shared window is one parameter."""
    known = MemoryCatalog({**catalog.relations, "here": ViewDef("here", node)}, catalog.udfs)
    over = parse_statement("SELECT * FROM here x, here y WHERE 1 = 1")
    assert isinstance(over, Select)
    try:
        compiled = compile_select(over, known)
    except PenstockError as error:
        return type(error), error.code, error.message
    return compiled.template, *_parts(compiled)


def _known(cases: range, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many texts of the cases took the short way, of how many; all give what the full does."""
    catalog, full = _catalog(), []
    known = tried = 0
    parse = body.parse_query
    monkeypatch.setattr(body, "parse_query", lambda *a: full.append(a[1].sql) or parse(*a))
    for seed in cases:
        rng, texts = Random(seed), KnownTexts()
        sql = rng.choice(FORMS) if rng.random() < 0.5 else Plans(rng).query(rng.choice((0, 1, 2)))
        pools = (rng.sample(NUMBERS, rng.choice((2, 20))), rng.sample(STRINGS, rng.choice((2, 9))))
        for _ in range(12):
            text = _as_view(_varied(sql, rng, *pools), rng)
            expected = _outcome(KnownTexts(), text, catalog)
            full.clear()
            assert _outcome(texts, text, catalog) == expected, text
            known += text not in full
            tried += 1
    return known, tried


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_known_texts_are_what_the_full_way_gives(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, tried = _known(seeds(31, chunk, 200), monkeypatch)
    tally["texts known"] += known
    tally["texts"] += tried


def test_many_of_them_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known, tried = _known(range(310_000_000, 310_000_020), monkeypatch)
    assert known >= 0.2 * tried
