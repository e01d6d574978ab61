"""EMIT … PER ROW as a user meets it: lists of names, templates of their own, faults, sinks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import PenstockError

STREAM = "CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"
OVER = "SELECT k, a FROM r [RANGE 9] WHERE a > $low"
NAMES = pa.list_(pa.dictionary(pa.int32(), pa.string()))


@pytest.fixture(params=[None, 2], ids=["one engine", "two shards"])
def ps(request: pytest.FixtureRequest) -> Iterator[Any]:
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql(STREAM)
        yield session


def over(ps: Any, *lows: int, text: str = OVER) -> penstock.Queries:
    names = [f"over{low}" for low in lows]
    params = pa.table({"qid": names, "low": lows})
    return ps.query_many(f"{text} EMIT CHANGES PER ROW", params)


def push(ps: Any, *values: tuple[int, int]) -> None:
    ps.push("r", [{"k": 1, "a": a, "ts": ts} for ts, a in values])


def told(table: pa.Table) -> list[tuple[list[str], str, int, int]]:
    columns = ("_query", "_change_type", "_time", "a")
    return [tuple(row[c] for c in columns) for row in table.to_pylist()]


def test_names_are_a_list_also_of_one_query_and_of_none(ps: Any) -> None:
    qs = over(ps, 1, 5)
    alone = ps.query("SELECT k FROM r [RANGE 3] EMIT ON COMMIT PER ROW")
    for handle in (qs, qs[0], alone):
        assert handle.changes().schema.field("_query").type == NAMES
    push(ps, (1, 7))
    assert told(qs[1].changes()) == [(["over5"], "insert", 1, 7)]
    assert told(qs.changes()) == [(["over1"], "insert", 1, 7)]  # the rest of it
    assert alone.changes()["_query"].to_pylist() == [[alone.name]]
    assert qs.view().to_pylist() == [{"_query": ["over1", "over5"], "k": 1, "a": 7}]
    assert qs.view().schema.field("_query").type == NAMES
    assert qs[0].view().column_names == ["k", "a"]


def test_how_changes_are_emitted_is_part_of_the_template(ps: Any) -> None:
    text = "SELECT k FROM r [RANGE 9] WHERE a > 3"
    emits = ("EMIT CHANGES", "EMIT ON COMMIT", "EMIT CHANGES PER ROW", "EMIT ON COMMIT PER ROW")
    queries = [ps.query(f"{text} {emit}") for emit in emits]
    assert ps.stats()["templates"] == 4
    push(ps, (1, 7))
    found = [q.changes()["_query"].to_pylist()[0] for q in queries]
    assert found == ["q1", "q2", ["q3"], ["q4"]]


def test_who_listens_hears_lists(ps: Any) -> None:
    heard: list[pa.Table] = []
    qs = over(ps, 1, 5)
    qs.subscribe(heard.append)
    qs[1].subscribe(heard.append)
    push(ps, (1, 7), (2, 3))
    qs.drop()
    assert sorted(map(str, (told(table) for table in heard))) == sorted(
        map(
            str,
            [
                [(["over5"], "insert", 1, 7)],
                [(["over1", "over5"], "insert", 1, 7), (["over1"], "insert", 2, 3)],
                [(["over5"], "delete", 2, 7)],
                [(["over1", "over5"], "delete", 2, 7), (["over1"], "delete", 2, 3)],
            ],
        )
    )


def test_a_row_at_which_a_projection_fails_fails_its_queries_and_no_others(ps: Any) -> None:
    text = "SELECT k, a * 4 AS a FROM r [RANGE 9] WHERE a > $low"
    qs = over(ps, 1, 5, 2**61, text=text)
    push(ps, (1, 7))
    push(ps, (2, 2**61))  # over2305843009213693952 does not see it
    assert [q.status for q in qs] == ["failed", "failed", "running"]
    found = [(name, *rest) for names, *rest in told(qs.changes()) for name in names]
    expected = [
        (q, *rest) for rest in (("insert", 1, 28), ("delete", 2, 28)) for q in ("over1", "over5")
    ]
    assert sorted(found) == sorted(expected)
    assert qs.view().num_rows == 0


def test_numbers_of_dropped_queries_are_in_no_old_set(ps: Any) -> None:
    qs = over(ps, 1, 2, 3)
    push(ps, (1, 9))
    qs[1].drop()
    other = over(ps, 4)  # has the number of the dropped one
    push(ps, (2, 9))
    ps.advance("r", 30)
    expected = [
        (["over1", "over2", "over3"], "insert", 1, 9),
        (["over2"], "delete", 1, 9),
        (["over1", "over3"], "insert", 2, 9),
        (["over1", "over3"], "delete", 10, 9),
        (["over1", "over3"], "delete", 11, 9),
    ]
    assert told(qs.changes()) == expected
    assert told(other.changes()) == [
        (["over4"], k, t, 9) for k, t in (("insert", 2), ("delete", 11))
    ]


def test_identical_queries_are_in_one_list_and_number_their_own_rows() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(f"{STREAM} RETAIN 9")
    text = f"{OVER} EMIT CHANGES PER ROW"
    ps.query_many(text, pa.table({"qid": ["x", "y"], "low": [1, 5]}), history=True)
    push(ps, (1, 7), (1, 8))
    params = pa.table({"qid": ["a", "b", "c"], "low": [1, 1, 2]})
    qs = ps.query_many(text, params, history=True)  # two share what is there, one is new
    found = qs.changes()
    assert sorted(map(str, told(found))) == sorted(
        str((names, "insert", 1, a)) for names in (["a", "b"], ["c"]) for a in (7, 8)
    )
    assert len(set(zip(*(found[c].to_pylist() for c in ("_batch", "_seq")), strict=True))) == 4
    push(ps, (2, 9))
    assert [row[0] for row in told(qs.changes())] == [["a", "b", "c"]]
    qs.drop()
    gone = told(qs.changes())
    assert sorted(str(row[0]) for row in gone) == ["['a', 'b']"] * 3 + ["['c']"] * 3


def test_sets_that_no_row_has_any_more_are_collected() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql(STREAM)
    qs = ps.query_many(
        "SELECT k, a FROM r [RANGE 2] WHERE a BETWEEN $lo AND $hi EMIT CHANGES PER ROW",
        pa.table({"lo": range(3000), "hi": range(5, 3005)}),
    )
    (template,) = ps._books.engine.templates.values()
    most = 0
    for turn in range(12):
        ps.push("r", [{"k": 1, "a": (turn * 700 + i) % 3000, "ts": 5 * turn} for i in range(2500)])
        most = max(most, len(template.sets))
    assert 2500 < most < 12_000
    assert qs.view().num_rows == 2500
    ps.advance("r", 100)
    found = qs.changes()
    kinds = found["_change_type"].to_pylist()
    assert kinds.count("insert") == kinds.count("delete") == 12 * 2500
    sizes = {len(names) for names in found["_query"].to_pylist()}
    assert sizes == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("whole", [False, True])
def test_sinks_write_lists(ps: Any, tmp_path: Path, whole: bool, capsys: Any) -> None:
    over(ps, 1, 5)
    option = f", whole_template '{str(whole).lower()}'"
    for kind in ("parquet", "json"):
        path = tmp_path / kind
        ps.sql(f"CREATE SINK {kind}s FROM over5 INTO {kind} OPTIONS (path '{path}'{option})")
    ps.sql("CREATE SINK shown FROM over5 INTO console OPTIONS (whole_template 'true')")
    push(ps, (1, 7), (1, 3))
    ps.close()
    expected = [["over1", "over5"], ["over1"]] if whole else [["over5"]]
    found = pq.read_table(tmp_path / "parquet")
    assert found["_query"].to_pylist() == expected
    assert found["a"].to_pylist() == [7, 3][: len(expected)]
    lines = [line for p in (tmp_path / "json").iterdir() for line in p.read_text().splitlines()]
    assert [json.loads(line)["_query"] for line in lines] == expected
    assert "'over5'" in capsys.readouterr().out


def test_a_sink_of_all_queries_that_share_a_plan_names_each_change(ps: Any, tmp_path: Path) -> None:
    params = pa.table({"qid": ["x", "y"], "low": [1, 5]})
    ps.query_many(OVER, params)
    ps.sql(f"CREATE SINK s FROM x INTO json OPTIONS (path '{tmp_path}', whole_template 'true')")
    push(ps, (1, 7))
    text = "".join(p.read_text() for p in tmp_path.iterdir())
    assert sorted(json.loads(line)["_query"] for line in text.splitlines()) == ["x", "y"]


@pytest.mark.parametrize("shards", [None, 2])
def test_a_sink_of_all_queries_is_told_who_shares_rows_and_who_leaves(
    shards: int | None, tmp_path: Path
) -> None:
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql(f"{STREAM} RETAIN 9")
    ps.query_many(OVER, pa.table({"qid": ["x"], "low": [1]}), history=True)
    ps.sql(f"CREATE SINK s FROM x INTO json OPTIONS (path '{tmp_path}', whole_template 'true')")
    push(ps, (1, 7))
    params = pa.table({"qid": ["y", "z", "other"], "low": [1, 1, 2]})
    qs = ps.query_many(OVER, params, history=True)
    ps.query_many(OVER, pa.table({"qid": ["w"], "low": [1]}), history=True).drop()
    qs.drop()
    lines = [line for p in sorted(tmp_path.iterdir()) for line in p.read_text().splitlines()]
    found = [(row["_query"], row["_change_type"]) for row in map(json.loads, lines)]
    assert found[0] == ("x", "insert")
    for name in ("y", "z", "other", "w"):
        assert [kind for query, kind in found if query == name] == ["insert", "delete"]
    places = [(row["_query"], row["_batch"], row["_seq"]) for row in map(json.loads, lines)]
    assert len(set(places)) == len(places) == 9


def test_csv_cannot_hold_lists(ps: Any, tmp_path: Path) -> None:
    over(ps, 1)
    with pytest.raises(PenstockError, match="PS-SINK-005") as caught:
        ps.sql(f"CREATE SINK s FROM over1 INTO csv OPTIONS (path '{tmp_path}')")
    assert "json" in caught.value.remedy


def test_explain_says_what_rows_carry(ps: Any) -> None:
    grouped = "SELECT k, count(*) AS n FROM r [RANGE 9] WHERE a > 3 GROUP BY k EMIT CHANGES PER ROW"
    assert "per set of queries" in ps.sql("EXPLAIN SELECT a FROM r [RANGE 9] EMIT CHANGES PER ROW")
    assert "per set of queries" not in ps.sql(f"EXPLAIN {grouped}")
