"""Reads that cannot be answered say why: a query that failed, shards that are in no state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from oracle.failing import NAMES, expected, told
from penstock.errors import NameError_, PenstockError, QueryFailed
from penstock.session.asking import Question
from penstock.session.opening import open_on_shards
from penstock.shards.job import LocalJob

STREAM = "CREATE STREAM r (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"


@pytest.fixture(params=[None, 2])
def ps(request: pytest.FixtureRequest) -> Iterator[Any]:
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql(STREAM)
        yield session


def test_the_first_read_of_a_failed_query_says_why(ps: Any) -> None:
    assert told(ps) == expected(NAMES)


@pytest.mark.parametrize(
    "text", ["SELECT k, a FROM r [RANGE 9]", "SELECT count(*) AS n FROM r [RANGE 9]"]
)
def test_an_answer_has_all_changes_of_its_batch(text: str) -> None:
    jobs: list[LocalJob] = []

    def make(deliver: Any) -> LocalJob:
        jobs.append(LocalJob(2, deliver, eager=False))
        return jobs[-1]

    ps = open_on_shards(make)
    ps.sql(STREAM)
    query = ps.query(text)
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    ps.flush()
    info, template = ps._books.queries.running(query.name)
    question = Question(template, info)
    ps._runner.answers.pose(question, np.array([info.qid]))
    ps.push("r", [{"k": 2, "a": 2, "ts": 2}])  # in the same batch
    ps.flush()
    assert question.rows().to_pylist() == query.view().to_pylist() != []
    assert question.rows().column(0).to_pylist() == ([1, 2] if "k, a" in text else [2])


def test_an_answer_that_cannot_be_read_stops_nothing(ps: Any) -> None:
    ps.register_udf("moody", moody, ["BIGINT"], "BIGINT")
    query = ps.query("SELECT k, moody(sum(a)) AS a FROM r [RANGE 9] GROUP BY k")
    good = ps.query("SELECT k FROM r [RANGE 9]")
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    MOOD.append("bad")
    try:
        with pytest.raises(QueryFailed, match="moody"):
            query.view()
    finally:
        MOOD.clear()
    assert good.view().num_rows == query.view().num_rows == 1


MOOD: list[str] = []


def moody(values: pa.Array) -> pa.Array:
    if MOOD:
        raise ValueError("not today")
    return values


def test_shards_that_raise_are_told_by_every_call() -> None:
    ps = penstock.connect(runner="inprocess", shards=2)
    ps.sql(STREAM)
    query = ps.query("SELECT k FROM r [RANGE 9]")
    many = ps.query_many("SELECT a FROM r [RANGE 9] WHERE k > $n", [{"n": 1}])
    ps.push("r", [{"k": 2, "a": 1, "ts": 1}])
    ps._runner.job.cluster.uppers[0].apply = None  # type: ignore[attr-defined]
    calls = [
        lambda: ps.push("r", [{"k": 2, "a": 1, "ts": 1}]),
        lambda: ps.sql("SHOW QUERIES"),
        lambda: ps.query("SELECT a FROM r [RANGE 2]"),
        query.view, many.view, query.explain, ps.stats, ps.flush,
        lambda: query.subscribe(print), lambda: many.subscribe(print), lambda: ps.late("r"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(PenstockError, match=r"PS-RUN-006.*the shards stopped"):
            call()
    assert query.changes().num_rows == 1  # which had come before
    with pytest.raises(PenstockError, match="PS-RUN-006"):
        query.changes()
    assert query.status == "failed"
    assert ps.progress()
    query.drop()  # what may mend a job is taken
    with pytest.raises(PenstockError) as refused:
        ps.sql("ALTER STREAM r RESUME")  # but this stream has no source
    assert refused.value.code != "PS-RUN-006"
    ps.close()


def test_a_subscriber_that_raises_stops_no_ticker(ps: Any) -> None:
    heard = threading.Event()

    def broken(changes: object) -> None:
        heard.set()
        raise ValueError("no")

    ps.sql("CREATE STREAM w (ts TIMESTAMP) TIMESTAMP BY ts TICK 50 MILLISECONDS")
    query = ps.query("SELECT ts FROM w [RANGE 100 MILLISECONDS]")
    ps.push("w", [{"ts": np.datetime64("now", "us").item()}])
    query.subscribe(broken)
    ps.start()
    assert heard.wait(20)
    with pytest.raises(PenstockError, match="PS-RUN-002"):
        ps.sql("SHOW QUERIES; SHOW STREAMS")
    before = len(ps.progress())
    while len(ps.progress()) == before:  # time goes on
        heard.wait(0.01)


def test_a_complaint_is_told_after_the_whole_call() -> None:
    ps: Any = penstock.connect(runner="inprocess", shards=2)
    ps.sql(STREAM)
    ps._gate.complain(PenstockError("a subscriber", code="PS-RUN-002"))
    with pytest.raises(PenstockError, match="PS-RUN-002"):
        ps.sql("CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1); CREATE TABLE u (x BIGINT)")
    assert ps.sql("SHOW TABLES").num_rows == 2


def test_a_query_that_is_dropped_while_it_is_read(ps: Any) -> None:
    query = ps.query("SELECT k FROM r [RANGE 9]")
    many = ps.query_many("SELECT a FROM r [RANGE 9] WHERE k > $n", [{"n": 1}, {"n": 2}])
    ps.push("r", [{"k": 9, "a": 1, "ts": 1}])
    info, _ = ps._books.queries.running(query.name)
    read_all = ps._runner.answers.all
    ps._runner.answers.all = lambda template, qids: (many.drop(), read_all(template, qids))[1]
    assert many.view().num_rows == 0
    query.drop()
    with pytest.raises(NameError_, match="was dropped"):
        ps._runner.answers.rows(info)
