"""What one reader of a batch does is not seen by the others."""

from __future__ import annotations

import json
import sys
import threading

import pyarrow as pa
import pytest

import penstock
from penstock.session import delivery


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def ps(request):
    with penstock.connect(runner="inprocess", shards=request.param) as session:
        session.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
        yield session


def test_a_subscriber_that_reads_the_changes_takes_them_from_nobody(ps, tmp_path):
    query = ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 5]")
    many = ps.query_many("SELECT k FROM r [RANGE 5] WHERE k > $p", [{"p": 0}])
    ps.sql(f"CREATE SINK files FROM v INTO json OPTIONS (path '{tmp_path}')")
    heard = []
    query.subscribe(lambda _: query.changes())
    many[0].subscribe(lambda _: many.changes())
    many.subscribe(heard.append)
    for ts in (1, 2):
        ps.push("r", [{"k": ts, "ts": ts}])
    written = [
        line for file in sorted(tmp_path.iterdir()) for line in file.read_text().splitlines()
    ]
    assert [json.loads(line)["k"] for line in written] == [1, 2]
    assert [table["k"].to_pylist() for table in heard] == [[1], [2]]
    assert query.changes().num_rows == many.changes().num_rows == 0
    assert all(log.rows == 0 for log in ps._books.delivery.logs.values())


def test_a_subscriber_that_exits_ends_the_program_but_no_thread_of_spark():
    rows, said = pa.table({"k": [1]}), []

    def leave(_):
        sys.exit(3)

    (error,) = delivery.call(leave, rows, "q")  # raised when the others have the changes
    assert isinstance(delivery.gravest([ValueError(), error]), SystemExit)
    thread = threading.Thread(target=lambda: said.extend(delivery.call(leave, rows, "q")))
    thread.start()
    thread.join(10)
    assert [error.code for error in said] == ["PS-RUN-002"]
