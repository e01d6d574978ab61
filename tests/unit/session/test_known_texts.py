"""Which texts are known, and when they no longer are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import Place, SqlSyntaxError
from penstock.session import known_texts
from penstock.session.known_texts import KnownTexts, Prepared
from penstock.session.query import Query
from penstock.session.session import Session
from penstock.sql import body
from penstock.sql.catalog import MemoryCatalog, TableDef, stream_def
from penstock.sql.parser import parse_statement
from penstock.sql.statements import CreateStream, Select

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
    parse = body.parse_query

    def count(tokens: Any, text: Any, place: Any) -> Any:
        full.append(text.sql)
        return parse(tokens, text, place)

    monkeypatch.setattr(body, "parse_query", count)
    return full


def _prepare(texts: KnownTexts, sql: str, catalog: MemoryCatalog) -> Prepared:
    select = parse_statement(sql, texts.recognise)
    assert isinstance(select, Select)
    return texts.prepare(select, catalog)


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
    one = _prepare(texts, f"SELECT k FROM r [NOW] WHERE {first}", catalog)
    two = _prepare(texts, f"SELECT k FROM r [NOW] WHERE {second}", catalog)
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
        made = _prepare(texts, f"SELECT k FROM r [ROWS 5] {end}", catalog)
        assert made == _prepare(KnownTexts(), f"SELECT k FROM r [ROWS 5] {end}", catalog)
    assert len([*parsed]) == 2 + 4  # once each, and every time in the fresh ones


def test_windows_differ(parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    for length in (5, 6, 5):
        made = _prepare(texts, f"SELECT k FROM r [RANGE {length}] WHERE k = {length}", catalog)
        assert f"length={length}" in repr(made.compiled.template)
    assert len(parsed) == 2


def test_a_name_that_means_something_else(parsed: list[str]) -> None:
    texts, catalog = KnownTexts(), _catalog()
    sql = "SELECT k FROM r [ROWS 5] WHERE k = {}"
    _prepare(texts, sql.format(1), catalog)
    catalog.add(TableDef("other", catalog.relations["r"].schema))  # type: ignore[union-attr]
    _prepare(texts, sql.format(2), catalog)
    assert len(parsed) == 1
    catalog.add(stream_def(parse_statement(STREAM.replace("k INT", "k BIGINT"))))  # type: ignore[arg-type]
    made = _prepare(texts, sql.format(3), catalog)
    assert len(parsed) == 2
    assert str(made.compiled.literals[0].type) == "BIGINT"


def test_texts_are_forgotten_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    monkeypatch.setattr(known_texts, "_MOST_TEXTS", 3)
    texts, catalog = KnownTexts(), _catalog()
    for n in (1, 2, 3, 1, 4, 1):
        _prepare(texts, f"SELECT k AS c{n} FROM r [NOW]", catalog)
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


# ---- statements of sql() -------------------------------------------------------------
@pytest.fixture
def ps() -> Iterator[Any]:
    with penstock.connect(runner="inprocess") as session:
        session.sql(STREAM)
        yield session


VIEW = "CREATE MATERIALIZED VIEW {} AS SELECT k, a FROM r [RANGE {}] WHERE a > {} AND name = '{}'"


def _row(k: int, a: int, name: str = "x", ts: int = 1) -> dict[str, object]:
    return {"k": k, "a": a, "p": 0.0, "name": name, "ts": ts}


def _rows(query: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in query.view().to_pylist()), key=repr)


def test_a_view_with_other_constants_is_not_parsed(ps: Any, parsed: list[str]) -> None:
    views = [ps.sql(VIEW.format(f"v{a}", 5, a, "xy"[a % 2])) for a in range(4)]
    spread = ps.sql(
        "create materialized view if not exists w -- another one\n"
        "as select k, a from r\t[range 5] where a > 2 /* much */ and name = 'x' ;"
    )
    alone = ps.query("SELECT k, a FROM r [RANGE 5] WHERE a > 1 AND name = 'x'")
    standing = ps.sql("SELECT k, a FROM r [RANGE 5] WHERE a > 3 AND name = 'x'")
    assert len(parsed) == 2  # the words of w are written in small letters
    ps.push("r", [_row(k, k, "xy"[k % 2]) for k in range(6)])
    assert [_rows(v) for v in views] == [[(2, 2), (4, 4)], [(3, 3), (5, 5)], [(4, 4)], [(5, 5)]]
    assert _rows(spread) == _rows(views[2])
    assert _rows(alone) == [(2, 2), (4, 4)]
    assert _rows(standing) == [(4, 4)]


def test_a_query_over_a_known_view_has_its_constants(ps: Any, parsed: list[str]) -> None:
    for a in (1, 2, 3):
        ps.sql(VIEW.format(f"v{a}", 5, a, "x"))
        ps.sql(f"CREATE MATERIALIZED VIEW w{a} AS SELECT k FROM v{a} WHERE k < 9")
    assert len(parsed) == 1 + 3  # each w reads another view
    ps.push("r", [_row(k, k) for k in range(5)])
    assert [_rows(ps[f"w{a}"]) for a in (1, 2, 3)] == [[(2,), (3,), (4,)], [(3,), (4,)], [(4,)]]


def test_lengths_of_windows_of_known_views(ps: Any, parsed: list[str]) -> None:
    join = (
        "CREATE MATERIALIZED VIEW j{0} AS WITH c AS (SELECT k, a FROM r [RANGE {0}] WHERE a > 0) "
        "SELECT x.a, y.a AS b FROM c x JOIN c y ON x.k = y.k"
    )
    for length in (2, 9):
        ps.sql(join.format(length))
        ps.sql(f"CREATE MATERIALIZED VIEW n{length} AS SELECT b FROM j{length} WHERE b > 0")
    assert len(parsed) == 3
    ps.push("r", [_row(1, 1, ts=1), _row(1, 2, ts=2)])
    ps.push("r", [_row(1, 3, ts=5)])
    assert _rows(ps["n2"]) == _rows(ps["n2"]) == [(3,)]
    assert _rows(ps["n9"]) == [(1,)] * 3 + [(2,)] * 3 + [(3,)] * 3
    with pytest.raises(penstock.PenstockError, match="positive"):
        ps.sql(join.format(0))


def test_clauses_after_a_known_select_count(ps: Any) -> None:
    body = "SELECT CAST(name AS INT) AS q FROM r [RANGE 9] WHERE k = {}"
    ends = ("ON ERROR NULL", "EMIT ON COMMIT ON ERROR SKIP ROW", "ON ERROR SKIP ROW", "")
    for round_ in range(2):
        for at, end in enumerate(ends):
            k = 10 * round_ + at
            ps.sql(f"CREATE MATERIALIZED VIEW v{k} AS {body.format(k)} {end}")
    ps.push("r", [_row(k, 1, name) for k in (0, 1, 2, 10, 11, 12) for name in "x5"])
    assert [len(_rows(ps[f"v{k}"])) for k in (0, 1, 2, 10, 11, 12)] == [2, 1, 1] * 2
    ps.push("r", [_row(13, 0)])  # 'x' is not an INT
    with pytest.raises(penstock.PenstockError):
        ps["v13"].view()


def test_if_not_exists_compares_known_definitions(ps: Any, parsed: list[str]) -> None:
    first = ps.sql(VIEW.format("v", 5, 1, "x"))
    same = VIEW.format("IF NOT EXISTS v", 5, 1, "x")
    assert ps.sql(same).name == ps.sql(same.replace("AS SELECT", "as  select")).name == first.name
    with pytest.raises(penstock.PenstockError) as error:
        ps.sql("\n  " + VIEW.format("IF NOT EXISTS v", 5, 2, "x"))
    assert (error.value.code, error.value.place) == ("PS-NAME-012", Place(2, 3))
    with pytest.raises(penstock.PenstockError) as error:
        ps.sql("SHOW TABLES;\n" + VIEW.format("v", 5, 2, "x"))
    assert (error.value.code, error.value.place) == ("PS-NAME-008", Place(2, 1))


def test_an_error_is_found_before_a_script_of_known_texts_runs(ps: Any) -> None:
    ps.sql(VIEW.format("v", 5, 1, "x"))
    known = f"{VIEW.format('a', 5, 2, 'y')};\n{VIEW.format('b', 5, 3, 'y')};\n"
    with pytest.raises(SqlSyntaxError) as error:
        ps.sql(known + "SELECT k FROM r WHERE")
    assert error.value.place == Place(3, 17)
    assert ps.sql("SHOW QUERIES").num_rows == 1
    with pytest.raises(penstock.PenstockError) as failed:
        ps.sql(known + VIEW.format("c", 5, 3, "y").replace(" a ", " z "))
    assert (failed.value.code, failed.value.place) == ("PS-NAME-002", Place(3, 66))
    assert ps.sql("SHOW QUERIES").num_rows == 3


def test_a_constant_of_another_type_is_refused_where_it_stands(ps: Any) -> None:
    ps.sql(VIEW.format("v", 5, 1, "x"))
    with pytest.raises(penstock.PenstockError) as error:
        ps.sql(f"SHOW TABLES;\n{VIEW.format('w', 5, 'DATE 1', 'x')}")
    assert error.value.place is not None
    assert error.value.place.line == 2


RENEWED = {
    "a view": (
        "CREATE MATERIALIZED VIEW b AS SELECT k, a FROM r [RANGE 9]",
        "DROP VIEW b",
        "CREATE MATERIALIZED VIEW b AS SELECT a AS k, a FROM r [RANGE 9]",
        "SELECT k FROM b WHERE a > {}",
    ),
    "a table": (
        "CREATE TABLE b (k INT, a INT); INSERT INTO b VALUES (1, 7)",
        "DROP TABLE b",
        "CREATE TABLE b (a INT, k INT); INSERT INTO b VALUES (7, 8)",
        "SELECT b.k FROM r [RANGE 9], b WHERE r.k = 1 AND b.a > {}",
    ),
    "a stream": (
        "CREATE STREAM b (k INT, a INT, ts BIGINT) TIMESTAMP BY ts",
        "DROP STREAM b",
        "CREATE STREAM b (a INT, k INT, ts BIGINT) TIMESTAMP BY ts",
        "SELECT k FROM b [RANGE 9] WHERE a > {}",
    ),
}


@pytest.mark.parametrize("what", RENEWED)
@pytest.mark.parametrize("at_once", [False, True], ids=["calls", "one script"])
def test_a_view_over_something_new_of_that_name(what: str, at_once: bool) -> None:
    """A known text is bound again if a name in it means something else now."""
    make, drop, renew, sql = RENEWED[what]
    old, new = (f"CREATE MATERIALIZED VIEW v AS {sql.format(a)}" for a in (1, 2))
    found = []
    for steps in ([make, old, "DROP VIEW v", drop, renew, new], [renew, new]):
        with penstock.connect(runner="inprocess") as ps:
            ps.sql(STREAM)
            for step in [";".join(steps)] if at_once else steps:
                ps.sql(step)
            ps.push("r", [_row(1, 7), _row(8, 1)])
            if what == "a stream":
                ps.push("b", [{"k": 8, "a": 7, "ts": 1}, {"k": 7, "a": 1, "ts": 1}])
            found.append(_rows(ps["v"]))
    assert found[0] == found[1]
    assert found[1]


def test_a_view_after_its_function_or_stream_was_changed(ps: Any, parsed: list[str]) -> None:
    text = "CREATE MATERIALIZED VIEW v{0} AS SELECT f(a) AS b FROM r [RANGE 9] WHERE k >= {0}"
    ps.register_udf("f", lambda a: a, ["INT"], "INT")
    ps.sql(text.format(0))
    ps.sql(text.format(1))
    assert len(parsed) == 1
    ps.register_udf("f", lambda a: pc.negate(a).cast("int64"), ["INT"], "BIGINT")
    ps.sql(text.format(2))
    assert len(parsed) == 2
    ps.sql("ALTER STREAM r SET RETAIN 5")
    ps.sql(text.format(3) + " WITH HISTORY")
    ps.push("r", [_row(9, 4)])
    assert [_rows(ps[f"v{k}"]) for k in (1, 2, 3)] == [[(4,)], [(-4,)], [(-4,)]]


def test_a_known_select_over_views_is_evaluated_once(ps: Any, parsed: list[str]) -> None:
    ps.sql(VIEW.format("v", 5, 0, "x"))
    sql = "SELECT k FROM v WHERE a > {}"
    query = ps.query(sql.format(1))
    ps.push("r", [_row(k, k) for k in range(4)])
    assert ps.sql(sql.format(2)).to_pylist() == [{"k": 3}]
    assert _rows(query) == [(2,), (3,)]
    ps.sql("SHOW TABLES")
    query.drop()
    ps.sql("DROP VIEW v; CREATE STREAM v (k INT, a INT, ts BIGINT) TIMESTAMP BY ts")
    assert isinstance(ps.sql(sql.format(3)), Query)  # a stream now: a standing query


def test_statements_that_are_pickled_are_the_same() -> None:
    view = "\n " + VIEW.format("v", 5, 7, "it''s")
    for sql in ("SELECT k FROM r WHERE k > 7 EMIT ON COMMIT", view):
        statement = parse_statement(sql)
        assert pickle.loads(pickle.dumps(statement)) == statement
        assert statement != parse_statement(sql.replace("7", "6"))
