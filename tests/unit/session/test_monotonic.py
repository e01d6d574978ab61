"""A query that only ever adds rows: its label, and what is left of it when it is dropped."""

import pytest

import penstock

STREAMS = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM t (k INT, c INT, ts BIGINT) TIMESTAMP BY ts;
CREATE TABLE names (k INT, name STRING) NONRETROACTIVE;
INSERT INTO names VALUES (1, 'a');
"""
JOIN = "SELECT r.k, s.b FROM r [UNBOUNDED] JOIN s [UNBOUNDED] ON r.k = s.k"
MONOTONIC = (
    JOIN,
    f"{JOIN} WHERE r.a < s.b + 1",
    f"{JOIN} WHERE r.a + s.b > 3 AND r.a > 1",
    "SELECT r.k, s.b FROM r [UNBOUNDED], s [UNBOUNDED]",
    "SELECT r.k, t.c FROM r [UNBOUNDED] JOIN s [UNBOUNDED] ON r.k = s.k"
    " JOIN t [UNBOUNDED] ON t.k = s.k",
    "SELECT r.k, t.c FROM r [UNBOUNDED] JOIN s [UNBOUNDED] ON r.k = s.k"
    " JOIN t [UNBOUNDED] ON t.c = s.b",
    "SELECT r.k, n.name FROM r [UNBOUNDED] JOIN s [UNBOUNDED] ON r.k = s.k"
    " JOIN names n ON r.k = n.k",
    "SELECT r.k, n.name FROM r JOIN names n ON r.k = n.k",
    "SELECT k FROM r UNION ALL SELECT k FROM s",
    f"SELECT k FROM r [UNBOUNDED] UNION ALL SELECT k FROM ({JOIN})",
    f"SELECT DISTINCT k FROM ({JOIN})",
    "SELECT k FROM r [UNBOUNDED] INTERSECT SELECT k FROM s [UNBOUNDED]",
    "SELECT k + 1 AS x FROM r WHERE a > 1",
    "SELECT k FROM r [UNBOUNDED] WHERE k IN (SELECT k FROM s [UNBOUNDED])",
)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("text", MONOTONIC)
def test_what_a_monotonic_query_has_told_stays_told(text: str, shards: int) -> None:
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql(STREAMS)
    query = ps.query(text)
    for stream, column in zip("rst", "abc", strict=True):
        ps.push(stream, [{"k": 1, "ts": 1, column: 5}])
    ps.advance(ts=10)
    assert "view [MON]" in query.explain()
    with pytest.raises(penstock.PenstockError, match="no view"):
        query.view()
    assert query.changes().num_rows
    query.drop()
    assert query.changes().num_rows == 0
    ps.close()
