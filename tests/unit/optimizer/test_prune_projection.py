from __future__ import annotations

from plan_builders import (
    COLUMNS,
    NONE,
    add,
    anti,
    cmp,
    col,
    count_by,
    join,
    lit,
    nrr,
    project,
    scan,
    table,
    union_all,
)

from penstock.logical.expr import Agg
from penstock.logical.nodes import Distinct, Filter, GroupBy, Join, Node, Rows, Scan, Windowed, walk
from penstock.optimizer.prune_projection import prune_projection
from penstock.patterns.rules import is_nrr
from penstock.schema import Field, Schema
from penstock.types import BIGINT, STRING, TIMESTAMP


def pruned(node: Node) -> Node:
    return prune_projection(node, NONE)


def test_scans_and_tables_yield_what_is_read() -> None:
    before = project(Filter(scan(), cmp("gt", col(2), lit(0))), 1)
    after = project(Filter(scan(columns=(1, 2)), cmp("gt", col(1), lit(0))), 0)
    assert pruned(before) == after
    assert pruned(project(table(), 2)) == project(table(columns=(2,)), 0)


def test_joins_store_what_is_read_above_them_and_their_keys() -> None:
    left = Filter(scan("r"), cmp("gt", col(2), lit(0)))
    before = project(join(left, scan("s")), 1)
    filtered = Filter(scan("r"), cmp("gt", col(2), lit(0)))
    after = project(join(project(filtered, 0, 1), scan("s", columns=(0,))), 1)
    assert pruned(before) == after


def test_the_right_side_of_an_anti_join_yields_its_keys() -> None:
    before = project(anti(scan("r"), scan("s"), on=((0, 1),)), 0, 2)
    after = anti(scan("r", columns=(0, 2)), scan("s", columns=(1,)), on=((0, 0),))
    assert pruned(before) == project(after, 0, 1)


def test_an_nrr_stays_bare() -> None:
    after = pruned(project(join(scan(), nrr()), 4))
    names = nrr()
    assert after == project(join(scan(columns=(0,)), type(names)("n", COLUMNS, True, (0, 1))), 2)


def test_unused_aggregates_are_not_computed() -> None:
    aggs = (
        Agg("count", None, False, None, BIGINT),
        Agg("sum", col(1), False, None, BIGINT),
        Agg("max", add(col(2), lit(1)), False, None, BIGINT),
    )
    before = project(GroupBy(scan(), (0,), aggs, ("n", "s", "m")), 3)
    maximum = Agg("max", add(col(1), lit(1)), False, None, BIGINT)
    assert pruned(before) == project(GroupBy(scan(columns=(0, 2)), (0,), (maximum,), ("m",)), 1)


def test_whole_rows_stay_whole_below_distinct() -> None:
    before = project(Distinct(scan()), 1)
    assert pruned(before) == before


def test_union_all_is_narrowed_on_both_sides() -> None:
    left = Filter(scan("r"), cmp("gt", col(0), lit(0)))
    before = project(union_all(left, scan("s")), 1)
    narrow = Filter(scan("r", columns=(0, 1)), cmp("gt", col(0), lit(0)))
    assert pruned(before) == project(union_all(project(narrow, 1), scan("s", columns=(1,))), 0)


def test_counting_rows_keeps_one_column_and_rather_no_string() -> None:
    schema = Schema((Field("name", STRING), Field("ts", TIMESTAMP), Field("k", BIGINT)))
    before = count_by(Scan("r", schema, scan().window, (0, 1, 2)))
    assert pruned(before) == count_by(Scan("r", schema, scan().window, (1,)))


def test_a_time_column_is_dropped_unless_read() -> None:
    schema = Schema((Field("k", BIGINT), Field("ts", TIMESTAMP)))
    before = count_by(Scan("r", schema, scan().window, (0, 1)), 0)
    assert pruned(before) == count_by(Scan("r", schema, scan().window, (0,)), 0)


def test_partition_columns_of_a_rows_window_stay() -> None:
    before = project(Windowed(scan(), Rows(2, (1,))), 2)
    after = project(Windowed(scan(columns=(1, 2)), Rows(2, (0,))), 1)
    assert pruned(before) == after
    partitioned = project(scan(window=Rows(2, (1,))), 2)
    assert pruned(partitioned) == project(scan(window=Rows(2, (1,)), columns=(1, 2)), 1)


def test_a_subplan_used_twice_stays_one() -> None:
    shared = scan("r")
    before = project(join(project(shared, 0, 1), project(shared, 0, 2)), 1, 3)
    scans = {node for node in walk(pruned(before)) if isinstance(node, Scan)}
    assert scans == {shared}


def test_pruning_twice_changes_nothing() -> None:
    before = project(join(Filter(scan("r"), cmp("gt", col(2), lit(0))), scan("s")), 1)
    assert pruned(pruned(before)) == pruned(before)


def test_what_is_replaced_meets_an_nrr_whole() -> None:
    for stream in (
        count_by(scan(), 0),
        Distinct(scan()),
        anti(scan("r"), scan("s")),
        scan(window=Rows(2)),
    ):
        before = project(join(stream, nrr()), 0)
        inner = [n for n in walk(pruned(before)) if isinstance(n, Join) and is_nrr(n.right)]
        (side,) = [n.left for n in inner]
        assert side.schema == stream.schema
