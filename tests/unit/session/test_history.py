"""ALTER STREAM … SET RETAIN, and what is said of queries whose windows have not filled."""

import pytest

import penstock
from penstock.errors import HistoryError


@pytest.fixture(params=[None, 2], ids=["engine", "two shards"])
def ps(request):
    options = {} if request.param is None else {"shards": request.param}
    with penstock.connect(runner="inprocess", **options) as session:
        session.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
        yield session


def push(ps, *times):
    ps.push("r", [{"k": 1, "ts": ts} for ts in times])


def count(query):
    return query.view().to_pylist()[0]["n"]


COUNT = "SELECT count(*) AS n FROM r [RANGE 10]"


def test_history_is_given_once_enough_is_retained(ps):
    push(ps, *range(20))
    with pytest.raises(HistoryError, match="does not retain") as error:
        ps.query(COUNT, history=True)
    assert "ALTER STREAM r SET RETAIN 10" in error.value.remedy
    ps.sql("ALTER STREAM r SET RETAIN 12")
    push(ps, 20, 25)
    with pytest.raises(HistoryError, match="yet") as error:
        ps.query(COUNT, history=True)
    assert "reaches 30" in error.value.remedy
    push(ps, 26, 30)
    assert count(ps.query(COUNT, history=True)) == 3
    with pytest.raises(HistoryError, match="does not retain"):
        ps.query("SELECT count(*) AS n FROM r [RANGE 15]", history=True)
    push(ps, 35)
    assert count(ps.query(f"{COUNT} WITH HISTORY")) == 3
    ps.sql("ALTER STREAM r SET RETAIN NONE")
    push(ps, 36)
    with pytest.raises(HistoryError, match="does not retain"):
        ps.query(COUNT, history=True)


def test_nothing_is_lost_before_the_first_row(ps):
    ps.sql("ALTER STREAM r SET RETAIN 100")
    push(ps, 1, 2, 3)
    assert count(ps.query(COUNT, history=True)) == 3


def test_a_longer_retention_keeps_what_is_there(ps):
    ps.sql("ALTER STREAM r SET RETAIN 5")
    push(ps, *range(20))
    ps.sql("ALTER STREAM r SET RETAIN 10")
    with pytest.raises(HistoryError, match="yet"):
        ps.query(COUNT, history=True)
    push(ps, 24)
    assert count(ps.query(COUNT, history=True)) == 6


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ALTER STREAM r SET RETAIN 5 MINUTES", "PS-TYPE-007"),
        ("ALTER STREAM nothing SET RETAIN 5", "PS-NAME-001"),
        ("ALTER STREAM r", "PS-SQL-001"),
        ("ALTER r SET RETAIN 5", "PS-SQL-001"),
    ],
)
def test_what_alter_refuses(ps, text, code):
    with pytest.raises(penstock.PenstockError) as error:
        ps.sql(text)
    assert error.value.code == code


def test_it_survives_a_restart(tmp_path):
    with penstock.connect(runner="inprocess", checkpoint=str(tmp_path)) as ps:
        ps.sql("CREATE STREAM r (k INT, ts BIGINT) TIMESTAMP BY ts")
        push(ps, *range(20))
        ps.sql("ALTER STREAM r SET RETAIN 12")
        push(ps, 25)
    with penstock.connect(runner="inprocess", checkpoint=str(tmp_path)) as ps:
        ps.sql("CREATE STREAM IF NOT EXISTS r (k INT, ts BIGINT) TIMESTAMP BY ts")
        with pytest.raises(HistoryError, match="yet"):
            ps.query(COUNT, history=True)
        push(ps, 30)
        assert count(ps.query(COUNT, history=True)) == 2


def test_a_warming_query_says_so_and_until_when(ps):
    push(ps, 5)
    query = ps.query(COUNT)
    ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r [RANGE 10]")
    push(ps, 6)
    follower = ps.query("SELECT k FROM v")
    said = query.view().schema.metadata
    assert said[b"penstock.status"] == b"warming"
    assert b"until 15" in said[b"penstock.note"]
    assert b"WITH HISTORY" in said[b"penstock.note"]
    assert "warming until 15" in query.explain()
    assert follower.status == "warming"
    assert follower.view().schema.metadata == ps.sql("SELECT k FROM v").schema.metadata == said
    notes = ps.sql("SHOW QUERIES").column("note").to_pylist()
    assert all("warming until 15" in note for note in notes)
    push(ps, 15)
    assert query.status == follower.status == "running"
    assert query.view().schema.metadata is follower.view().schema.metadata is None
    assert ps.sql("SHOW QUERIES").column("note").null_count == 3
    assert "warming" not in query.explain()


NAMES = "ALTER STREAM r SET RETAIN 20; CREATE TABLE names (k INT, name STRING) NONRETROACTIVE"
NAMED = "SELECT name FROM r [RANGE 10] JOIN names ON r.k = names.k"


def named(query):
    return sorted(row["name"] for row in query.view().to_pylist())


def test_history_joins_a_nonretroactive_table_that_has_not_changed_since(ps):
    ps.sql(f"{NAMES}; INSERT INTO names VALUES (1, 'a')")
    push(ps, 1, 2)
    assert named(ps.query(NAMED, history=True)) == ["a", "a"]


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO names VALUES (1, 'b')",
        "UPDATE names SET name = 'b'",
        "DELETE FROM names WHERE k = 1",
    ],
)
def test_history_is_refused_while_rows_joined_another_table(ps, change):
    ps.sql(f"{NAMES}; INSERT INTO names VALUES (1, 'a')")
    push(ps, 1, 7)
    ps.sql(change)
    with pytest.raises(HistoryError, match="table names has changed") as error:
        ps.query(NAMED, history=True)
    assert error.value.code == "PS-HIST-002"
    assert "reaches 17" in error.value.remedy
    push(ps, 16)
    with pytest.raises(HistoryError, match="table names has changed"):
        ps.query(NAMED, history=True)
    push(ps, 17)  # the window holds rows from 8 on
    ps.query(NAMED)  # without history it is never refused
    late = ps.query(NAMED, history=True)
    kept = {"INSERT": ["a", "a", "b", "b"], "UPDATE": ["b", "b"], "DELETE": []}
    assert named(late) == kept[change.split()[0]]


def test_without_a_window_history_is_refused_after_a_change(ps):
    ps.sql(f"{NAMES}; INSERT INTO names VALUES (1, 'a')")
    push(ps, 1)
    ps.sql("INSERT INTO names VALUES (1, 'b')")
    with pytest.raises(HistoryError, match="names has changed") as error:
        ps.query("SELECT name FROM r [UNBOUNDED] JOIN names ON r.k = names.k", history=True)
    assert "register the query without history" in error.value.remedy


def test_a_table_made_again_and_other_kinds_of_tables_are_no_obstacle(ps):
    ps.sql(f"{NAMES}; CREATE TABLE plain (k INT, name STRING)")
    push(ps, 1)
    ps.sql("INSERT INTO names VALUES (1, 'b'); INSERT INTO plain VALUES (1, 'b')")
    assert named(ps.query(NAMED.replace("names", "plain"), history=True)) == ["b"]
    ps.sql(f"DROP TABLE names; {NAMES}")
    assert named(ps.query(NAMED, history=True)) == []
