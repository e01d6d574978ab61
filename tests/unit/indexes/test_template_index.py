"""The index of a template finds what the scan of all pairs finds, and follows Q (CACQ §3.2.6)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.eddy import index_policy
from penstock.engine.blocks import AddQueries, DropQueries
from penstock.indexes.contract import AttributeRows
from penstock.indexes.template.template_index import TemplateIndex
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.grouped_filter_bits import transpose
from penstock.kernels.match import EQ, GE, GT, LE, LT, NE, match_queries
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def table_of(*columns: list[int]) -> tuple[Arena, QueryTable]:
    arena = Arena()
    table = QueryTable(arena.scope("Q"), len(columns))
    table.add(rows_of(*columns), 0)
    return arena, table


def rows_of(*columns: list[int]) -> I64:
    return np.array([[0] * len(columns[0]), *columns], np.int64)


def floats(*values: float) -> list[int]:
    return np.array(values, np.float64).view(np.int64).tolist()


def taken(grouped: TemplateIndex, *columns: list[int], lin: int = 0) -> list[list[int]]:
    values = rows_of(*columns)
    found = grouped.match(AttributeRows(values, np.full(values.shape[1], lin)))
    return [
        found.items[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (EQ, [[0], [1, 2], [3]]),
        (NE, [[1, 2, 3], [0, 3], [0, 1, 2]]),
        (LT, [[1, 2, 3], [3], []]),
        (LE, [[0, 1, 2, 3], [1, 2, 3], [3]]),
        (GT, [[], [0], [0, 1, 2]]),
        (GE, [[0], [0, 1, 2], [0, 1, 2, 3]]),
    ],
)
def test_each_comparison_at_the_ends_of_the_integers(op: int, expected: list[list[int]]) -> None:
    _, table = table_of([LEAST, 5, 5, MOST])
    grouped = TemplateIndex(table, np.array([[op, 0, 0, 0]]), by_cohort=False)
    assert taken(grouped, [LEAST, 5, MOST]) == expected


def test_floats_have_one_order_in_which_nan_is_largest() -> None:
    nan, inf = float("nan"), float("inf")
    _, table = table_of(floats(-inf, -1.5, 0.0, inf, nan))
    below = TemplateIndex(table, np.array([[LT, 1, 0, 0]]), by_cohort=False)
    assert taken(below, floats(-2.0, -1.5, inf, nan)) == [[1, 2, 3, 4], [2, 3, 4], [4], []]
    equal = TemplateIndex(table, np.array([[EQ, 1, 0, 0]]), by_cohort=False)
    assert taken(equal, floats(nan, 0.0, 1.0)) == [[4], [2], []]


def test_null_never_matches() -> None:
    _, table = table_of([1, 2], [1, 2])
    table.matrix()[1, 0] = 0b10  # the second parameter of query 1 is NULL
    preds = np.array([[NE, 0, 0, 0], [NE, 0, 1, 1]])
    grouped = TemplateIndex(table, preds, by_cohort=False)
    values = rows_of([7, 7], [7, 7])
    values[0, 1] = 0b01
    found = grouped.match(AttributeRows(values, np.zeros(2, np.int64)))
    assert (found.offsets.tolist(), found.items.tolist()) == ([0, 1, 1], [0])


def test_contradictions_take_nothing() -> None:
    _, table = table_of([5, 5], [3, 5])
    both = TemplateIndex(table, np.array([[EQ, 0, 0, 0], [EQ, 0, 1, 0]]), by_cohort=False)
    assert taken(both, [3, 5]) == [[], [1]]
    between = TemplateIndex(table, np.array([[GE, 0, 0, 0], [LE, 0, 1, 0]]), by_cohort=False)
    assert taken(between, [3, 4, 5]) == [[], [], [1]]


def test_it_follows_added_dropped_and_recycled_queries() -> None:
    arena, table = table_of([1, 2, 3])
    grouped = TemplateIndex(table, np.array([[EQ, 0, 0, 0]]), by_cohort=False)
    assert taken(grouped, [1, 2, 3, 4]) == [[0], [1], [2], []]
    table.drop(np.array([1]))
    assert taken(grouped, [1, 2, 3, 4]) == [[0], [], [2], []]
    assert table.add(rows_of([4]), 0).tolist() == [1]
    assert taken(grouped, [1, 2, 3, 4]) == [[0], [], [2], [1]]
    before = arena.snapshot()
    table.drop(np.array([0]))
    table.add(rows_of([2]), 0)
    assert taken(grouped, [1, 2, 3, 4]) == [[], [0], [2], [1]]
    arena.restore(before)
    table.drop(np.array([2]))
    table.add(rows_of([1]), 0)  # the change numbers are those of before the restore
    assert taken(grouped, [1, 2, 3, 4]) == [[0, 2], [], [], [1]]


def test_rows_older_than_a_query_are_not_its_rows() -> None:
    _, table = table_of([1, 1])
    table.add(rows_of([1]), 5)
    by_epoch = TemplateIndex(table, np.array([[EQ, 0, 0, 0]]), by_cohort=False)
    assert taken(by_epoch, [1], lin=4) == [[0, 1]]
    assert taken(by_epoch, [1], lin=5) == [[0, 1, 2]]
    by_cohort = TemplateIndex(table, np.array([[EQ, 0, 0, 0]]), by_cohort=True)
    assert taken(by_cohort, [1], lin=int(table.cohort()[2])) == [[2]]


def test_halves_of_replacements_become_plain_changes() -> None:
    _, table = table_of([1, 2, 3])
    grouped = TemplateIndex(table, np.array([[LE, 0, 0, 0]]), by_cohort=False)
    sign = np.array([-2, 2, 1], np.int8)
    found = grouped.match(AttributeRows(rows_of([2, 3, 1]), np.zeros(3, np.int64)))
    rows, qids, signs = signed_pairs(found, sign, True)
    assert rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert qids.tolist() == [1, 2, 2, 0, 1, 2]
    assert signs.tolist() == [-1, -2, 2, 1, 1, 1]


@pytest.mark.parametrize("spread", [50, 10**15])
def test_counts_are_the_numbers_of_pairs(spread: int) -> None:
    rng = np.random.default_rng(spread)
    _, table = table_of(*rng.integers(0, spread, (3, 700)).tolist())
    preds = np.array([[GE, 0, 0, 0], [LT, 0, 1, 1], [NE, 0, 2, 1]])
    grouped = TemplateIndex(table, preds, by_cohort=False)
    values = np.vstack([np.zeros(9000, np.int64), rng.integers(0, spread, (2, 9000))])
    lin = np.zeros(9000, np.int64)
    queries, counts = grouped.count(AttributeRows(values, lin))
    _, qids, _ = match_queries(
        lin, np.ones(9000, np.int8), False, False, values, preds, table.matrix(),
        table.live(Lineage.QUERY), table.since(Lineage.QUERY), table.cohort(),
    )  # fmt: skip
    assert np.array_equal(queries, np.arange(700))
    assert np.array_equal(counts, np.bincount(qids, minlength=700))


def test_parts_grow_are_merged_and_are_built_again() -> None:
    rng = np.random.default_rng(7)
    _, table = table_of(*rng.integers(0, 50, (2, 1000)).tolist())
    preds = np.array([[EQ, 0, 0, 0], [GE, 0, 1, 1]])
    grouped = TemplateIndex(table, preds, by_cohort=False)
    values = rows_of(*rng.integers(0, 50, (2, 40)).tolist())
    rows = AttributeRows(values, np.zeros(40, np.int64))
    for size in (1, 1, 10, 100, 3000):
        table.add(rows_of(*rng.integers(0, 50, (2, size)).tolist()), 0)
        grouped.match(rows, "index")
        assert grouped.parts <= 3
    table.drop(rng.permutation(4112)[:3500])
    before = grouped.nbytes
    found = grouped.match(rows, "index")
    assert grouped.nbytes < before
    assert np.array_equal(found.items, grouped.match(rows, "bits").items)
    assert np.array_equal(found.offsets, grouped.match(rows, "bits").offsets)


def test_the_method_follows_how_many_queries_a_row_meets() -> None:
    rng = np.random.default_rng(3)
    values, lin = rows_of(*rng.integers(0, 5000, (2, 2000)).tolist()), np.zeros(2000, np.int64)
    _, table = table_of(*rng.integers(0, 5000, (2, 5000)).tolist())
    few = TemplateIndex(table, np.array([[EQ, 0, 0, 0], [GE, 0, 1, 1]]), by_cohort=False)
    assert few.choice(AttributeRows(values, lin)) == "index"
    many = TemplateIndex(table, np.array([[GE, 0, 0, 0], [GE, 0, 1, 1]]), by_cohort=False)
    assert many.choice(AttributeRows(values, lin)) == "bits"


@pytest.fixture
def _by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template matches its queries by its own filter, however few there are."""
    monkeypatch.setattr(index_policy, "MOST_IN_GROUPS", 7)


@pytest.mark.usefixtures("_by_itself")
def test_explain_names_the_filter_and_its_clusters() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    params = pa.table({"key": [i % 5 for i in range(100)], "least": range(100)})
    queries = ps.query_many("SELECT a FROM r [RANGE 9] WHERE k = $key AND a > $least", params)
    ps.push("r", [{"k": 1, "a": 1, "ts": 1}])
    assert "× 100 queries (grouped filter, 5 clusters)" in queries[0].explain()
    for query in queries[7:]:
        query.drop()
    assert "grouped filter" not in queries[0].explain()
    ps.close()


def forms(where: str, params: dict[str, list[object]]) -> tuple[list[penstock.Query], str]:
    """Queries over a stream with some rows, and how the first is explained."""
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k BIGINT, a BIGINT, name STRING, ts BIGINT) TIMESTAMP BY ts")
    queries = ps.query_many(f"SELECT k, name FROM r [RANGE 9] WHERE {where}", pa.table(params))
    names = ["abc", "abcdefgh-1", "abcdefgh-2", None, "xyz", "", "a%c"]
    rows = [{"k": i, "a": i % 7, "name": names[i % 7], "ts": 1} for i in range(1400)]
    ps.push("r", rows)
    return queries, queries[0].explain()


def names_of(query: penstock.Query) -> set[object]:
    return set(query.view()["name"].to_pylist())


@pytest.mark.usefixtures("_by_itself")
def test_lists_enter_the_index() -> None:
    lists = {"x": [*["abc", "xyz"] * 5], "y": [*["xyz", ""] * 5], "z": [*range(7, 17)]}
    queries, told = forms("name IN ($x, $y) AND a < $z", lists)
    assert "× 10 queries (grouped filter, 3 clusters)" in told
    assert [names_of(q) for q in queries[:2]] == [{"abc", "xyz"}, {"xyz", ""}]


@pytest.mark.usefixtures("_by_itself")
def test_a_pattern_may_be_a_parameter() -> None:
    patterns = ["abc%", "abcdefgh-1%", "%c", "_yz", "", "a%", "%", None, "abcdefgh-2", "a\\%c"]
    queries, told = forms("name LIKE $p", {"p": [*patterns]})
    assert "(grouped filter, 1 clusters, 5 queries verified)" in told
    long = {"abcdefgh-1", "abcdefgh-2"}
    assert [names_of(q) for q in queries] == [
        {"abc", *long}, {"abcdefgh-1"}, {"abc", "a%c"}, {"xyz"}, {""}, {"abc", "a%c", *long},
        {"abc", "a%c", "xyz", "", *long}, set(), {"abcdefgh-2"}, set(),
    ]  # fmt: skip


@pytest.mark.usefixtures("_by_itself")
def test_the_pattern_may_be_computed_from_parameters() -> None:
    prefixes = ["ab", "abcdefgh", "x", "%c", "%", "abc", "_y", "z"]
    queries, _ = forms("name LIKE $p || '%'", {"p": [*prefixes]})
    long = {"abcdefgh-1", "abcdefgh-2"}
    assert [names_of(q) for q in queries] == [
        {"abc", *long}, long, {"xyz"}, {"abc", "a%c", *long}, {"abc", "a%c", "xyz", "", *long},
        {"abc", *long}, {"xyz"}, set(),
    ]  # fmt: skip


@pytest.mark.usefixtures("_by_itself")
def test_alternatives_are_looked_up_each_and_a_query_gets_a_row_once() -> None:
    params = {"x": [*["abc", "none"] * 5], "k": [*range(0, 70, 7)]}  # names of k = 0, 7, …: abc
    queries, told = forms("name = $x OR k = $k", params)
    assert "(grouped filter, 12 clusters in 2 alternatives)" in told
    assert [q.view().num_rows for q in queries[:2]] == [200, 1]


@pytest.mark.usefixtures("_by_itself")
def test_what_is_no_term_is_evaluated_on_what_the_terms_leave() -> None:
    queries, told = forms("(a = 4 AND length(name) > k - $k) OR k = $k", {"k": [*range(10)]})
    assert "in 2 alternatives, then ((length(name)" in told
    assert [q.view().num_rows for q in queries[:5]] == [1, 1, 2, 2, 1]


@pytest.mark.usefixtures("_by_itself")
def test_a_constant_that_cannot_be_computed_fails_its_query_alone() -> None:
    queries, _ = forms("a < $p + 1 OR a = 3", {"p": [MOST, *range(9)]})
    assert [q.status == "failed" for q in queries] == [True, *[False] * 9]
    assert queries[1].view().num_rows == 400


def test_a_query_dropped_in_the_step_that_registered_it_gets_nothing() -> None:
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100")
    ps.query("SELECT k FROM r [RANGE 100] WHERE k > 0")
    ps.push("r", [{"k": 1, "ts": 1}, {"k": 2, "ts": 2}])
    engine = ps._books.engine
    (template,) = engine.templates
    new, params = np.array([1]), np.array([[0], [0]])
    adding = AddQueries(template, params, True, new, engine.epoch + 1)
    output = engine.apply([adding, DropQueries(template, new)])
    assert [len(changes) for _, changes in output.changes] == [0, 0]
    ps.close()


def test_transposing_bits() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 63, 64).astype(np.uint64)
    turned = words.copy()
    transpose(turned)
    for i, j in [(0, 0), (0, 63), (63, 0), (17, 42), (42, 17), (31, 32)]:
        assert int(turned[j]) >> i & 1 == int(words[i]) >> j & 1
    transpose(turned)
    assert np.array_equal(turned, words)
