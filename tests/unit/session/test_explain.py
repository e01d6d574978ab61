"""EXPLAIN of Golab & Özsu's Query 5 in both of its forms (Fig. 6)."""

import re

import pytest

import penstock

QUERY_5 = """
    SELECT a.src, c.payload
    FROM (SELECT src FROM l1 [RANGE 100] x
          WHERE NOT EXISTS (SELECT 1 FROM l2 [RANGE 100] y WHERE y.src = x.src)) a
    JOIN (SELECT src, payload FROM l3 [RANGE 100] WHERE proto = 'ftp') c ON a.src = c.src
"""


def explained(off):
    ps = penstock.connect(runner="inprocess", optimizer_off=off)
    for link in ("l1", "l2", "l3"):
        ps.sql(
            f"CREATE STREAM {link} (src STRING, proto STRING, payload INT, ts BIGINT)"
            " TIMESTAMP BY ts"
        )
    return ps.query(QUERY_5).explain()


def operators(text):
    """(depth, operator, pattern) of each operator that is no match or projection."""
    found = []
    for line in text.splitlines():
        got = re.match(
            r"([ │├└─]*)(view|anti join|join|flow|scan \w+)\b.*\[(MON|WKS|WK|STR)\]", line
        )
        if got:
            found.append((got.group(2), got.group(3)))
    return found


def test_negation_pulled_up_leaves_the_join_without_negative_rows():
    text = explained(set())
    assert operators(text) == [
        ("view", "STR"),
        ("anti join", "STR"),
        ("flow", "WK"),
        ("scan l2", "WKS"),
    ]
    join = next(line for line in text.splitlines() if re.search(r"─ flow ", line))
    assert "on l1.src = l3.src" in join
    assert "−1 rows" not in join


def test_negation_pushed_down_sends_negative_rows_through_the_join():
    text = explained({"pull_up_except"})
    assert operators(text) == [
        ("view", "STR"),
        ("join", "STR"),
        ("anti join", "STR"),
        ("scan l1", "WKS"),
        ("scan l2", "WKS"),
        ("scan l3", "WKS"),
    ]
    join = next(line for line in text.splitlines() if re.search(r"─ join ", line))
    assert "−1 rows" in join
    assert "state=hash" in join


def test_every_operator_line_tells_pattern_cost_and_sharing():
    text = explained(set())
    assert "parameters: $1 STRING = 'ftp'" in text
    assert "shared by: q1" in text
    assert "cost=" in text
    assert "queries=1" in text


@pytest.mark.parametrize("shards", [None, 2])
def test_a_query_shows_its_constants_as_the_plan_names_them(shards):
    with penstock.connect(runner="inprocess", shards=shards) as ps:
        ps.sql("CREATE STREAM r (k STRING, a DOUBLE, ts BIGINT) TIMESTAMP BY ts")
        text = "SELECT k FROM r [RANGE 9] WHERE k = $who AND a > $lo AND a < 7"
        some = [{"who": "it's", "lo": None}, {"who": "b", "lo": 2.5}]
        first, second = (q.explain() for q in ps.query_many(text, some))
    assert "parameters: $who STRING = 'it''s', $lo DOUBLE = NULL, $3 DOUBLE = 7.0" in first
    assert "parameters: $who STRING = 'b', $lo DOUBLE = 2.5, $3 DOUBLE = 7.0" in second
    assert "where (k = $who) AND (a > $lo) AND (a < $3)" in first


def test_joins_of_windows_say_which_stems_they_share():
    ps = penstock.connect(runner="inprocess")
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    joined = "FROM r [RANGE {0}] JOIN s [RANGE 9] ON r.k = s.k"
    one = ps.query(f"SELECT r.a, s.a AS b {joined.format(5)}")
    two = ps.query(f"SELECT r.k, count(*) AS n {joined.format(5)} GROUP BY r.k")
    three = ps.query(f"SELECT r.k {joined.format(7)}")
    text = one.explain()
    assert "join r [RANGE 5], s [RANGE 9] on r.k = s.k [WK] state=SteM −1 rows" in text
    assert "join of 2 templates; stem r (k) (2 readers); stem s (k) (2 readers)" in text
    assert "join of 1 template" in three.explain()
    two.drop()
    three.drop()
    assert "join of 1 template; stem r (k) (1 reader)" in one.explain()
    one.drop()
    assert not ps.stats()["joins"]
    assert not ps.stats()["stems"]


def test_joins_by_a_band_and_by_neither_say_how_they_find_rows():
    ps = penstock.connect(runner="inprocess")
    for name in ("r", "s"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    joined = "SELECT r.k, s.a FROM r [RANGE 6 SLIDE 2] JOIN s [NOW] ON"
    band = ps.query(f"{joined} s.a - r.a BETWEEN -1 AND 5")
    half = ps.query(f"{joined} r.a < s.a")
    other = ps.query(f"{joined} r.a <> s.a")
    how = "join r [RANGE 6 SLIDE 2], s [NOW] on {} [WK] state={}"
    assert how.format("-1 <= s.a - r.a <= 5", "SteM −1 rows") in band.explain()
    assert "stem r (a) in order (2 readers); stem s (a) in order (2 readers)" in band.explain()
    assert how.format("1 <= s.a - r.a", "SteM −1 rows") in half.explain()
    assert "on (a <> a) [WK] state=log" in other.explain()
    stems = [(s["stream"], s["columns"], s["kind"]) for s in ps.stats()["stems"]]
    assert stems == [("r", ["a"], "ordered"), ("s", ["a"], "ordered")]
    windows = [(j["windows"], j["slides"]) for j in ps.stats()["joins"]]
    assert windows == [([6, 1], [2, 0])] * 3
    for query in (band, half, other):
        query.drop()
    assert not ps.stats()["joins"]
    assert not ps.stats()["stems"]


def test_filtered_joins_below_operators_with_further_streams_share_stems():
    ps = penstock.connect(runner="inprocess")
    for name in ("r", "s", "u"):
        ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    joined = "SELECT r.k FROM r [RANGE {0}] JOIN s [RANGE 9] ON r.k = s.k WHERE r.a > {1}"
    alone = ps.query(joined.format(5, 1))
    less = ps.query(f"{joined.format(6, 2)} EXCEPT ALL SELECT k FROM u [RANGE 3]")
    more = ps.query(f"{joined.format(7, 3)} UNION ALL SELECT k FROM u [RANGE 3]")
    # the two that wait for u have another clock, and so a flow of their own
    assert [flow["templates"] for flow in ps.stats()["flows"]] == [1, 2]
    assert [(s["stream"], s["readers"]) for s in ps.stats()["stems"]] == [("r", 2), ("s", 2)]
    text = less.explain()
    assert "flow r [RANGE $2], s [RANGE $3] on r.k = s.k where (a > $1)" in text
    assert "flow of 2 templates, 2 queries; stem r (k) (2 readers); stem s (k) (2 readers)" in text
    for name in ("r", "s"):
        ps.push(name, [{"k": 1, "a": 4, "ts": 1}])
    ps.advance("r", 2)
    ps.advance("s", 2)
    assert [q.view().num_rows for q in (alone, less, more)] == [1, 0, 0]
    ps.advance("u", 2)
    assert [q.view().num_rows for q in (alone, less, more)] == [1, 1, 1]
    ps.push("u", [{"k": 1, "a": 0, "ts": 3}])
    for name in ("r", "s"):
        ps.advance(name, 3)
    assert [q.view().num_rows for q in (alone, less, more)] == [1, 0, 2]
    for query in (less, alone, more):
        query.drop()
    assert not ps.stats()["flows"]
    assert not ps.stats()["stems"]


def test_the_constants_of_a_select_that_is_not_registered_are_shown() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k STRING, a DOUBLE, at TIMESTAMP) TIMESTAMP BY at")
    text = "EXPLAIN SELECT x.a FROM r [RANGE 5 SECONDS] x JOIN r [NOW] y ON x.k = y.k WHERE "
    shown = ps.sql(
        text + "x.a > $low AND y.k <> 'it''s' AND y.at > TIMESTAMP '2024-01-01 10:00:00'"
    )
    given = "$low DOUBLE, $2 STRING = 'it''s', $3 TIMESTAMP = 2024-01-01 10:00:00"
    assert f"parameters: {given}, $4 BIGINT = 5 SECONDS\n" in shown
