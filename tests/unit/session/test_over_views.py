"""Standing queries over views: they begin with the view's present answer and follow it."""

import penstock

STREAMS = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts;
"""


def connected(shards=None):
    options = {} if shards is None else {"shards": shards}
    ps = penstock.connect(runner="inprocess", **options)
    ps.sql(STREAMS)
    return ps


def push(ps, stream, *rows):
    column = {"r": "a", "s": "b"}[stream]
    ps.push(stream, [{"k": k, column: x, "ts": ts} for k, x, ts in rows])


def rows(query):
    return sorted(tuple(row.values()) for row in query.view().to_pylist())


def test_a_query_over_a_view_starts_from_its_present_answer():
    ps = connected()
    v = ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 10] GROUP BY k")
    push(ps, "r", (1, 5, 1), (1, 6, 2), (2, 7, 3))
    q = ps.query("SELECT * FROM v")
    assert rows(q) == rows(v) == [(1, 2), (2, 1)]
    push(ps, "r", (1, 8, 4))
    assert rows(q) == rows(v) == [(1, 3), (2, 1)]
    ps.advance("r", 12)
    assert rows(q) == rows(v) == [(1, 1), (2, 1)]
    big = ps.query("SELECT k FROM v WHERE n > 0 AND k < 2")
    assert rows(big) == [(1,)]
    total = ps.query("SELECT sum(n) AS n FROM v")
    assert rows(total) == [(2,)]
    push(ps, "r", (3, 1, 13))
    assert rows(q) == rows(v) == [(1, 1), (3, 1)]
    assert rows(total) == [(2,)]
    print(q.explain())
