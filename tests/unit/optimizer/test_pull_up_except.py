from __future__ import annotations

from plan_builders import MIN, NONE, anti, cmp, col, join, lit, scan, table

from penstock.logical.nodes import (
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Range,
    SetKind,
    SetOp,
    walk,
)
from penstock.optimizer.optimizer import optimize
from penstock.optimizer.pull_up_except import pull_up_except
from penstock.optimizer.stats import Stats, StreamStats
from penstock.patterns.rules import pattern_of

W = Range(10 * MIN)
A, B, C, D = (scan(name, W) for name in "abcd")


def pulled(node: Node, stats: Stats = NONE) -> Node:
    return pull_up_except(node, stats)


def test_above_a_join_from_either_side() -> None:
    assert pulled(join(anti(A, B), C)) == anti(join(A, C), B)
    assert pulled(join(C, anti(A, B, on=((1, 0),)))) == anti(join(C, A), B, on=((4, 0),))


def test_from_both_sides_and_through_several_joins() -> None:
    assert pulled(join(anti(A, B), anti(C, D))) == anti(anti(join(A, C), D, on=((3, 0),)), B)
    assert pulled(join(join(anti(A, B), C), D)) == anti(join(join(A, C), D), B)


def test_above_semi_joins_and_distinct() -> None:
    semi = join(anti(A, B), C, JoinKind.SEMI)
    assert pulled(semi) == anti(join(A, C, JoinKind.SEMI), B)
    assert pulled(Distinct(anti(A, B))) == anti(Distinct(A), B)


def test_except_below_a_join_is_an_anti_join_of_distinct_rows() -> None:
    before = join(SetOp(A, B, SetKind.EXCEPT, all=False), C)
    every = ((0, 0), (1, 1), (2, 2))
    after = Join(join(Distinct(A), C), B, JoinKind.ANTI, every, null_safe=True)
    assert pulled(before) == after


def test_except_all_counts_and_stays() -> None:
    before = join(SetOp(A, B, SetKind.EXCEPT, all=True), C)
    assert pulled(before) == before


def test_joins_with_tables_have_their_own_rule() -> None:
    before = join(anti(A, B), table())
    assert pulled(before) == before


def test_a_join_that_multiplies_rows_is_left_above_the_negation() -> None:
    before = join(anti(A, B), C)
    a = StreamStats(10.0, {"k": 1000.0})
    rare, common = StreamStats(10.0, {"k": 100.0}), StreamStats(10.0, {"k": 900.0})
    slow, fast = StreamStats(0.1, {"k": 1000.0}), StreamStats(100.0, {"k": 1000.0})
    assert pulled(before, Stats({"a": a, "b": rare, "c": slow})) == anti(join(A, C), B)
    assert pulled(before, Stats({"a": a, "b": common, "c": fast})) == before


# ---- Golab & Özsu 2005, Figure 6: Query 5 in both forms ------------------------------
FTP = cmp("eq", col(1), lit(21))
QUERY_5 = Filter(join(anti(A, B), C), cmp("eq", col(4), lit(21)))


def patterns(node: Node) -> list[tuple[str, str]]:
    def name(part: Node) -> str:
        return part.kind.value if isinstance(part, Join) else type(part).__name__.lower()

    return [(name(part), pattern_of(part).value) for part in walk(node)]


def test_query_5_with_the_negation_pulled_up() -> None:
    plan = optimize(QUERY_5, NONE, off=frozenset({"prune_projection"}))
    assert plan == anti(join(A, Filter(C, FTP)), B)
    assert patterns(plan) == [
        ("anti", "STR"),
        ("inner", "WK"),
        ("scan", "WKS"),
        ("filter", "WKS"),
        ("scan", "WKS"),
        ("scan", "WKS"),
    ]


def test_query_5_with_the_negation_pushed_down() -> None:
    plan = optimize(QUERY_5, NONE, off=frozenset({"pull_up_except", "prune_projection"}))
    assert plan == join(anti(A, B), Filter(C, FTP))
    assert patterns(plan) == [
        ("inner", "STR"),
        ("anti", "STR"),
        ("scan", "WKS"),
        ("scan", "WKS"),
        ("filter", "WKS"),
        ("scan", "WKS"),
    ]


def test_query_5_with_all_rules_has_the_same_patterns() -> None:
    up, down = (optimize(QUERY_5, NONE, off=frozenset(o)) for o in ((), ("pull_up_except",)))
    assert [p for _, p in patterns(up)] == ["STR", "WK", "WKS", "WKS", "WKS", "WKS"]
    assert [p for _, p in patterns(down)] == ["STR", "STR", "WKS", "WKS", "WKS", "WKS"]
