from __future__ import annotations

from sql_world import bound, picture, template

from penstock.logical.expr import Param, walk
from penstock.logical.nodes import Filter
from penstock.logical.nodes import walk as walk_nodes
from penstock.sql.lift import lift
from penstock.types import DOUBLE, INT


def test_where_and_having_constants_become_parameters() -> None:
    node, values = template(
        "SELECT k, sum(p) FROM r [NOW] WHERE a > 5 AND name = 'x' GROUP BY k HAVING sum(p) < 7"
    )
    assert picture(node) == (
        "π(k, sum_0)[σ((sum_0 < $3))[γ(0; sum(p))[σ(((a > $1) AND (name = $2)))[r]]]]"
    )
    assert values == (5, "x", 7.0)
    params = {e.index: e.type for n in walk_nodes(node) if isinstance(n, Filter)
              for e in walk(n.predicate) if isinstance(e, Param)}  # fmt: skip
    assert (params[0], params[2]) == (INT, DOUBLE)


def test_texts_that_differ_in_constants_and_spelling_have_one_template() -> None:
    one = template("SELECT k FROM r [NOW] WHERE a BETWEEN 1 AND 2 OR NOT p >= 1.5")
    two = template("select  K from R x [now]\nwhere X.a between 30 and 40 or not 2 <= p -- c")
    assert one[0] == two[0]
    assert hash(one[0]) == hash(two[0])
    assert (one[1], two[1]) == ((1, 2, 1.5), (30, 40, 2.0))


def test_equal_constants_in_two_places_are_two_parameters() -> None:
    sql = (
        "SELECT x.k FROM (SELECT k FROM r [NOW] WHERE a > {}) x, "
        "(SELECT k FROM r [NOW] WHERE a > {}) y WHERE x.k = y.k"
    )
    same, values = template(sql.format(5, 5))
    other, _ = template(sql.format(5, 6))
    assert same == other
    assert values == (5, 5)


def test_one_constant_of_a_shared_subplan_is_one_parameter() -> None:
    _, values = template(
        "WITH x AS (SELECT k FROM r [NOW] WHERE a > 5) SELECT p.k FROM x p, x q WHERE p.k = q.k"
    )
    assert values == (5,)
    _, values = template("SELECT * FROM r [NOW] WHERE a > 5 AND k NOT IN (SELECT v FROM u [NOW])")
    assert values == (5,)


def test_explicit_parameters_come_first() -> None:
    result = bound("SELECT k FROM r [NOW] WHERE a > 5 AND b < $hi AND p > $lo AND k = 3")
    node, literals = lift(result.node, result.params)
    assert picture(node) == "π(k)[σ(((((a > $3) AND (b < $hi)) AND (p > $lo)) AND (k = $4)))[r]]"
    assert [p.name for p in result.params] == ["hi", "lo"]
    assert [x.value for x in literals] == [5, 3]


def test_lists_of_similar_length_and_patterns_are_lifted() -> None:
    three = template("SELECT k FROM r [NOW] WHERE a IN (1, 2, 3) AND name NOT LIKE 'x%'")
    four = template("SELECT k FROM r [NOW] WHERE a IN (9, 8, 7, 6) AND name NOT LIKE '%y'")
    assert three[0] == four[0]
    assert (three[1], four[1]) == ((1, 2, 3, 3, "x%"), (9, 8, 7, 6, "%y"))
    assert picture(three[0]) == "π(k)[σ((in(a, $1, $2, $3, $4) AND not(like(name, $5))))[r]]"


def test_lifting_ends_where_there_is_no_room() -> None:
    every = " OR ".join(f"a = {i}" for i in range(70))
    _, values = template(f"SELECT k FROM r [NOW] WHERE {every}")
    assert values == tuple(range(62))


def test_what_is_not_lifted() -> None:
    for condition in (
        "a = CAST(NULL AS INT)", "a + $x > 5", "a = k", "a IS NULL", "1 = 1",
        "coalesce(a > 5, FALSE)",
        f"a IN ({', '.join(map(str, range(17)))})", "starts_with(name, 'x')",
    ):  # fmt: skip
        _, values = template(f"SELECT k FROM r [NOW] WHERE {condition}")
        assert values == (), condition
    _, values = template(
        "SELECT r.a + 5 FROM r [NOW] JOIN s [NOW] ON r.k = s.k AND r.a > 7 "
        "WHERE s.b - r.b BETWEEN 1 AND 2"
    )
    assert values == (7,), "what ON asks of one side; bands are lifted later, with their windows"
    _, values = template("SELECT count(*) FILTER (WHERE a > 5) FROM r [NOW]")
    assert values == ()


def test_constants_of_views_are_lifted_too() -> None:
    node, values = template("SELECT k FROM plain [NOW] WHERE k = 3")
    assert values == (7, 3)
    assert picture(node) == "π(k)[σ((k = $2))[window(Now())[π(k, a)[σ((a > $1))[r]]]]]"
