"""TRY_CAST, ON ERROR and guards: what fails on a row, what hides it, and what is counted."""

import pyarrow as pa
import pytest

import penstock
from penstock.errors import SqlSyntaxError

MOST = 2**63 - 1
W = "[RANGE 5]"
ROWS = [
    {"k": 1, "kind": "n", "v": "1", "b": 7, "ts": 1},
    {"k": 2, "kind": "x", "v": "two", "b": MOST, "ts": 1},
    {"k": 3, "kind": "n", "v": "3", "b": 8, "ts": 2},
    {"k": 4, "kind": None, "v": "four", "b": None, "ts": 2},
]


def connect(**options):
    ps = penstock.connect(runner="inprocess", **options)
    for name in "sr":
        ps.sql(
            f"CREATE STREAM {name} (k INT, kind STRING, v STRING, b BIGINT, ts BIGINT) "
            "TIMESTAMP BY ts"
        )
    ps.sql("CREATE TABLE t (k INT, name STRING); INSERT INTO t VALUES (1, 'a'), (3, 'c')")
    return ps


@pytest.fixture(params=[{}, {"shards": 2}], ids=["alone", "shards"])
def ps(request):
    with connect(**request.param) as session:
        yield session


def rows(query):
    return sorted(query.view().to_pylist(), key=str)


def hidden(ps, query):
    shown = {row["name"]: row for row in ps.sql("SHOW QUERIES").to_pylist()}[query.name]
    return shown["nulled"], shown["skipped"]


def test_try_cast_is_null_where_cast_fails(ps):
    text = f"SELECT k, TRY_CAST(v AS INT) AS i, TRY_CAST(b AS INT) AS c FROM s {W}"
    listed = ps.query(text)
    chosen = ps.query(f"SELECT k FROM s {W} WHERE TRY_CAST(v AS INT) > 1")
    total = ps.query(f"SELECT sum(TRY_CAST(v AS INT)) AS x, count(*) AS n FROM s {W}")
    joined = ps.query(f"SELECT s.k FROM s {W} JOIN r {W} ON TRY_CAST(s.v AS INT) = r.k")
    (given,) = ps.query_many(f"SELECT k FROM s {W} WHERE TRY_CAST(v AS INT) = $p", [{"p": 3}])
    for stream in "sr":
        ps.push(stream, ROWS)
    assert rows(listed) == [
        {"k": 1, "i": 1, "c": 7}, {"k": 2, "i": None, "c": None},
        {"k": 3, "i": 3, "c": 8}, {"k": 4, "i": None, "c": None},
    ]  # fmt: skip
    assert rows(chosen) == rows(given) == [{"k": 3}]
    assert rows(total) == [{"x": 4, "n": 4}]
    assert rows(joined) == [{"k": 1}, {"k": 3}]
    assert ps.stats()["hidden"] == []


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("BIGINT", "5", "5x"), ("INT", "5", str(2**40)), ("DOUBLE", "0.5", "half"),
        ("DECIMAL(5,2)", "1.25", "12345.1"), ("BOOLEAN", "true", "maybe"),
        ("DATE", "2024-02-29", "2023-02-29"), ("TIMESTAMP", "2024-02-29 10:00:00", "noon"),
    ],
)  # fmt: skip
def test_try_cast_of_texts_to_every_type(type_, good, bad):
    with connect() as ps:
        q = ps.query(f"SELECT k, TRY_CAST(v AS {type_}) IS NULL AS n FROM s {W}")
        constant = ps.query(f"SELECT k, TRY_CAST('{bad}' AS {type_}) IS NULL AS n FROM s {W}")
        ps.push("s", [{"k": i, "v": v, "ts": 1} for i, v in enumerate([good, bad, None])])
        assert [row["n"] for row in rows(q)] == [False, True, True]
        assert [row["n"] for row in rows(constant)] == [True, True, True]


@pytest.mark.parametrize(
    "tail",
    ["ON ERROR SKIP ROW", "EMIT CHANGES ON ERROR SKIP ROW", "on error skip row emit changes",
     "WITH HISTORY ON ERROR SKIP ROW EMIT CHANGES"],
)  # fmt: skip
def test_the_clause_stands_in_any_order(tail):
    with connect() as ps:
        text = f"SELECT k, CAST(v AS INT) AS i FROM s {W} {tail}"
        q, view = ps.query(text), ps.sql(f"CREATE MATERIALIZED VIEW m AS {text}")
        assert ps.sql(text).explain().count("computes") == 1
        ps.push("s", ROWS)
        assert rows(q) == rows(view) == [{"k": 1, "i": 1}, {"k": 3, "i": 3}]


def test_the_keyword_says_the_same_as_the_clause(ps):
    text = f"SELECT k, CAST(v AS INT) AS i FROM s {W}"
    clause = ps.query(f"{text} ON ERROR NULL")
    keyword, skip = ps.query(text, on_error="null"), ps.query(text, on_error="skip")
    plain, fail = ps.query(text), ps.query(text, on_error="fail")
    templates = ps.sql("SHOW QUERIES").column("template").to_pylist()
    assert templates[0] == templates[1] != templates[2] != templates[3] == templates[4]
    ps.push("s", ROWS)
    assert rows(clause) == rows(keyword)
    assert len(rows(skip)) == 2
    assert plain.status == fail.status == "failed"


@pytest.mark.parametrize(("text", "given"), [("ON ERROR NULL", "skip"), ("", "ignore"), ("", [])])
def test_a_setting_that_cannot_be_meant_is_refused(text, given):
    with connect() as ps:
        with pytest.raises(SqlSyntaxError, match="on_error"):
            ps.query(f"SELECT k FROM s {W} {text}", on_error=given)
        with pytest.raises(SqlSyntaxError, match="on_error"):
            ps.query_many(f"SELECT k FROM s {W} {text}", [{"qid": "q"}], on_error=given)
        with pytest.raises(SqlSyntaxError, match="end of the statement"):
            ps.query(f"SELECT k FROM s {W} ON ERROR NULL ON ERROR FAIL")


def test_what_null_and_skip_give_and_count(ps):
    text = f"SELECT k, CAST(v AS INT) + 1 AS i, b + 1 AS c FROM s {W} WHERE k <> 3"
    null, skip = ps.query(f"{text} ON ERROR NULL"), ps.query(f"{text} ON ERROR SKIP ROW")
    ps.push("s", ROWS)
    assert rows(null) == [
        {"k": 1, "i": 2, "c": 8}, {"k": 2, "i": None, "c": None}, {"k": 4, "i": None, "c": None},
    ]  # fmt: skip
    assert rows(skip) == [{"k": 1, "i": 2, "c": 8}]
    assert hidden(ps, null) == (3, 0)
    assert hidden(ps, skip) == (0, 2)
    told = "on error: 0 values made NULL, 2 rows skipped; the first: CAST of a text that is not "
    assert told in skip.explain()
    ps.advance("s", 50)
    ps.advance("r", 50)
    assert rows(null) == rows(skip) == []
    assert hidden(ps, null) == (3, 0)
    assert hidden(ps, skip) == (0, 2)
    for query in (null, skip):
        signs = [c in ("insert", "update_postimage") for c in
                 query.changes().column("_change_type").to_pylist()]  # fmt: skip
        assert signs.count(True) == signs.count(False)


def test_a_condition_that_fails_does_not_hold(ps):
    text = f"SELECT k FROM s {W} WHERE CAST(v AS INT) < 3"
    null, skip = ps.query(text, on_error="null"), ps.query(text, on_error="skip")
    negated = f"SELECT k FROM s {W} WHERE CAST(v AS INT) IS NULL"
    nulls, none = ps.query(negated, on_error="null"), ps.query(negated, on_error="skip")
    ps.push("s", ROWS)
    assert rows(null) == rows(skip) == [{"k": 1}]
    assert rows(nulls) == [{"k": 2}, {"k": 4}]
    assert rows(none) == []
    assert [hidden(ps, q) for q in (null, skip, nulls, none)] == [(2, 0), (0, 2), (2, 0), (0, 2)]


def test_result_rows_of_groups_are_left_out_while_they_fail(ps):
    text = f"SELECT k % 2 AS p, ln(count(*) - 1) AS x FROM s {W} GROUP BY k % 2"
    having = f"SELECT k % 2 AS p FROM s {W} GROUP BY k % 2 HAVING sqrt(2 - count(*)) >= 0"
    skip, left = ps.query(text, on_error="skip"), ps.query(having, on_error="skip")
    null = ps.query(text, on_error="null")
    ps.push("s", ROWS[:3])
    assert [row["p"] for row in rows(skip)] == [1]
    assert {row["p"]: row["x"] for row in rows(null)} == {0: None, 1: 0.0}
    assert rows(left) == [{"p": 0}, {"p": 1}]
    ps.push("s", [{**ROWS[0], "ts": 3}])
    assert rows(left) == [{"p": 0}]
    ps.advance("s", 6)  # what came at 1 is gone
    assert rows(skip) == [{"p": 1, "x": 0.0}]
    ps.advance("s", 8)
    assert rows(skip) == []


def test_a_sum_is_hidden_while_it_overflows(ps):
    text = f"SELECT kind, sum(b) AS x FROM s {W} GROUP BY kind"
    null, skip = ps.query(text, on_error="null"), ps.query(text, on_error="skip")
    fail = ps.query(text)
    one = ps.query(f"SELECT sum(b) AS x, count(*) AS n FROM s {W}", on_error="null")
    big = [{"k": 1, "kind": "n", "b": MOST, "ts": ts} for ts in (1, 3)]
    ps.push("s", [*big, {"k": 1, "kind": "x", "b": None, "ts": 3}])
    assert rows(null) == [{"kind": "n", "x": None}, {"kind": "x", "x": None}]
    assert rows(skip) == [{"kind": "x", "x": None}]
    assert rows(one) == [{"x": None, "n": 3}]
    assert fail.status == "failed"
    ps.advance("s", 6)
    assert rows(null) == rows(skip) == [{"kind": "n", "x": MOST}, {"kind": "x", "x": None}]
    assert rows(one) == [{"x": MOST, "n": 2}]
    assert (hidden(ps, null)[0] > 0, hidden(ps, skip)[1] > 0) == (True, True)


GUARDED = [
    (f"SELECT k FROM s {W} WHERE kind = 'n' AND CAST(v AS INT) > 2", [3]),
    (f"SELECT k FROM s {W} WHERE CAST(v AS INT) > 2 AND kind = 'n'", [3]),
    (f"SELECT k FROM s {W} WHERE kind = 'n' AND CAST(v AS INT) = k", [1, 3]),
    (f"SELECT k FROM s {W} WHERE k IN (2, 4) OR CAST(v AS INT) > 2", [2, 3, 4]),
    (f"SELECT k FROM s {W} WHERE NOT (k IN (2, 4) OR CAST(v AS INT) > 2)", [1]),
    (f"SELECT k FROM s {W} WHERE (kind = 'n' AND CAST(v AS INT) > 2) OR k = 2", [2, 3]),
    (f"SELECT k FROM s {W} WHERE (kind = 'n' OR k > 9) AND CAST(v AS INT) > 0", [1, 3]),
    (f"SELECT k FROM s {W} WHERE b <> {MOST} AND b + 1 > 8", [3]),
    (f"SELECT k FROM s {W} WHERE kind = 'n' AND CAST(v AS INT) IS NOT NULL", [1, 3]),
    (f"SELECT k, CAST(v AS INT) AS i FROM s {W} WHERE kind = 'n'", [1, 3]),
    (f"SELECT k, CASE WHEN kind = 'n' THEN CAST(v AS INT) END AS i FROM s {W}", [1, 2, 3, 4]),
    (f"SELECT k, coalesce(k, CAST(v AS INT)) AS i FROM s {W}", [1, 2, 3, 4]),
    (f"SELECT k, sum(CAST(v AS INT)) FILTER (WHERE kind = 'n') AS x FROM s {W} GROUP BY k",
     [1, 2, 3, 4]),
    (f"SELECT s.k FROM s {W} JOIN r {W} ON s.k = r.k WHERE r.kind = 'n' AND CAST(s.v AS INT) > 0",
     [1, 3]),
    (f"SELECT s.k FROM s {W} JOIN r {W} ON s.k = r.k AND r.kind = 'n' "
     "AND CAST(s.v AS INT) >= CAST(r.v AS INT)", [1, 3]),
    (f"SELECT s.k FROM s {W} JOIN r {W} ON s.k = r.k WHERE CAST(s.v AS INT) > 0 AND s.v < r.v", []),
    (f"SELECT s.k FROM s {W}, r {W}, t WHERE s.k = r.k AND r.k = t.k "
     "AND CAST(s.v AS INT) = CAST(r.v AS INT)", [1, 3]),
    (f"SELECT s.k, CAST(s.v AS INT) AS i FROM s {W} JOIN t ON s.k = t.k", [1, 3]),
    (f"SELECT s.k FROM s {W} JOIN t ON s.k = t.k WHERE CAST(s.v AS INT) > 0", [1, 3]),
    (f"SELECT s.k FROM s {W} LEFT JOIN t ON s.k = t.k AND CAST(s.v AS INT) > 1", [1, 2, 3, 4]),
    (f"SELECT k FROM s {W} WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k) AND CAST(v AS INT) > 0",
     [1, 3]),
    (f"SELECT k, CAST(v AS INT) AS i FROM s {W} WHERE k IN (SELECT k FROM t)", [1, 3]),
    (f"SELECT k FROM s {W} GROUP BY k, v HAVING min(kind) = 'n' AND CAST(v AS INT) > 0", [1, 3]),
    (f"SELECT k FROM (SELECT k, CAST(v AS INT) AS i, kind FROM s {W}) q WHERE kind = 'n' AND i > 0",
     [1, 3]),
    (f"SELECT k FROM (SELECT k, v FROM s {W} EXCEPT SELECT k, v FROM r {W} WHERE kind IS NULL "
     "OR kind <> 'n') q WHERE CAST(v AS INT) > 0", [1, 3]),
]  # fmt: skip


def test_what_is_excluded_cannot_fail(ps):
    queries = [ps.query(text) for text, _ in GUARDED]
    off = ps.query(f"SELECT k FROM s {W} WHERE k > 1 AND CAST(v AS INT) > 0")
    for stream in "rs":
        ps.push(stream, ROWS)
    for stream in "rs":
        ps.advance(stream, 3)
    assert off.status == "failed"
    for query, (text, want) in zip(queries, GUARDED, strict=True):
        assert query.status != "failed", text
        assert [row["k"] for row in rows(query)] == want, text


@pytest.mark.parametrize(
    ("where", "fails"),
    [
        ("(b > 0 AND CAST(v AS INT) > 2) OR NOT (k = 4)", False),
        ("NOT (b > 0 OR CAST(v AS INT) > 2)", False),
        ("(b > 0 AND CAST(v AS INT) > 2) OR (k = 5 AND kind = 'n')", False),
        ("NOT (b > 0 AND CAST(v AS INT) > 2)", True),
        ("(b IS NULL AND CAST(v AS INT) > 2) OR NOT (k = 4)", True),
    ],
)
@pytest.mark.parametrize("tail", ["", " AND k IN (SELECT k FROM r [RANGE 9])"])
@pytest.mark.parametrize("count", [1, 1500])
def test_a_failure_counts_only_if_it_makes_a_difference(ps, where, fails, tail, count):
    """In a flow, in its own index and in a filter: NULL rejects a row as FALSE does."""
    text = f"SELECT k FROM s {W} WHERE ({where}){tail}"
    many = ps.query_many(f"{text} AND k < $n", [{"n": 9}] * count)
    alone = ps.query(text)
    for stream in "rs":
        ps.push(stream, [{"k": 4, "kind": "n", "v": "four", "b": None, "ts": 2}])
    for stream in "rs":
        ps.advance(stream, 3)
    assert {q.status == "failed" for q in (alone, *many)} == {fails}
    assert fails or alone.view().num_rows == 0


@pytest.mark.parametrize("count", [3, 200, 1500])
def test_guards_hold_for_each_of_many_queries(ps, count):
    text = f"SELECT k FROM s {W} WHERE kind = $a AND CAST(v AS INT) >= $b"
    given = [{"a": "n", "b": i % 4} for i in range(count)]
    fine, bad = ps.query_many(text, given), ps.query_many(text, [{"a": "x", "b": 0}] * 2)
    ps.push("s", ROWS)
    assert {q.status for q in fine} == {"running"} or {q.status for q in fine} == {"warming"}
    assert [q.status for q in bad] == ["failed"] * 2
    assert fine.view().num_rows == sum(2 if p["b"] < 2 else 1 for p in given)


def test_a_guarded_aggregate_of_many_queries_does_not_fail(ps):
    text = (
        f"SELECT count(*) AS n FROM s {W} WHERE kind = $a AND CAST(v AS INT) >= $b EMIT ON COMMIT"
    )
    fine = ps.query_many(text, [{"a": "n", "b": i % 3} for i in range(100)])
    ps.push("s", ROWS)
    assert sum(fine.view().column("n").to_pylist()) == 34 * 2 + 33 * 2 + 33


def test_a_view_keeps_its_own_setting(ps):
    ps.sql(f"CREATE MATERIALIZED VIEW m AS SELECT k, CAST(v AS INT) AS i FROM s {W} ON ERROR NULL")
    ps.sql(f"CREATE MATERIALIZED VIEW f AS SELECT k, CAST(v AS INT) AS i FROM s {W}")
    plain = ps.query("SELECT k, 10 / i AS x FROM m")
    above = ps.query("SELECT k, i FROM f ON ERROR NULL")
    ps.push("s", ROWS)
    assert {row["k"]: row["x"] for row in rows(plain)} == {1: 10.0, 2: None, 3: 10 / 3, 4: None}
    assert ps["f"].status == above.status == "failed"


def test_join_conditions_that_fail_match_nothing(ps):
    text = f"SELECT s.k, t.name FROM s {W} LEFT JOIN t ON CAST(s.v AS INT) = t.k"
    null, skip = ps.query(text, on_error="null"), ps.query(text, on_error="skip")
    inner = ps.query(text.replace("LEFT", ""), on_error="skip")
    ps.push("s", ROWS)
    matched = [{"k": 1, "name": "a"}, {"k": 3, "name": "c"}]
    assert rows(inner) == matched
    assert (
        rows(skip)
        == rows(null)
        == sorted([*matched, {"k": 2, "name": None}, {"k": 4, "name": None}], key=str)
    )
    not_in = f"SELECT k FROM s {W} WHERE CAST(v AS INT) NOT IN (SELECT k FROM t WHERE k > 9)"
    hidden_null, hidden_row = ps.query(not_in, on_error="null"), ps.query(not_in, on_error="skip")
    ps.push("s", [{**row, "ts": 3} for row in ROWS])
    assert [row["k"] for row in rows(hidden_null)] == [1, 2, 3, 4]
    assert [row["k"] for row in rows(hidden_row)] == [1, 3]


def test_counts_survive_a_checkpoint(tmp_path):
    text = f"SELECT k, CAST(v AS INT) AS i FROM s {W} ON ERROR SKIP ROW"
    with connect(checkpoint=str(tmp_path / "c")) as ps:
        name = ps.query(text).name
        ps.push("s", ROWS)
    with penstock.connect(runner="inprocess", checkpoint=str(tmp_path / "c")) as ps:
        assert hidden(ps, ps[name]) == (0, 2)
        ps.push("s", [{**row, "ts": 3} for row in ROWS])
        assert hidden(ps, ps[name]) == (0, 4)
        assert ps.stats()["hidden"] == [
            {
                "template": 1,
                "nulled": 0,
                "skipped": 4,
                "reason": "CAST of a text that is not a valid INT",
            }
        ]


def test_a_function_that_raises_is_hidden_too(ps):
    ps.register_udf("picky", _picky, ["BIGINT"], "BIGINT")
    null = ps.query(f"SELECT k, picky(b) AS p FROM s {W} ON ERROR NULL")
    skip = ps.query(f"SELECT k FROM s {W} WHERE picky(b) > 0 ON ERROR SKIP ROW")
    ps.push("s", ROWS[:3])
    assert rows(null) == [{"k": 1, "p": 7}, {"k": 2, "p": None}, {"k": 3, "p": 8}]
    assert rows(skip) == [{"k": 1}, {"k": 3}]


def _picky(values: pa.Array) -> pa.Array:
    if MOST in values.to_pylist():
        raise ValueError("too large for me")
    return values


@pytest.mark.parametrize(
    "clauses",
    ["ON ERROR", "ON ERROR IGNORE", "ON ERRORS NULL", "ON ERROR SKIP", "EMIT",
     "EMIT CHANGES LIMIT 1", "ON ERROR NULL ORDER BY k", "EMIT ON COMMITS"],
)  # fmt: skip
def test_a_clause_that_is_misspelled_or_not_last_is_shown_as_it_is_written(clauses):
    with connect() as ps, pytest.raises(SqlSyntaxError) as error:
        ps.query(f"SELECT k FROM s {W} WHERE k > 1 {clauses}")
    assert "ON ERROR SKIP ROW" in error.value.remedy
    assert "EMIT ON COMMIT" in error.value.remedy
