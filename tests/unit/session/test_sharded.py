"""Sessions on shards: what differs from one engine must not be seen."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

import penstock
from penstock.engine.control import ControlEngine
from penstock.errors import PenstockError
from penstock.physical import match
from penstock.session.opening import open_on_shards
from penstock.shards.job import LocalJob

STREAM = "CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"


def session(shards: int = 2) -> penstock.Session:
    ps = penstock.connect(runner="inprocess", shards=shards)
    ps.sql(STREAM)
    return ps


def test_a_subscriber_that_raises_is_reported_and_the_rows_are_applied() -> None:
    ps = session()
    q = ps.query("SELECT k FROM r [RANGE 5]")

    def broken(changes: object) -> None:
        raise ValueError("no")

    q.subscribe(broken)
    with pytest.raises(PenstockError, match="a subscriber of q1 raised"):
        ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    assert q.view().num_rows == 1


def test_a_query_that_fails_on_one_shard_fails_everywhere_and_others_go_on() -> None:
    ps = session(4)
    bad = ps.query("SELECT k, a + 9223372036854775800 AS x FROM r [RANGE 50]")
    good = ps.query("SELECT k, count(*) AS n FROM r [RANGE 50] GROUP BY k")
    ps.push("r", [{"k": k, "a": 1, "ts": 1} for k in range(8)])
    assert bad.view().num_rows == 8
    ps.push("r", [{"k": 3, "a": 100, "ts": 2}])
    assert bad.status == "failed"
    kinds = bad.changes()["_change_type"].to_pylist()
    assert kinds.count("insert") == kinds.count("delete") == 8
    assert good.view().num_rows == 8
    again = ps.query("SELECT k, a + 9223372036854775800 AS x FROM r [RANGE 50]")
    ps.push("r", [{"k": 3, "a": 2, "ts": 3}])
    assert again.view().num_rows == 1


def test_a_plan_that_breaks_in_level_1_leaves_level_2_too() -> None:
    ps = session(2)
    q = ps.query("SELECT sum(a) AS s FROM r [RANGE 50]")
    ps.flush()
    cluster = ps._runner.job.cluster  # type: ignore[attr-defined]
    assert [len(upper.engine.templates) for upper in cluster.uppers] == [0, 1]
    (template,) = cluster.lowers[1].engine.templates.values()
    template.plan.operators[-1].step = None
    ps.push("r", [{"k": k, "a": 1, "ts": 1} for k in range(8)])
    assert q.status == "failed"
    for shard in (*cluster.lowers, *cluster.uppers):
        assert not shard.engine.templates
        assert not shard.spec.templates


def test_a_query_that_comes_to_a_plan_that_has_broken_fails_too() -> None:
    ps = open_on_shards(lambda deliver: LocalJob(2, deliver, eager=False))
    ps.sql(STREAM)
    text = "SELECT k, a FROM r [RANGE 50] WHERE a > {}"
    first = ps.query(text.format(0))
    ps.flush()
    lower = ps._runner.job.cluster.lowers[1]  # type: ignore[attr-defined]
    (template,) = lower.engine.templates.values()
    template.plan.operators[-1].changes = None
    ps.push("r", [{"k": k, "a": 1, "ts": 1} for k in range(8)])
    second = ps.query(text.format(7))  # in the same batch: nobody here knows
    ps.flush()
    assert [first.status, second.status] == ["failed", "failed"]
    third = ps.query(text.format(0))
    ps.push("r", [{"k": k, "a": 1, "ts": 2} for k in range(8)])
    assert third.view().num_rows == 8


def test_a_plan_that_shards_cannot_build_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ps = session(2)
    good = ps.query("SELECT k, count(*) AS n FROM r [RANGE 50] GROUP BY k")
    ps.flush()
    cluster = ps._runner.job.cluster  # type: ignore[attr-defined]
    before = [sorted(shard.engine.arena.names()) for shard in cluster.lowers]

    def broken(self: object, *_: object) -> None:
        raise MemoryError("no room for the view")

    text = "SELECT k FROM r [RANGE 5] WHERE a > 3"
    with monkeypatch.context() as patched:
        patched.setattr("penstock.physical.view.ViewOp.__init__", broken)
        bad = ps.query(text)
        assert bad.status == "failed"
    with pytest.raises(PenstockError, match="no room for the view"):
        bad.view()
    assert [sorted(shard.engine.arena.names()) for shard in cluster.lowers] == before
    assert not any(list(shard.engine.flows) for shard in cluster.lowers)
    again = ps.query(text)
    ps.push("r", [{"k": 1, "a": 5, "ts": 1}])
    assert [good.view().num_rows, again.view().num_rows] == [1, 1]


def test_queries_that_come_and_go_are_a_batch_with_what_is_next_or_when_somebody_looks() -> None:
    ps = session(2)
    before = len(ps.progress())
    queries = [ps.query(f"SELECT k, a + {i} AS b FROM r [RANGE 9] WHERE a > {i}") for i in range(5)]
    queries.pop().drop()
    ps.push("r", [{"k": 1, "a": 9, "ts": 1}])
    assert len(ps.progress()) == before + 1
    assert [q.changes().num_rows for q in queries] == [1] * 4
    for query in queries:
        query.drop()
    assert len(ps.progress()) == before + 2
    many = ps.query_many("SELECT k FROM r [RANGE 9] WHERE a > $a", [{"a": 1}, {"a": 2}])
    assert len(ps._books.progress.records) == before + 3
    many.drop()
    assert len(ps._books.progress.records) == before + 4


def test_who_listens_hears_of_a_drop_before_it_returns_and_of_nothing_before_listening() -> None:
    ps = session(2)
    ps.sql("CREATE STREAM h (k BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 50")
    ps.push("h", [{"k": 1, "ts": 1}])
    heard: list[str] = []
    q = ps.query("SELECT k FROM h [RANGE 50]", history=True)
    q.subscribe(lambda table: heard.extend(table["_change_type"].to_pylist()))
    assert heard == []
    q.drop()
    assert heard == ["delete"]
    assert q.changes()["_change_type"].to_pylist() == ["insert", "delete"]


def test_numbers_of_dropped_queries_are_not_mixed_up() -> None:
    ps = session(3)
    old = ps.query("SELECT k FROM r [RANGE 9] WHERE a > 1")
    ps.query("SELECT k FROM r [RANGE 9] WHERE a > 7")
    ps.push("r", [{"k": 1, "a": 5, "ts": 1}])
    old.drop()
    new = ps.query("SELECT k FROM r [RANGE 9] WHERE a > 2")
    ps.push("r", [{"k": 2, "a": 5, "ts": 2}])
    assert [c["k"] for c in old.changes().to_pylist()] == [1, 1]
    assert [c["k"] for c in new.changes().to_pylist()] == [2]


def test_queries_dropped_together_in_a_batch_are_told_as_one_by_one() -> None:
    texts = [f"SELECT k, count(*) AS n FROM r [RANGE 9] WHERE a > {i} GROUP BY k" for i in range(5)]
    found = []
    for eager in (True, False):
        ps = open_on_shards(lambda deliver, now=eager: LocalJob(2, deliver, now))  # type: ignore[misc]
        ps.sql(STREAM)
        queries = [ps.query(text) for text in texts]
        ps.push("r", [{"k": i % 3, "a": i, "ts": i} for i in range(8)])
        ps.flush()
        for query in queries[1:4]:
            query.drop()
        ps.push("r", [{"k": 7, "a": 9, "ts": 8}])
        ps.flush()
        changes = [q.changes().drop_columns(["_batch", "_seq"]).to_pylist() for q in queries]
        found.append([sorted(map(str, rows)) for rows in changes])
        deleted = [sum(r["_change_type"] == "delete" for r in rows) for rows in changes]
        assert deleted == [0, 3, 3, 3, 0]
    assert found[0] == found[1]


def test_history_is_answered_from_what_the_stream_retains() -> None:
    ps = penstock.connect(runner="inprocess", shards=3)
    ps.sql(f"{STREAM} RETAIN 10")
    ps.push("r", [{"k": k, "a": k, "ts": k} for k in range(8)])
    q = ps.query("SELECT k, count(*) AS n FROM r [RANGE 5] GROUP BY k", history=True)
    assert sorted(row["k"] for row in q.view().to_pylist()) == [3, 4, 5, 6, 7]
    total = ps.query("SELECT sum(a) AS s FROM r [RANGE 5]", history=True)
    assert total.view().to_pylist() == [{"s": 25}]


def test_history_of_a_stream_that_still_has_its_first_row_is_not_refused() -> None:
    """However far behind the other stream of a join is."""
    ps = penstock.connect(runner="inprocess", shards=2)
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 10")
    ps.push("s", [{"k": 1, "a": 2, "ts": 3}])
    join = "SELECT r.a, s.a AS b FROM r [RANGE 9] JOIN s [RANGE 9] ON r.k = s.k"
    q = ps.query(join, history=True)
    ps.push("r", [{"k": 1, "a": 7, "ts": 4}])
    ps.push("s", [{"k": 2, "a": 2, "ts": 4}])
    assert q.view().to_pylist() == [{"a": 7, "b": 2}]
    ps.push("s", [{"k": 2, "a": 2, "ts": 14}])
    with pytest.raises(PenstockError, match="does not retain"):
        ps.query(join.replace("RANGE 9", "RANGE 20"), history=True)


def test_level_2_answers_from_what_it_received() -> None:
    """Rows of a union that only pass through level 2 are read, and retracted with the query."""
    ps = session()
    q = ps.query(
        "(SELECT count(*) AS n FROM r [RANGE 50] GROUP BY k) UNION ALL "
        "(SELECT DISTINCT a + 1 FROM r [PARTITION BY k ROWS 1])"
    )
    ps.push("r", [{"k": k, "a": k, "ts": 1} for k in (1, 2, 2)])
    assert sorted(q.view()["n"].to_pylist()) == [1, 2, 2, 3]
    q.drop()
    kinds = q.changes()["_change_type"].to_pylist()
    assert kinds.count("insert") == kinds.count("delete") == 4


def test_history_of_a_known_template_is_there_in_level_2() -> None:
    ps = penstock.connect(runner="inprocess", shards=2)
    ps.sql(f"{STREAM} RETAIN 100")
    text = (
        "(SELECT count(*) AS n FROM r [RANGE 50] GROUP BY k) UNION ALL "
        "(SELECT max(a) FROM r [RANGE 50] WHERE a < {})"
    )
    first = ps.query(text.format(8), history=True)
    ps.push("r", [{"k": 1, "a": 5, "ts": 1}, {"k": 2, "a": 9, "ts": 1}])
    second = ps.query(text.format(10), history=True)
    assert sorted(first.view()["n"].to_pylist()) == [1, 1, 5]
    assert sorted(second.view()["n"].to_pylist()) == [1, 1, 9]
    ps.push("r", [{"k": 2, "a": 7, "ts": 30}])
    ps.advance("r", 51)
    assert sorted(second.view()["n"].to_pylist()) == [1, 7]
    first.drop()
    assert sorted(second.view()["n"].to_pylist()) == [1, 7]


def test_a_function_that_cannot_travel_is_refused_with_the_remedy() -> None:
    ps = session()
    with pytest.raises(PenstockError, match="cannot be sent to the shards") as caught:
        ps.register_udf("f", lambda x: x, ["BIGINT"], "BIGINT")
    assert "top level" in caught.value.remedy


@pytest.mark.parametrize("routing", ["tickets", "fixed", "random", "optimal"])
def test_shards_route_as_they_are_told_and_say_what_they_share(routing: str) -> None:
    ps = penstock.connect(runner="inprocess", shards=2, routing=routing)
    ps.sql(STREAM)
    queries = [ps.query(f"SELECT k FROM r [RANGE 50] WHERE a {op} 5 AND k > 1") for op in "<>"]
    job = ps._runner.job
    assert isinstance(job, LocalJob)
    for first in (0, 10):
        ps.push("r", [{"k": i % 4, "a": i, "ts": 1} for i in range(first, first + 10)])
        job.cluster.reload()
    assert [q.view().num_rows for q in queries] == [2, 8]
    ps.push("r", [{"k": 3, "a": i, "ts": 2} for i in range(8)])
    stats = ps.stats()
    flows = [(f["level"], f["shard"], f["streams"], f["routing"]) for f in stats["flows"]]
    assert flows == [(1, shard, ["r@any"], routing) for shard in (0, 1)]
    assert sum(e["rows"] for f in stats["flows"] for e in f["eddies"]) == 8
    assert [(s["level"], s["shard"]) for s in stats["shards"]] == [(1, 0), (1, 1), (2, 0), (2, 1)]


PLANS = (
    "SELECT k, a + 1 AS b FROM r [RANGE 5] WHERE a > 5",
    "SELECT k FROM r [RANGE 7] WHERE a > 5 AND k <> 2",
    "SELECT r.a, s.a AS b FROM r [RANGE 5] JOIN s [RANGE 6] ON r.k = s.k",
    "SELECT r.a, s.a AS b FROM r [RANGE 5] JOIN s [RANGE 6] ON r.k = s.k WHERE r.a > 9",
    "SELECT count(*) AS n FROM r [RANGE 5]",
    "SELECT k FROM r [RANGE 9] EXCEPT ALL SELECT k FROM s [RANGE 9]",
    "SELECT DISTINCT k FROM r [ROWS 9]",
)


def both() -> tuple[penstock.Session, penstock.Session]:
    """A session without shards, and one with two."""
    found = penstock.connect(runner="inprocess"), session()
    found[0].sql(STREAM)
    for ps in found:
        ps.sql(STREAM.replace("STREAM r", "STREAM s"))
    return found


def plan_of(query: penstock.Query) -> list[str]:
    """What EXPLAIN says, but for where it runs."""
    return [line for line in query.explain().splitlines() if not line.startswith("runs on")]


def test_explain_shows_on_shards_what_it_shows_without() -> None:
    sessions = both()
    pairs = [[ps.query(text) for ps in sessions] for text in PLANS[:3]]
    for alone, sharded in pairs:
        assert plan_of(sharded) == plan_of(alone)
        assert "runs on: " in sharded.explain()
    pairs += [[ps.query(text) for ps in sessions] for text in PLANS[3:]]  # after a look
    for query in pairs.pop(1):  # one that shared a flow
        query.drop()
    for alone, sharded in pairs:
        assert plan_of(sharded) == plan_of(alone)


def test_explain_builds_an_index_only_if_queries_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ps = session()
    made: list[object] = []
    build = match._make_index

    def counted(*of: Any) -> Any:
        made.append(of)
        return build(*of)

    monkeypatch.setattr(match, "_make_index", counted)
    text = "SELECT k FROM r [RANGE 9] WHERE {} > $least AND k = 1"
    one, other = (
        ps.query_many(text.format(column), [{"least": n} for n in range(1100)])
        for column in ("k", "a")
    )
    told = [q.explain() for q in (one[0], other[0], one[1], other[1], one[0])]
    assert len(made) == 2
    assert all("× 1100 queries (grouped filter" in text for text in told)
    assert told[0] == told[4]
    one[7].drop()
    assert "× 1099 queries" in one[0].explain()
    assert len(made) == 3
    ps.close()


def test_stats_show_the_operators_of_plans_on_shards() -> None:
    alone, sharded = both()
    for ps in (alone, sharded):
        handles = [ps.query(text) for text in PLANS]
        handles[1].drop()
    names = ("template", "operator", "structure")
    found = [[[o[n] for n in names] for o in ps.stats()["operators"]] for ps in (alone, sharded)]
    assert found[0] == found[1]
    assert sharded.stats()["templates"] == len(PLANS) - 1


def test_the_session_of_shards_has_specs_but_no_operators() -> None:
    _, ps = both()
    handles = [ps.query(text) for text in PLANS]
    engine = ps._books.engine
    assert isinstance(engine, ControlEngine)
    assert all(not template.plan.operators for template in engine.templates.values())
    assert all(template.plan.spec.specs for template in engine.templates.values())
    arrays = {name.split("/")[2] for name in engine.arena.names() if name[:10] == "templates/"}
    assert arrays == {"Q", "clock"}
    held = engine.arena.nbytes
    handles[3].explain()
    assert engine.arena.nbytes == held
    assert not list(engine.flows)


def test_a_step_that_is_nothing_for_level_2_leaves_it_alone() -> None:
    ps = session()
    uppers = ps._runner.job.cluster.uppers  # type: ignore[attr-defined]
    ps.push("r", [{"k": 1, "a": 1, "ts": 5}])
    assert [upper.engine.sources["r"].watermark for upper in uppers] == [5, 5]
    steps = [upper.engine.batch for upper in uppers]
    ps.query("SELECT k FROM r [RANGE 5] WHERE a > 3")
    assert [upper.engine.batch for upper in uppers] == steps
    q = ps.query("SELECT sum(a) AS s FROM r [RANGE 5]")
    ps.advance("r", 7)
    assert [upper.engine.sources["r"].watermark for upper in uppers] == [7, 7]
    assert q.view().to_pylist() == [{"s": None}]


def test_parameters_reach_the_shards_as_they_are() -> None:
    ps = penstock.connect(runner="inprocess", shards=2)
    ps.sql("CREATE STREAM v (f DOUBLE, d DATE, b BOOLEAN, g STRING, ts BIGINT) TIMESTAMP BY ts")
    numbers = ps.query(
        "SELECT f FROM v [RANGE 9] WHERE f >= -0.5 AND d > DATE '2024-02-28' AND b = TRUE"
    )
    texts = ps.query("SELECT g FROM v [RANGE 9] WHERE g = 'ä' OR f = 7.25")
    nothing = ps.query("SELECT f FROM v [RANGE 9] WHERE f > CAST(NULL AS DOUBLE)")
    day = date(2024, 2, 29)
    rows = [(-0.5, day, True, "ä"), (7.25, day, False, "b"), (-1.0, day, True, "c")]
    for ts, row in enumerate(rows):
        ps.push("v", [dict(zip("fdbg", row, strict=True)) | {"ts": ts}])
    assert numbers.view().to_pylist() == [{"f": -0.5}]
    assert texts.view()["g"].to_pylist() == ["ä", "b"]
    assert nothing.view().num_rows == 0
