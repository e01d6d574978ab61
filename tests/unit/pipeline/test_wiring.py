"""How plans are cut: operators singly, a flow as one unit, plans of net changes not at all."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import QueryFailed
from penstock.pipeline.units import Leaf, Root, Stage, ViewLeaf, Whole
from penstock.session.pipelined import PipelinedSession, open_pipelined

STREAMS = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts;
"""


@pytest.fixture
def made() -> PipelinedSession:
    found = open_pipelined()
    found.session.sql(STREAMS)
    return found


def names(made: PipelinedSession, kind: type) -> list[str]:
    return [unit.name for unit in made.engine.units if type(unit) is kind]


def test_every_operator_with_inputs_is_a_unit(made: PipelinedSession) -> None:
    made.session.query("SELECT DISTINCT k FROM r [RANGE 5] EXCEPT SELECT k FROM s [RANGE 5]")
    (template,) = made.engine.templates.values()
    inner = [op for op in template.plan.operators if op.inputs]
    stages = [u for u in made.engine.units if isinstance(u, Stage)]
    assert [stage.operator for stage in stages] == inner
    assert [len(stage.inputs) for stage in stages] == [len(op.inputs) for op in inner]
    assert len(names(made, Root)) == 1


def test_a_flow_is_one_unit_for_all_its_plans(made: PipelinedSession) -> None:
    texts = ("SELECT k FROM r [RANGE 5] WHERE a > 1", "SELECT k, a FROM r [RANGE 9] WHERE k = 2")
    queries = [made.session.query(text) for text in texts]
    (leaf,) = [unit for unit in made.engine.units if isinstance(unit, Leaf)]
    assert len(leaf.readers) == len(leaf.templates) == 2
    assert leaf.flow is not None
    made.session.push("r", [{"k": 2, "a": 3, "ts": 1}])
    assert [q.view().num_rows for q in queries] == [1, 1]
    assert leaf.steps == 1


def test_what_reads_tables_alone_is_no_unit(made: PipelinedSession) -> None:
    made.session.sql("CREATE TABLE t (k INT, w INT)")
    made.session.sql("INSERT INTO t VALUES (1, 5), (2, 0)")
    q = made.session.query(
        "SELECT r.k, t.w FROM r [RANGE 5] JOIN (SELECT k, max(w) AS w FROM t GROUP BY k) t "
        "ON r.k = t.k"
    )
    assert "group by" not in [unit.name for unit in made.engine.units]
    made.session.push("r", [{"k": 1, "a": 0, "ts": 1}])
    assert q.view().to_pylist() == [{"k": 1, "w": 5}]
    made.session.sql("UPDATE t SET w = 6 WHERE k = 1")
    assert q.view().to_pylist() == [{"k": 1, "w": 6}]


def test_net_changes_run_whole_with_all_of_their_flows(made: PipelinedSession) -> None:
    made.session.query("SELECT k FROM r [RANGE 5] WHERE a > 1 EMIT ON COMMIT")
    made.session.query("SELECT k, a FROM r [RANGE 9] WHERE k = 2")
    made.session.query("SELECT DISTINCT k FROM s [RANGE 9]")
    (whole,) = [unit for unit in made.engine.units if isinstance(unit, Whole)]
    assert len(whole.templates) == 2
    assert len(names(made, Root)) == 1


def test_rows_of_sets_are_the_same(made: PipelinedSession) -> None:
    import penstock

    found = []
    for session in (made.session, penstock.connect(runner="inprocess")):
        if session is not made.session:
            session.sql(STREAMS)
        qs = session.query_many(
            "SELECT k, a FROM r [RANGE 5] WHERE a > $x EMIT CHANGES PER ROW", [{"x": 1}, {"x": 4}]
        )
        session.push("r", [{"k": at, "a": at, "ts": at} for at in range(20)])
        found.append(sorted(map(str, _without_batch(qs.changes()))))
    assert found[0] == found[1]
    assert found[0]


def _without_batch(table: Any) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if name not in ("_batch", "_seq")}
        for row in table.to_pylist()
    ]


def test_a_plan_over_a_view_follows_its_units(made: PipelinedSession) -> None:
    session = made.session
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 4] GROUP BY k")
    session.push("r", [{"k": at % 2, "a": 0, "ts": at} for at in range(3)])  # from now on followed
    session.sql("CREATE MATERIALIZED VIEW w AS SELECT n, count(*) AS c FROM v GROUP BY n")
    q = session.query("SELECT v.k FROM v JOIN s [RANGE 3] x ON x.k = v.k WHERE v.n > 1")
    assert len(names(made, ViewLeaf)) == 2
    session.push("r", [{"k": at % 2, "a": 0, "ts": at} for at in range(3, 9)])
    session.push("s", [{"k": 1, "b": 0, "ts": at} for at in range(9)])
    assert sorted(map(str, session["w"].view().to_pylist())) == ["{'n': 2, 'c': 2}"]
    assert q.view().to_pylist() == [{"k": 1}] * 3


def test_a_whole_plan_waits_for_the_view_that_it_reads(made: PipelinedSession) -> None:
    session = made.session
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM r [RANGE 4] GROUP BY k")
    session.push("r", [{"k": at % 2, "a": 0, "ts": at} for at in range(3)])  # from now on followed
    q = session.query("SELECT k, n FROM v WHERE n > 1 EMIT ON COMMIT")
    assert len(names(made, Whole)) == len(names(made, Root)) == 1
    session.push("r", [{"k": at % 2, "a": 0, "ts": at} for at in range(3, 9)])
    session.push("r", [{"k": 1, "a": 0, "ts": 9}])
    assert sorted(row["k"] for row in q.view().to_pylist()) == [0, 1]


def test_a_query_that_fails_ends_the_run_with_a_remedy(made: PipelinedSession) -> None:
    made.session.query("SELECT k, 10 / a AS x FROM r [RANGE 5]")
    made.session.query("SELECT k, CAST(CAST(a AS STRING) || 'x' AS INT) AS x FROM r [RANGE 6]")
    with pytest.raises(QueryFailed) as caught:
        made.session.push("r", [{"k": 1, "a": 2, "ts": 1}])
    assert caught.value.code == "PS-SIM-001"
    assert "ON ERROR" in caught.value.remedy


def test_failures_that_are_hidden_do_not_end_it(made: PipelinedSession) -> None:
    q = made.session.query(
        "SELECT k, CAST(CAST(a AS STRING) || 'x' AS INT) AS x FROM r [RANGE 6] ON ERROR NULL"
    )
    made.session.push("r", [{"k": 1, "a": 2, "ts": 1}])
    assert q.view().to_pylist() == [{"k": 1, "x": None}]
    (template,) = made.engine.templates.values()
    assert template.hidden.nulls == 1
