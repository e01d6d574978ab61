"""Which texts are known, and when they no longer are."""

from __future__ import annotations

import pytest

import penstock
from penstock.session import known_texts
from penstock.session.known_texts import KnownTexts
from penstock.session.session import Session
from penstock.sql.catalog import MemoryCatalog, TableDef, stream_def
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateStream

STREAM = "CREATE STREAM r (k INT, a INT, p DOUBLE, name STRING, ts BIGINT) TIMESTAMP BY ts"


def _catalog() -> MemoryCatalog:
    found = MemoryCatalog()
    statement = parse_statement(STREAM)
    assert isinstance(statement, CreateStream)
    found.add(stream_def(statement))
    return found


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that went the full way."""
    full: list[str] = []
    parse = known_texts.parse_tokens

    def count(tokens: object, text: object) -> object:
        full.append(text.sql)  # type: ignore[attr-defined]
        return parse(tokens, text)  # type: ignore[arg-type]

    monkeypatch.setattr(known_texts, "parse_tokens", count)
    return full


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("k = 1 AND name = 'x'", "k = 22 AND name = 'it''s'", [22, "it's"]),
        ("k BETWEEN 1 AND 3", "k  BETWEEN 10 AND\n 30", [10, 30]),
        ("k > -5", "k > -2147483648", [-2147483648]),
        ("p < 1.5", "p < 2", [2.0]),
        ("name LIKE 'a%' AND k IN (1, 2)", "name LIKE '_' AND k IN (3, 3)", ["_", 3, 3]),
        ("k < 2 OR NOT k = 3", "k < 2.0 OR NOT k = 4", [2, 4]),
    ],
)
def test_other_constants(first: str, second: str, values: list[object], parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    one = texts.prepare(f"SELECT k FROM r [NOW] WHERE {first}", catalog)
    two = texts.prepare(f"SELECT k FROM r [NOW] WHERE {second}", catalog)
    assert len(parsed) == 1
    assert two.compiled.template is one.compiled.template
    assert [x.value for x in two.compiled.literals] == values


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("WHERE k = 1", "WHERE k = 3000000000"),  # not an INT
        ("WHERE k = 1.5", "WHERE k = 2"),  # fits an INT
        ("WHERE a IN (1, 2)", "WHERE a IN (1, 3, 5)"),
        ("WHERE a IN (1, 2)", "WHERE a IN (1, 3.5)"),
        ("WHERE a + 1 > 2", "WHERE a + 2 > 2"),
        ("WHERE k = 1", "WHERE k = -1"),
        ("WHERE k = 1", "WHERE k IS NULL"),
        ("WHERE k = 1", 'WHERE "k" = 1'),
        ("GROUP BY k, a, a > 5 HAVING a > 7", "GROUP BY k, a, a > 5 HAVING a > 5"),
        ("WHERE k = 1", "WHERE k = 1 WITH HISTORY"),
    ],
)
def test_other_templates_are_parsed(first: str, second: str, parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    for end in (first, second, first, second):
        made = texts.prepare(f"SELECT k FROM r [ROWS 5] {end}", catalog)
        assert made == KnownTexts().prepare(f"SELECT k FROM r [ROWS 5] {end}", catalog)
    assert len([*parsed]) == 2 + 4  # once each, and every time in the fresh ones


def test_windows_differ(parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    for length in (5, 6, 5):
        made = texts.prepare(f"SELECT k FROM r [RANGE {length}] WHERE k = {length}", catalog)
        assert f"length={length}" in repr(made.compiled.template)
    assert len(parsed) == 2


def test_a_name_that_means_something_else(parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    sql = "SELECT k FROM r [ROWS 5] WHERE k = {}"
    texts.prepare(sql.format(1), catalog)
    catalog.add(TableDef("other", catalog.relations["r"].schema))  # type: ignore[union-attr]
    texts.prepare(sql.format(2), catalog)
    assert len(parsed) == 1
    catalog.add(stream_def(parse_statement(STREAM.replace("k INT", "k BIGINT"))))  # type: ignore[arg-type]
    made = texts.prepare(sql.format(3), catalog)
    assert len(parsed) == 2
    assert str(made.compiled.literals[0].type) == "BIGINT"


def test_texts_are_forgotten_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    monkeypatch.setattr(known_texts, "_MOST_TEXTS", 3)
    texts, catalog = KnownTexts(), _catalog()
    for n in (1, 2, 3, 1, 4, 1):
        texts.prepare(f"SELECT k AS c{n} FROM r [NOW]", catalog)
    assert len(parsed) == 5


def test_queries_of_known_texts_answer() -> None:
    ps = penstock.connect(runner="inprocess")
    assert isinstance(ps, Session)
    ps.sql(STREAM)
    queries = [ps.query(f"SELECT a FROM r [RANGE 5] WHERE k = {k}") for k in range(3)]
    rows = [{"k": k, "a": 10 * k, "p": 0.0, "name": "", "ts": 1} for k in range(3)]
    ps.push("r", rows)
    assert [q.view().to_pylist() for q in queries] == [[{"a": 0}], [{"a": 10}], [{"a": 20}]]


def test_a_text_of_many_queries_is_known_as_a_whole(parsed: list[str]) -> None:
    """A constant may give a parameter its type, so another constant means another text."""
    with penstock.connect(runner="inprocess") as ps:
        ps.sql(STREAM)
        text = "SELECT k FROM r [RANGE 5] WHERE a > $low AND $high < {}"
        ps.query_many(text.format(5), [{"low": 1, "high": 2}])
        again = ps.query_many(text.format(5), [{"low": 3, "high": 4}, {"low": 0, "high": 1}])
        assert len(parsed) == 1
        ps.query_many(text.format(7), [{"low": 1, "high": 2}])
        assert len(parsed) == 2
        ps.push("r", [{"k": 1, "a": 2, "p": 0.0, "name": "x", "ts": 1}])
        assert [query.view().num_rows for query in again] == [0, 1]
        with pytest.raises(penstock.PenstockError, match=r"query_many\(\) takes a SELECT"):
            ps.query_many("SHOW TABLES", [])
