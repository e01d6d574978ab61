"""Subscribers of rows of Q on shards: against a model, and as sessions on shards see them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.changes import Changes
from penstock.delta import Sets
from penstock.queries.subscribers import Subscribers
from penstock.state.arena import Arena

STREAM = "CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"
COUNT = "SELECT count(*) AS n FROM r [RANGE 9] WHERE a > 3"


def numbers(values: list[int]) -> Any:
    return np.array(values, np.int64)


def changes_of(rows: list[int], sets: Sets | None = None) -> Changes:
    n = len(rows)
    data = np.stack([np.zeros(n, np.int64), np.arange(n)])
    return Changes(data, np.zeros(n, np.int64), np.zeros(n, np.int8), numbers(rows), sets)


def test_rows_and_queries_are_those_of_a_model() -> None:
    rng = Random(4)
    found = Subscribers(Arena().scope("s"), 1)
    row_of: dict[int, int] = {}  # by query
    key_of: dict[int, tuple[int, int]] = {}
    for _ in range(300):
        if rng.random() < 0.6:
            free = [q for q in range(40) if q not in row_of]
            queries = rng.sample(free, min(len(free), rng.randint(1, 4)))
            since, words = rng.randint(0, 1), [rng.randint(0, 5) for _ in queries]
            params = np.stack([np.zeros(len(words), np.int64), numbers(words)])
            standing = {key_of[q]: row for q, row in row_of.items()}
            new, places = found.add(numbers(queries), params, since)
            keys = [(since, word) for word in words]
            fresh = {keys[at]: row for row, at in zip(new.tolist(), places.tolist(), strict=True)}
            assert fresh.keys() == set(keys) - standing.keys()
            assert not set(fresh.values()) & set(row_of.values())
            coming = [q for q, key in zip(queries, keys, strict=True) if key in standing]
            assert found.joining[0].tolist() == coming
            for query, key in zip(queries, keys, strict=True):
                row_of[query], key_of[query] = (standing | fresh)[key], key
        elif row_of:
            gone = rng.sample(sorted(row_of), rng.randint(1, len(row_of)))
            left = {q: row for q, row in row_of.items() if q not in gone}
            dropped = found.drop(numbers([*gone, 99]))
            assert set(dropped.tolist()) == set(row_of.values()) - set(left.values())
            stay = sorted(q for q in gone if row_of[q] in left.values())
            assert found.staying()[0].tolist() == stay
            row_of = left
        found.settle()
        assert len(found) == len(row_of)
        assert found.rows == len(set(row_of.values()))
        for row in set(row_of.values()):
            mine = {q for q, r in row_of.items() if r == row}
            assert set(found.shown(changes_of([row])).qid.tolist()) == mine


def test_changes_are_shown_once_per_query_and_sets_hold_queries() -> None:
    found = Subscribers(Arena().scope("s"), 0)
    found.add(numbers([5, 6]), np.zeros((1, 2), np.int64), 0)
    found.add(numbers([2]), np.zeros((1, 1), np.int64), 7)
    shown = found.shown(changes_of([1, 0, 1]))
    assert shown.rows[1].tolist() == [0, 1, 1, 2]
    assert sorted(zip(shown.rows[1].tolist(), shown.qid.tolist(), strict=True)) == [
        (0, 2), (1, 5), (1, 6), (2, 2)
    ]  # fmt: skip
    assert found.shown(changes_of([1, 0]), numbers([6])).qid.tolist() == [6]
    sets = Sets(numbers([0, 2, 3]), numbers([0, 1, 1]))
    listed = found.shown(changes_of([1, 0, 1], sets))
    assert listed.sets is not None
    assert listed.sets.items.tolist() == [2, 5, 6, 2]
    assert listed.qid.tolist() == [1, 0, 1]
    only = found.shown(changes_of([1, 0, 1], sets), numbers([5]))
    assert only.sets is not None
    assert only.rows[1].tolist() == [1]
    assert only.sets.take(only.qid).items.tolist() == [5]


def session(shards: int = 2, retain: int = 20) -> Any:
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql(f"{STREAM} RETAIN {retain}")
    return ps


def rows_and_queries(ps: Any) -> tuple[int, int]:
    """The most that a shard has."""
    shards = ps.stats()["shards"]
    return max(s["rows"] for s in shards), max(s["queries"] for s in shards)


def told(query: Any) -> list[tuple[Any, ...]]:
    found = query.changes().to_pylist()
    return [(c["_query"], c["_change_type"], c["_time"], c["n"]) for c in found]


def test_identical_queries_are_one_row_that_each_reads() -> None:
    ps = session()
    first, second = ps.query(COUNT), ps.query(COUNT)
    other = ps.query(COUNT.replace("3", "4"))
    assert rows_and_queries(ps) == (2, 3)
    ps.push("r", [{"k": 1, "a": 4, "ts": 1}])
    assert first.view() == second.view()
    assert other.view()["n"].to_pylist() == [0]
    assert [kind for _, kind, *_ in told(second)] == [
        "insert",
        "update_preimage",
        "update_postimage",
    ]
    first.drop()
    assert [(kind, n) for _, kind, _, n in told(first)][-1] == ("delete", 1)
    assert rows_and_queries(ps) == (2, 2)
    third = ps.query(COUNT)  # sees no row: another point, maybe the number of the first
    assert rows_and_queries(ps) == (3, 3)
    ps.push("r", [{"k": 1, "a": 4, "ts": 2}])
    assert [q.view()["n"].to_pylist() for q in (second, third, other)] == [[2], [1], [0]]
    second.drop()
    third.drop()
    other.drop()
    assert rows_and_queries(ps) == (0, 0)


@pytest.mark.parametrize(
    "text",
    [
        COUNT,
        "SELECT sum(a) AS n FROM r [RANGE 9]",
        "SELECT DISTINCT a AS n FROM r [RANGE 9]",
        "SELECT x.a AS n FROM r [RANGE 9] x JOIN r [RANGE 5] y ON x.k = y.k WHERE x.a > 1",
    ],
)
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_who_comes_to_a_row_that_stands_is_told_its_answer(shards: int, text: str) -> None:
    ps = session(shards)
    first = ps.query(text, history=True)
    ps.push("r", [{"k": k % 3, "a": k, "ts": 1} for k in range(8)])
    second = ps.query(text, history=True)
    assert rows_and_queries(ps) == (1, 2)
    assert sorted(n for _, _, _, n in told(second)) == sorted(first.view()["n"].to_pylist())
    ps.push("r", [{"k": 1, "a": 5, "ts": 7}])
    ps.advance("r", 11)
    assert sorted(second.view().to_pylist(), key=str) == sorted(first.view().to_pylist(), key=str)
    first.changes()
    kept = sorted(second.view()["n"].to_pylist())
    second.drop()
    gone = [(kind, n) for _, kind, _, n in told(second) if kind == "delete"]
    assert sorted(n for _, n in gone[-len(kept) :]) == kept
    assert first.changes().num_rows == 0
    assert sorted(first.view()["n"].to_pylist()) == kept


def test_duplicates_in_one_table_of_parameters_are_one_row_each() -> None:
    ps = session()
    text = "SELECT k, a FROM r [RANGE 9] WHERE a = $a"
    qs = ps.query_many(text, pa.table({"a": [1, 2, 1, 1]}))
    assert rows_and_queries(ps) == (2, 4)
    ps.push("r", [{"k": 7, "a": 1, "ts": 1}])
    assert qs.view()["_query"].to_pylist() == [qs[i].name for i in (0, 2, 3)]
    lists = ps.query_many(f"{text} EMIT CHANGES PER ROW", pa.table({"a": [1, 1, 2]}))
    ps.push("r", [{"k": 8, "a": 1, "ts": 2}])
    assert lists.changes()["_query"].to_pylist() == [[lists[0].name, lists[1].name]]
    lists[0].drop()
    ps.push("r", [{"k": 9, "a": 1, "ts": 3}])
    assert lists[1].view()["k"].to_pylist() == [8, 9]


def test_all_who_share_a_row_fail_with_it_and_a_later_one_does_not() -> None:
    ps = session(4)
    text = "SELECT k, a + 9223372036854775800 AS x FROM r [RANGE 50]"
    both = [ps.query(text), ps.query(text)]
    ps.push("r", [{"k": k, "a": 1, "ts": 1} for k in range(8)])
    ps.push("r", [{"k": 3, "a": 100, "ts": 2}])
    for query in both:
        assert query.status == "failed"
        kinds = query.changes()["_change_type"].to_pylist()
        assert kinds.count("insert") == kinds.count("delete") == 8
    again = ps.query(text)
    ps.push("r", [{"k": 3, "a": 2, "ts": 3}])
    assert again.view().num_rows == 1


def test_a_query_without_a_view_can_be_shared() -> None:
    ps = session()
    text = "SELECT k FROM r WHERE a > 1"
    first, second = ps.query(text), ps.query(text)
    ps.push("r", [{"k": 7, "a": 2, "ts": 1}])
    first.drop()
    assert first.changes()["_change_type"].to_pylist() == ["insert"]
    assert second.changes()["k"].to_pylist() == [7]


def test_shards_that_are_built_again_know_who_shares_what() -> None:
    ps = session()
    first, second = ps.query(COUNT, history=True), ps.query(COUNT, history=True)
    ps.push("r", [{"k": 1, "a": 4, "ts": 1}])
    ps._runner.job.cluster.reload()
    first.drop()
    ps.push("r", [{"k": 1, "a": 4, "ts": 2}])
    third = ps.query(COUNT, history=True)
    assert second.view() == third.view()
    assert rows_and_queries(ps) == (1, 2)
