from __future__ import annotations

import pytest
from sql_world import plan, refused, shape

from penstock.logical.failing import can_fail
from penstock.logical.nodes import Band, Filter, Join, JoinKind, Node, Project, walk
from penstock.types import BIGINT

RS = "SELECT r.k FROM r [NOW], s [NOW] WHERE "
SECOND = 1_000_000


def join_of(sql: str) -> Join:
    (join,) = [n for n in walk(plan(sql)) if isinstance(n, Join)]
    return join


def test_spanning_conjuncts_join_the_others_filter() -> None:
    assert shape(RS + "r.k = s.k AND r.a > 5 AND s.p > 1 AND r.a + s.a > r.b") == (
        "π(k)[σ(((a > 5) AND (p > 1.0)))"
        "[inner(0=0 if ((CAST(a AS BIGINT) + CAST(a AS BIGINT)) > b))[r, s]]]"
    )


def test_comma_list_is_left_deep() -> None:
    sql = "SELECT 1 FROM r [NOW], s [NOW], u [NOW] WHERE u.k = r.k AND s.k = r.k AND u.v = s.a"
    assert shape(sql) == "π(1)[inner(0=0,10=1)[inner(0=0)[r, s], u]]"


def test_on_conditions_stay_in_the_join() -> None:
    assert shape("SELECT r.k FROM r [NOW] JOIN s [NOW] ON r.k = s.k AND r.a > 5") == (
        "π(k)[inner(0=0 if (a > 5))[r, s]]"
    )


def test_where_goes_below_a_left_join_only_on_the_left() -> None:
    sql = (
        "SELECT 1 FROM r [NOW] CROSS JOIN u [NOW] LEFT JOIN s [NOW] ON s.k = u.k "
        "WHERE r.k = u.k AND s.a = r.a"
    )
    assert shape(sql) == "π(1)[σ((a = a))[left(9=0)[inner(0=0)[r, u], s]]]"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("JOIN", JoinKind.INNER), ("INNER JOIN", JoinKind.INNER), ("LEFT JOIN", JoinKind.LEFT),
        ("LEFT OUTER JOIN", JoinKind.LEFT), ("RIGHT JOIN", JoinKind.RIGHT),
        ("FULL JOIN", JoinKind.FULL), ("FULL OUTER JOIN", JoinKind.FULL),
        ("SEMI JOIN", JoinKind.SEMI), ("LEFT SEMI JOIN", JoinKind.SEMI),
        ("ANTI JOIN", JoinKind.ANTI), ("LEFT ANTI JOIN", JoinKind.ANTI),
    ],
)  # fmt: skip
def test_kinds(words: str, kind: JoinKind) -> None:
    join = join_of(f"SELECT r.k FROM r [NOW] {words} s [NOW] ON r.k = s.k")
    assert (join.kind, join.equi) == (kind, ((0, 0),))


def test_semi_and_anti_show_the_left_side_only() -> None:
    node = plan("SELECT * FROM u [NOW] ANTI JOIN s [NOW] ON u.k = s.k AND s.a > u.v")
    assert node.schema.names == ("k", "v", "t")
    refused("SELECT s.k FROM u [NOW] SEMI JOIN s [NOW] ON u.k = s.k", "PS-NAME-002", "1:8")


def test_keys_of_equal_bits_need_no_cast_others_do() -> None:
    assert join_of(RS + "r.k = s.k").equi == ((0, 0),)
    node = plan("SELECT u.k, s.p FROM u [NOW] JOIN s [NOW] ON u.v = s.p AND u.k + 1 = s.k")
    assert isinstance(node, Project)
    join = next(n for n in walk(node) if isinstance(n, Join))
    assert join.equi == ((3, 3), (4, 0))
    assert isinstance(join.left, Project)
    assert [str(e) for e in join.left.exprs[3:]] == [
        "CAST(v AS DOUBLE)", "(CAST(k AS BIGINT) + 1)",
    ]  # fmt: skip
    assert join.left.exprs[4].type == BIGINT
    assert node.schema.names == ("k", "p")


def test_computed_keys_leave_the_columns_in_place() -> None:
    sql = "SELECT * FROM u [NOW] JOIN tab ON u.k + 1 = tab.k + 2 AND u.v < length(label)"
    node = plan(sql)
    assert node.schema.names == ("k", "v", "t", "k_1", "label")
    join = next(n for n in walk(node) if isinstance(n, Join))
    assert str(join.residual) == "(CAST(v AS BIGINT) < length(label))"
    assert len(join.schema) == 7


@pytest.mark.parametrize(
    ("condition", "band"),
    [
        ("s.b - r.b BETWEEN 1 AND 5", Band(2, 2, 1, 5)),
        ("s.b BETWEEN r.b + 1 AND r.b + 5", Band(2, 2, 1, 5)),
        ("s.b BETWEEN r.b - 3 AND r.b + 3", Band(2, 2, -3, 3)),
        ("s.b >= r.b AND s.b <= r.b + 9", Band(2, 2, 0, 9)),
        ("s.b > r.b AND s.b < r.b + 9", Band(2, 2, 1, 8)),
        ("r.b - s.b <= 4", Band(2, 2, -4, None)),
        ("r.b < s.b", Band(2, 2, 1, None)),
        ("r.a + 2 >= s.b - 1", Band(1, 2, None, 3)),
        ("s.p - r.p BETWEEN -0.5 AND 0.5", Band(3, 3, -0.5, 0.5)),
        ("s.p - r.p <= 0.5", Band(3, 3, None, 0.5)),
        ("r.p - s.p <= 0.5", Band(3, 3, -0.5, None)),
        ("s.d - r.d BETWEEN 1 AND 2.5", Band(4, 4, 100, 250)),
        (
            "s.ts BETWEEN r.ts - INTERVAL 5 SECONDS AND r.ts + INTERVAL 1 MINUTE",
            Band(8, 6, -5 * SECOND, 60 * SECOND),
        ),
        ("s.ts - r.ts <= INTERVAL 5 SECONDS", Band(8, 6, None, 5 * SECOND)),
        ("s.b - r.b BETWEEN 1 AND 5 AND s.b - r.b <= 3", Band(2, 2, 1, 3)),
    ],
)
def test_bands(condition: str, band: Band) -> None:
    join = join_of(RS + condition)
    assert (join.equi, join.band, join.residual) == ((), band, None)


@pytest.mark.parametrize(
    ("condition", "residual"),
    [
        ("s.p > r.p", "(p > p)"),
        ("s.p >= r.p", "(p >= p)"),  # NaN and infinities have no difference
        ("s.p <= r.p + 1", "(p <= (p + 1.0))"),  # a sum rounds otherwise than a difference
        ("s.p - r.p >= 1", "((p - p) >= 1.0)"),  # NaN is above all numbers
        ("s.b <> r.b", "(b <> b)"),
        ("s.b > r.b OR s.k = r.k", "((b > b) OR (k = CAST(k AS BIGINT)))"),
    ],
)
def test_other_conditions_are_residual(condition: str, residual: str) -> None:
    join = join_of(RS + condition)
    assert join.band is None
    shown = str(join.residual).replace("(2 * b)", "(b * 2)")
    assert shown == residual


@pytest.mark.parametrize("condition", ["2 * s.b > r.b", "s.b + r.b > 3"])
def test_conditions_that_can_fail_are_tested_above_the_join(condition: str) -> None:
    tree = plan(RS + condition)
    filters = [node for node in walk(tree) if isinstance(node, Filter)]
    assert [can_fail(f.predicate) for f in filters] == [True]
    assert join_of(RS + condition).residual is None


def test_a_second_band_is_residual() -> None:
    join = join_of(RS + "s.b >= r.b AND s.a >= r.a")
    assert join.band == Band(2, 2, 0, None)
    assert str(join.residual) == "(a >= a)"


def test_conditions_with_parameters_stay_above() -> None:
    for sql in (
        RS + "r.k = s.k AND s.b - r.b < $x",
        "SELECT r.k FROM r [NOW] JOIN s [NOW] ON r.k = s.k AND s.b - r.b < $x",
    ):
        assert shape(sql) == "π(k)[σ(((b - b) < $x))[inner(0=0)[r, s]]]"


def test_using_and_natural() -> None:
    names = ("k", "v", "t", "label")
    for sql in ("u [NOW] JOIN tab USING (k)", "u [NOW] NATURAL JOIN tab"):
        node = plan(f"SELECT * FROM {sql}")
        assert node.schema.names == names
    assert shape("SELECT k FROM u [NOW] LEFT JOIN tab USING (k)") == "π(k)[left(0=0)[u, tab]]"
    assert shape("SELECT k, tab.k AS x FROM u [NOW] FULL JOIN tab USING (k)") == (
        "π(coalesce(k, k), k)[full(0=0)[u, tab]]"
    )


def test_parentheses_group_joins() -> None:
    sql = "SELECT 1 FROM r [NOW] LEFT JOIN (s [NOW] JOIN u [NOW] ON s.a = u.v) ON r.k = u.k"
    assert shape(sql) == "π(1)[left(0=7)[r, inner(1=1)[s, u]]]"


def test_outer_join_after_a_comma_binds_first() -> None:
    sql = "SELECT 1 FROM u [NOW], r [NOW] FULL JOIN s [NOW] ON r.k = s.k WHERE u.k = r.k"
    assert shape(sql) == "π(1)[inner(0=0)[u, full(0=0)[r, s]]]"


def nrr_join(sql: str) -> tuple[Node, Join]:
    node = plan(sql)
    return node, next(n for n in walk(node) if isinstance(n, Join))


@pytest.mark.parametrize(
    ("sql", "kind", "names"),
    [
        ("u, nrr WHERE u.k = nrr.k", JoinKind.INNER, ("k", "v", "t", "k_1", "label")),
        ("nrr, u WHERE u.k = nrr.k", JoinKind.INNER, ("k", "label", "k_1", "v", "t")),
        ("u LEFT JOIN nrr ON u.k = nrr.k", JoinKind.LEFT, ("k", "v", "t", "k_1", "label")),
        ("nrr RIGHT JOIN u ON u.k = nrr.k", JoinKind.LEFT, ("k", "label", "k_1", "v", "t")),
        ("nrr n JOIN u ON u.k = n.k", JoinKind.INNER, ("k", "label", "k_1", "v", "t")),
    ],
)
def test_nrr_is_put_on_the_right(sql: str, kind: JoinKind, names: tuple[str, ...]) -> None:
    node, join = nrr_join(f"SELECT * FROM {sql}")
    assert (join.kind, join.equi, join.right.schema.names) == (kind, ((0, 0),), ("k", "label"))
    assert node.schema.names == names


def test_nrr_gets_no_computed_columns() -> None:
    _, join = nrr_join("SELECT * FROM u, nrr WHERE u.k = nrr.k + 1 AND u.v + 1 = nrr.k")
    assert shape("SELECT * FROM nrr, u WHERE u.k = nrr.k").endswith("[inner(0=0)[u, nrr]]")
    assert join.equi == ((3, 0),)
    assert join.residual is not None


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("SELECT * FROM nrr", "1:15"),
        ("SELECT * FROM u RIGHT JOIN nrr ON u.k = nrr.k", "1:28"),
        ("SELECT * FROM u FULL JOIN nrr ON u.k = nrr.k", "1:27"),
        ("SELECT * FROM u SEMI JOIN nrr ON u.k = nrr.k", "1:27"),
        ("SELECT * FROM nrr LEFT JOIN u ON u.k = nrr.k", "1:29"),
        ("SELECT * FROM nrr, nrr2", "1:15"),
        ("SELECT * FROM u, (SELECT k FROM nrr) n WHERE u.k = n.k", "1:33"),
        ("SELECT * FROM u WHERE k IN (SELECT k FROM nrr)", "1:43"),
        ("SELECT k FROM u UNION ALL SELECT k FROM nrr", "1:41"),
    ],
)
def test_nrr_elsewhere_is_refused(sql: str, place: str) -> None:
    refused(sql, "PS-SQL-018", place)


@pytest.mark.parametrize(
    ("sql", "code", "place"),
    [
        ("SELECT * FROM nope", "PS-NAME-001", "1:15"),
        ("SELECT x.* FROM r [NOW]", "PS-NAME-001", "1:8"),
        ("SELECT k FROM r [NOW], s [NOW]", "PS-NAME-003", "1:8"),
        ("SELECT * FROM r [NOW], r [NOW]", "PS-NAME-005", "1:8"),
        ("SELECT * FROM r [NOW] LEFT JOIN s [NOW]", "PS-SQL-024", "1:33"),
        ("SELECT * FROM r [NOW] RIGHT SEMI JOIN s [NOW] ON r.k = s.k", "PS-SQL-024", "1:39"),
        ("SELECT * FROM r [NOW] ASOF JOIN s [NOW] ON r.k = s.k", "PS-SQL-024", "1:33"),
        ("SELECT * FROM r [NOW], LATERAL (SELECT 1) x", "PS-SQL-014", "1:40"),
        ("SELECT * FROM r [NOW] JOIN tab USING (a)", "PS-NAME-002", "1:28"),
        ("SELECT * FROM generate_series(1, 2)", "PS-SQL-024", "1:15"),
        ("SELECT * FROM (VALUES (1)) x", "PS-SQL-024", "1:24"),
        ("SELECT * FROM UNNEST(x)", "PS-SQL-024", "1:22"),
        ("SELECT * FROM r [NOW] TABLESAMPLE (10 PERCENT)", "PS-SQL-024", "1:36"),
        ("SELECT * FROM db.r", "PS-SQL-024", "1:15"),
    ],
)
def test_refused_relations(sql: str, code: str, place: str) -> None:
    refused(sql, code, place)
