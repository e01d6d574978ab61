"""Where plans run: rule by rule, by an independent check of every edge, and by running them.

`Checker` recomputes from the leaves where the rows of each node are and asserts what each
operator needs. `run` evaluates a distributed plan shard by shard over random rows, which must
give the rows of the undistributed plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from zlib import crc32

import evaluate_bags
import pytest
from evaluate_bags import Contents, Row, bag
from plan_builders import (
    WINDOWS,
    PlanMaker,
    add,
    col,
    count_by,
    join,
    project,
    scan,
    table,
    union_all,
)

from penstock.errors import PlanError, UnsupportedError
from penstock.logical.expr import Column
from penstock.logical.functions import SUM_OF_PARTS, SUM_PARTS
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Received,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    Windowed,
    walk,
)
from penstock.optimizer.distribute import distribute
from penstock.optimizer.distribution import Distributed, Route, Send, Spread
from penstock.optimizer.lower_windows import lower_windows
from penstock.optimizer.optimizer import optimize
from penstock.optimizer.rewrite import bottom_up
from penstock.optimizer.stats import Stats
from penstock.session.compile import compile_select, optimise
from penstock.sql.catalog import MemoryCatalog, ViewDef, stream_def, table_def
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import CreateStream, CreateTable, Select
from property.data import STREAMS, TABLES
from property.plans import Plans

HOME = 1
COLUMNS = "(k INT, a INT, b BIGINT, x DOUBLE, ts BIGINT) TIMESTAMP BY ts"
SCHEMA = f"""
CREATE STREAM r {COLUMNS}; CREATE STREAM s {COLUMNS}; CREATE STREAM u {COLUMNS};
CREATE TABLE t (k INT, name STRING); CREATE TABLE n (k INT, w INT) NONRETROACTIVE
"""


def catalog_of(script: str) -> MemoryCatalog:
    catalog = MemoryCatalog()
    for statement in parse_script(script):
        if isinstance(statement, CreateStream):
            catalog.add(stream_def(statement))
        else:
            assert isinstance(statement, CreateTable)
            catalog.add(table_def(statement))
    return catalog


def add_view(catalog: MemoryCatalog, name: str, sql: str) -> None:
    select = parse_statement(sql)
    assert isinstance(select, Select)
    catalog.add(ViewDef(name, compile_select(select, catalog).template))


CATALOG = catalog_of(SCHEMA)
add_view(CATALOG, "counts", "SELECT k, count(*) AS c FROM r [RANGE 5] GROUP BY k")
add_view(CATALOG, "pairs", "SELECT s.a FROM r [NOW], s [NOW] WHERE r.k = s.k")


def plan_of(sql: str, catalog: MemoryCatalog = CATALOG) -> Node:
    select = parse_statement(sql)
    assert isinstance(select, Select)
    return optimise(compile_select(select, catalog).template, Stats(), frozenset())


def spread(sql: str, **known: list[Spread]) -> Distributed:
    plan = plan_of(sql)
    made = distribute(plan, HOME, known)
    Checker(made).check(plan)
    return made


def hashed(*columns: int) -> Spread:
    return Spread("hash", columns)


# ---- where the rows of a node are ----------------------------------------------------
Where = str | frozenset[tuple[int, ...]]
"""all, one, or on one shard each: by these column tuples, or (none) anywhere."""


class Checker:
    """Recomputes the distribution of every edge and asserts what operators need."""

    def __init__(self, made: Distributed) -> None:
        self.made = made
        self.routes = {route.name: route for route in made.routes}
        self.used: set[str] = set()

    def check(self, plan: Node) -> None:
        made = self.made
        assert made.view.schema == plan.schema
        assert [send.channel for send in made.sends] == list(range(len(made.sends)))
        assert len({(s.node, s.spread) for s in made.sends}) == len(made.sends)
        for send in made.sends:
            assert send.spread.kind != "any"
            if not self.is_partial(send):
                assert isinstance(self.where(send.node), frozenset)
            assert not any(isinstance(n, Received) for n in walk(send.node))
        found = self.where(made.view)
        if made.home is None:
            assert isinstance(found, frozenset)
        else:
            assert found == "one" or (found == "all" and not self.routes)
        received = {n.channel for n in walk(made.view) if isinstance(n, Received)}
        assert received == set(range(len(made.sends)))
        assert not (made.sends and any(isinstance(n, Scan) for n in walk(made.view)))
        assert self.used == set(self.routes)
        assert list(self.routes) == sorted(self.routes)
        self.check_origin(plan)

    def check_origin(self, plan: Node) -> None:
        old = set(walk(plan))
        assert set(self.made.origin.values()) <= old
        for node, origin in self.made.origin.items():
            assert node.schema.types == origin.schema.types or isinstance(node, GroupBy)
        for node in walk(self.made.view):
            if not isinstance(node, Received | GroupBy):  # the final part of a split is new
                assert node in self.made.origin

    def is_partial(self, send: Send) -> bool:
        """Whether a part of a keyless aggregate is sent, which a keyless aggregate alone may read.

        Its keys are magnitudes of what it adds up in doubles, if there is such a thing.
        """
        if not isinstance(send.node, GroupBy):
            return False
        sums = {a.arg for a in send.node.aggs if a.fn == SUM_PARTS[0]}
        if send.node.keys and not sums:
            return False
        assert len(send.node.keys) == len(sums)
        assert isinstance(self.where(send.node.input), frozenset)
        assert send.spread.kind in ("one", "all")
        assert not any(a.distinct and a.fn not in ("min", "max") for a in send.node.aggs)
        readers = [
            n
            for n in walk(self.made.view)
            for i in n.inputs
            if isinstance(i, Received) and i.channel == send.channel
        ]
        for reader in readers:
            assert isinstance(reader, GroupBy)
            assert not reader.keys
            merges = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
            merges[SUM_PARTS[0]] = SUM_OF_PARTS
            shown = [a.fn for a in send.node.aggs if a.fn not in SUM_PARTS[1:]]
            assert [a.fn for a in reader.aggs] == [merges[fn] for fn in shown]
        return True

    def where(self, node: Node) -> Where:
        match node:
            case Scan():
                return self.scanned(node)
            case TableScan():
                return "all"
            case Received():
                return placed(self.made.sends[node.channel].spread, range(62))
            case Join():
                return self.joined(node, self.where(node.left), self.where(node.right))
            case SetOp():
                return self.combined(node, self.where(node.left), self.where(node.right))
        (child,) = node.inputs
        found = self.where(child)
        if isinstance(found, str):
            return found
        match node:
            case Filter():
                return found
            case Project():
                places = [e.index if isinstance(e, Column) else -1 for e in node.exprs]
                return renamed(found, [[o for o, p in enumerate(places) if p == i] for i in WIDE])
            case Windowed(window=Rows(partition=partition)):
                assert any(set(by) <= set(partition) for by in found)
                return found
            case Distinct():
                assert found
                return found
            case GroupBy(keys=keys):
                assert any(set(by) <= set(keys) for by in found)
                return renamed(found, [[o for o, k in enumerate(keys) if k == i] for i in WIDE])
        raise AssertionError(f"no rule for {type(node).__name__}")

    def scanned(self, node: Scan) -> Where:
        self.used.add(node.stream)
        spread = self.routes[node.stream].spread
        if isinstance(node.window, Rows) and spread.kind not in ("all", "one"):
            assert spread.kind == "hash"
            assert set(spread.columns) <= set(node.window.partition)
        return placed(spread, node.columns)

    def combined(self, node: SetOp, left: Where, right: Where) -> Where:
        if isinstance(left, str) or isinstance(right, str):
            return self.whole(left, right)
        if node.kind is not SetKind.UNION:
            assert left & right
        return left & right

    def joined(self, node: Join, left: Where, right: Where) -> Where:
        split = len(node.left.schema)
        inner = node.kind is JoinKind.INNER
        equal = [[i] for i in range(62)]
        if inner:
            for i, j in node.equi:
                equal[i].append(split + j)
                equal[split + j].append(i)
        if left == "all" and isinstance(right, frozenset):
            assert inner
            return renamed({tuple(split + j for j in by) for by in right}, equal)
        if right == "all" and isinstance(left, frozenset):
            return renamed(left, equal)
        if isinstance(left, str) or isinstance(right, str):
            return self.whole(left, right)
        pairs = [p for p in product(left, right) if len(p[0]) == len(p[1])]
        meet = {a for a, b in pairs if all(p in node.equi for p in zip(a, b, strict=True))}
        assert meet
        return renamed(meet, equal)

    def whole(self, left: Where, right: Where) -> Where:
        """Of two sides that are not spread; on the home shard a table is as good as one."""
        assert isinstance(left, str)
        assert isinstance(right, str)
        if left == right:
            return left
        assert self.made.home is not None
        return "one"


WIDE = range(62)


def placed(spread: Spread, columns: range | tuple[int, ...]) -> Where:
    if spread.kind in ("all", "one"):
        return "one" if spread.kind == "one" else "all"
    if spread.kind == "any" or not set(spread.columns) <= set(columns):
        return frozenset()
    return frozenset({tuple(columns.index(c) for c in spread.columns)})


def renamed(found: frozenset[tuple[int, ...]] | set[tuple[int, ...]], at: list[list[int]]) -> Where:
    """The hashes as seen above, where column i is found at the places at[i]."""
    return frozenset(by for old in found for by in product(*(at[c] for c in old)))


# ---- rule by rule --------------------------------------------------------------------
def table_of(text: str) -> list[tuple[str, ...]]:
    """Cases written one per line, the query last."""
    lines = [line for line in text.strip().splitlines() if not line.startswith("--")]
    return [tuple(cell.strip() for cell in line.split("|")) for line in lines]


ONE_LEVEL = table_of("""
r@any | SELECT k, a FROM r [RANGE 9] WHERE a > 3
r@any | SELECT a + 1 FROM r WHERE k = 2
r@hash0 | SELECT * FROM counts
r@hash0.1 | SELECT k, a, count(*) FROM r [RANGE 5] GROUP BY k, a
r@hash0 | SELECT k, count(*) FROM r [RANGE 5] GROUP BY k HAVING count(*) > 3
r@hash0.1 | SELECT DISTINCT k, a FROM r [RANGE 5]
r@hash0 s@hash0 | SELECT r.k, count(*) FROM r [NOW], s [RANGE 5] WHERE r.k = s.k GROUP BY r.k
-- a hash on some of the keys is enough, and equal columns stand for each other
r@hash0 s@hash0 | SELECT s.k, r.a, count(*) FROM r [NOW], s [NOW] WHERE r.k = s.k GROUP BY 1, 2
r@hash0 s@hash0 | SELECT DISTINCT s.a, r.k FROM r [NOW], s [NOW] WHERE r.k = s.k
r@hash0.1 s@hash1.0 | SELECT r.k FROM r [NOW], s [NOW] WHERE r.k = s.a AND r.a = s.k
r@hash0 s@hash0 u@hash0 | SELECT r.k FROM r [NOW], s [NOW], u [NOW] WHERE r.k = s.k AND s.k = u.k
-- set operations
r@hash0.1 s@hash1.0 | SELECT k, a FROM r [NOW] EXCEPT SELECT a, k FROM s [NOW]
r@hash0 s@hash0 | SELECT k FROM r [NOW] EXCEPT ALL SELECT k FROM s [NOW]
r@hash0.1 s@hash0.1 | SELECT k, a FROM r [NOW] INTERSECT SELECT k, a FROM s [NOW]
r@hash0 s@hash1 | SELECT k FROM r [NOW] UNION SELECT a FROM s [NOW]
r@hash0 s@hash0 | SELECT k, c FROM (SELECT k, 1 AS c FROM r [NOW]) q EXCEPT SELECT k, 2 FROM s [NOW]
-- negation
r@hash0 s@hash0 | SELECT k FROM r [NOW] WHERE NOT EXISTS (SELECT 1 FROM s [NOW] WHERE s.k = r.k)
r@any s@all | SELECT k FROM r [NOW] WHERE NOT EXISTS (SELECT 1 FROM s [NOW])
r@hash0 s@all s@hash1 | SELECT k FROM r [NOW] WHERE k NOT IN (SELECT a FROM s [NOW])
r@any | SELECT k FROM r [NOW] WHERE k IN (SELECT k FROM t)
-- outer joins
r@hash0 s@hash0 | SELECT r.k, s.a FROM r [NOW] LEFT JOIN s [NOW] ON r.k = s.k
r@hash0 s@hash0 | SELECT r.k, s.a FROM r [NOW] FULL JOIN s [NOW] ON r.k = s.k AND r.a < s.a
r@any | SELECT r.k, t.name FROM r [NOW] LEFT JOIN t ON r.k = t.k
-- tables are everywhere
r@any | SELECT r.k, n.w FROM r [NOW] JOIN n ON r.k = n.k
r@hash1 | SELECT r.a, name, count(*) FROM r [NOW] JOIN t ON r.k = t.k GROUP BY r.a, name
r@hash0 | SELECT t.k, count(*) FROM r [NOW] JOIN t ON r.k = t.k GROUP BY t.k
-- without an equality one side is copied
r@any s@all | SELECT r.a FROM r [NOW], s [NOW] WHERE r.a BETWEEN s.a AND s.a + 3
r@all s@any | SELECT r.a FROM r [ROWS 2], s [NOW] WHERE r.a BETWEEN s.a AND s.a + 3
-- count windows
r@hash0 | SELECT k, a FROM r [PARTITION BY k ROWS 3]
r@hash0.1 | SELECT a, k, count(*) FROM r [PARTITION BY a, k ROWS 3] GROUP BY k, a
r@hash0 | SELECT a, k, count(*) FROM r [PARTITION BY k ROWS 3] GROUP BY a, k
r@hash2.1 | SELECT a FROM (SELECT a, b FROM r WHERE k > 1) [PARTITION BY b, a ROWS 2] q
-- one stream twice
r@hash0 | SELECT x.k FROM r [NOW] x, r [RANGE 7] y WHERE x.k = y.k
r@hash0 r@hash1 | SELECT x.k FROM r [NOW] x, r [RANGE 7] y WHERE x.k = y.a
r@hash1 | SELECT k, b FROM r [NOW] UNION ALL SELECT a, count(*) FROM r [NOW] GROUP BY a
""")


@pytest.mark.parametrize(("routes", "sql"), ONE_LEVEL)
def test_no_row_moves_twice(routes: str, sql: str) -> None:
    made = spread(sql)
    assert (made.levels, made.home) == (1, None)
    assert [r.name for r in made.routes] == routes.split()


TWO_LEVELS = table_of("""
r@hash0 s@hash0 | hash1 | SELECT r.a, count(*) FROM r [NOW], s [NOW] WHERE r.k = s.k GROUP BY r.a
r@hash0 s@hash0 u@any | hash0 hash0 | SELECT u.a FROM pairs p, u [NOW] WHERE p.a = u.a
r@any | hash0 | SELECT k + 1, count(*) FROM r [NOW] GROUP BY k + 1
r@hash0 | hash0 | SELECT c, count(*) FROM counts q GROUP BY c
r@any | hash2 | SELECT name, count(*) FROM r [NOW] JOIN t ON r.k = t.k GROUP BY name
r@any | hash2 | SELECT w, count(*) FROM r [NOW] JOIN n ON r.k = n.k GROUP BY w
r@hash0 | hash1 | SELECT a, count(*) FROM r [PARTITION BY k ROWS 3] GROUP BY a
r@any s@any | hash0 hash0 | SELECT k FROM r [NOW] INTERSECT ALL SELECT k + 1 FROM s [NOW]
-- the other side of a union moves too, by all its columns
r@hash0 s@any | hash0 hash0.1| SELECT c, c FROM counts GROUP BY c UNION ALL SELECT b, ts FROM s[NOW]
""")


@pytest.mark.parametrize(("routes", "sends", "sql"), TWO_LEVELS)
def test_rows_move_once(routes: str, sends: str, sql: str) -> None:
    made = spread(sql)
    assert (made.levels, made.home) == (2, None)
    assert [r.name for r in made.routes] == routes.split()
    assert [str(s.spread) for s in made.sends] == sends.split()


AT_HOME = table_of("""
1 |  | SELECT name FROM t WHERE k > 3
1 |  | SELECT count(*) FROM t
1 | r@one1 | SELECT k, a FROM r [ROWS 3]
1 | r@one1 s@one1 | SELECT r.k FROM r [ROWS 3], s [NOW] WHERE r.k = s.k
-- level 1 would only hand rows on
1 | r@one1 | SELECT count(DISTINCT a) FROM r [NOW]
1 | r@one1 | SELECT median(a) FROM r [NOW]
1 | r@one1 | SELECT k FROM r [NOW] UNION ALL SELECT k FROM t
1 | r@one1 | SELECT k FROM r [NOW] EXCEPT SELECT k FROM t
1 | s@one1 | SELECT k FROM t WHERE k IN (SELECT k FROM s [NOW])
1 | r@one1 | SELECT a FROM (SELECT a FROM r WHERE k > 1) [ROWS 2] q
-- level 1 has work to do
2 | r@any | SELECT median(a) FROM r [NOW] WHERE k > 1
2 | s@any | SELECT name, s.a FROM t LEFT JOIN s [NOW] ON t.k = s.k
2 | r@any | SELECT k FROM r [NOW] WHERE a > 1 UNION ALL SELECT k FROM t
2 | r@hash0 | SELECT count(*), d FROM (SELECT count(*) AS d FROM counts q GROUP BY c) p GROUP BY d
-- split aggregates
2 | r@any | SELECT count(*) FROM r [NOW]
2 | r@any | SELECT count(*), avg(x) FROM r [NOW] HAVING count(*) > 3
2 | r@hash0 | SELECT max(c) FROM counts q
2 | r@any s@any | SELECT c FROM r [NOW], (SELECT count(*) AS c FROM s [NOW]) q WHERE r.b = q.c
""")


@pytest.mark.parametrize(("levels", "routes", "sql"), AT_HOME)
def test_one_shard_has_the_answer(levels: str, routes: str, sql: str) -> None:
    made = spread(sql)
    assert (made.levels, made.home) == (int(levels), HOME)
    assert [r.name for r in made.routes] == routes.split()
    assert all(send.spread == Spread("one", shard=HOME) for send in made.sends)


def test_a_global_aggregate_is_split() -> None:
    made = spread("SELECT count(*) AS n, sum(a) AS s FROM r [NOW] WHERE k > 1")
    (send,) = made.sends
    assert isinstance(send.node, GroupBy)
    finals = [n for n in walk(made.view) if isinstance(n, GroupBy)]
    assert [a.fn for f in finals for a in f.aggs] == ["sum", "sum"]


def test_an_aggregate_that_cannot_be_split_is_not() -> None:
    made = spread("SELECT count(*), median(a) FROM r [NOW] WHERE k > 1")
    assert [isinstance(s.node, GroupBy) for s in made.sends] == [False]


def test_a_view_over_a_view_is_one_plan() -> None:
    catalog = catalog_of(SCHEMA)
    add_view(catalog, "v", "SELECT k, a, count(*) AS c FROM r [NOW] GROUP BY k, a")
    add_view(catalog, "w", "SELECT k, max(c) AS c FROM v GROUP BY k")
    made = distribute(plan_of("SELECT w.k, c FROM w JOIN t ON w.k = t.k", catalog), HOME)
    assert (made.levels, [r.name for r in made.routes]) == (1, ["r@hash0"])


def test_one_subplan_is_sent_once() -> None:
    made = spread("SELECT x.k, y.k FROM counts x JOIN counts y ON x.c = y.c")
    assert [str(s.spread) for s in made.sends] == ["hash1"]
    assert sum(isinstance(n, Received) for n in walk(made.view)) == 2


def test_rows_anywhere_and_rows_by_all_columns_are_one_send() -> None:
    computed = project(scan("r"), add(col(0), col(1)))
    made = distribute(union_all(computed, Distinct(computed)), HOME)
    assert [str(s.spread) for s in made.sends] == ["hash0"]


def test_different_spreads_of_one_subplan_are_different_sends() -> None:
    counts = count_by(scan("r"), 0)
    made = distribute(join(counts, counts, on=((1, 0),)), HOME)
    assert [str(s.spread) for s in made.sends] == ["hash1", "hash0"]
    assert len({s.node for s in made.sends}) == 1


def test_routes_in_use_are_taken() -> None:
    sql = "SELECT k FROM r [NOW] WHERE a > 1"
    used = [Spread("any"), Spread("all"), hashed(2), hashed(1, 0), Spread("one", shard=3)]
    assert [r.name for r in spread(sql, r=used).routes] == ["r@hash1.0"]
    assert [r.name for r in spread(sql, s=used).routes] == ["r@any"]
    assert [r.name for r in spread("SELECT * FROM counts", r=used).routes] == ["r@hash0"]


def test_a_count_window_takes_only_routes_that_keep_its_partitions() -> None:
    sql = "SELECT k FROM r [PARTITION BY k, a ROWS 2]"
    assert [r.name for r in spread(sql, r=[hashed(2), hashed(1)]).routes] == ["r@hash1"]
    assert [r.name for r in spread(sql, r=[hashed(2), hashed(1, 2)]).routes] == ["r@hash0.1"]


def test_the_home_shard_is_the_one_given() -> None:
    made = distribute(plan_of("SELECT count(*) FROM r [NOW]"), 5)
    assert (made.home, made.sends[0].spread) == (5, Spread("one", shard=5))


def test_positions_of_a_pruned_scan_are_columns_of_the_stream() -> None:
    plan = Distinct(scan("r", columns=(2, 0)))
    assert distribute(plan, HOME).routes == (Route("r", hashed(2, 0)),)
    rows = scan("r", Rows(2, (2,)), columns=(2, 0))
    assert distribute(rows, HOME).routes == (Route("r", hashed(2)),)
    assert distribute(Distinct(rows), HOME).routes == (Route("r", hashed(2)),)


def test_origin_leads_back_to_the_plan() -> None:
    plan = join(project(scan("r"), 0, 1), scan("s"))
    made = distribute(plan, HOME)
    assert made.origin[made.view] is plan
    assert {made.origin[n] for n in walk(made.view)} == set(walk(plan))


def test_a_table_joined_with_a_table_is_no_stream() -> None:
    tables = join(table("t"), table("v"))
    assert distribute(tables, HOME).home == HOME
    made = distribute(join(scan("r"), tables), HOME)
    assert (made.home, [r.name for r in made.routes]) == (None, ["r@any"])


def test_rows_that_match_a_copy_in_part_are_not_judged_by_it() -> None:
    """A table's rows are on all shards: an anti join with part of a stream would keep too many."""
    made = distribute(join(table("t"), scan("s"), JoinKind.ANTI), HOME)
    assert made.home == HOME


# ---- every edge of random queries ----------------------------------------------------
def test_every_operator_gets_what_it_needs() -> None:
    script = "; ".join(d.ddl() for d in (*STREAMS.values(), *TABLES.values()))
    catalog = catalog_of(script)
    seen: Counter[tuple[int, bool]] = Counter()
    for seed in range(400):
        rng = random.Random(seed)
        sql = Plans(rng).query(rng.choice((1, 2, 2, 3)))
        try:
            plan = plan_of(sql, catalog)
        except (PlanError, UnsupportedError):
            continue
        known = {"r": [hashed(0)], "s": [hashed(1, 2)]} if seed % 2 else {}
        made = distribute(plan, HOME, known)
        try:
            Checker(made).check(plan)
        except AssertionError as error:
            error.add_note(sql)
            raise
        seen[made.levels, made.home is None] += 1
    assert sum(seen.values()) >= 300
    assert len(seen) == 4
    assert min(seen.values()) >= 10


# ---- running them --------------------------------------------------------------------
SHARDS = 3


def shards_of(row: Row, spread: Spread, rng: random.Random) -> list[int]:
    match spread.kind:
        case "hash":
            return [crc32(repr([row[c] for c in spread.columns]).encode()) % SHARDS]
        case "any":
            return [rng.randrange(SHARDS)]
        case "one":
            return [spread.shard]
        case "all":
            return list(range(SHARDS))


def readable(node: Node) -> Node:
    """The plan with count windows and received rows as the evaluator knows them."""

    def change(part: Node) -> Node:
        match part:
            case Scan(window=Rows() as window):
                at = tuple(part.columns.index(c) for c in window.partition)
                whole = replace(part, window=Unbounded(explicit=True))
                return Windowed(whole, Rows(window.count, at))
            case Received():
                every = tuple(range(len(part.rows)))
                return Scan(f"@{part.channel}", part.rows, Unbounded(), every)
            case _:
                return part

    return bottom_up(node, change)


def run(made: Distributed, contents: Contents, rng: random.Random) -> Counter[Row]:
    """The answer of all shards together."""
    tables = {key: rows for key, rows in contents.items() if key[1] is None}
    level1: list[dict[tuple[str, object], list[Row]]] = [dict(tables) for _ in range(SHARDS)]
    for route, window in product(made.routes, (*WINDOWS, Unbounded())):
        parts = split_rows(contents[route.stream, window], route.spread, rng)
        for shard, part in enumerate(parts):
            level1[shard][route.name, window] = part
    if not made.sends:
        return answer(made, level1)
    level2: list[dict[tuple[str, object], list[Row]]] = [dict(tables) for _ in range(SHARDS)]
    for send in made.sends:
        sent = [row for c in level1 for row in evaluate_bags.evaluate(readable(send.node), c)]
        for shard, part in enumerate(split_rows(sent, send.spread, rng)):
            level2[shard][f"@{send.channel}", Unbounded()] = part
    return answer(made, level2)


def split_rows(rows: list[Row], spread: Spread, rng: random.Random) -> list[list[Row]]:
    parts: list[list[Row]] = [[] for _ in range(SHARDS)]
    for row in rows:
        for shard in shards_of(row, spread, rng):
            parts[shard].append(row)
    return parts


def answer(made: Distributed, shards: list[dict[tuple[str, object], list[Row]]]) -> Counter[Row]:
    total: Counter[Row] = Counter()
    for contents in shards if made.home is None else [shards[made.home]]:
        total += bag(readable(made.view), contents)
    return total


def test_distributed_plans_give_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    functions: dict[str, Callable[..., object]] = evaluate_bags._BINARY
    monkeypatch.setitem(functions, "coalesce", lambda a, b: a)  # strict here: never NULL
    seen: Counter[tuple[int, bool]] = Counter()
    for seed in range(600):
        maker = PlanMaker(seed)
        plan = optimize(lower_windows(maker.plan(3)), maker.stats())
        made = distribute(plan, HOME)
        Checker(made).check(plan)
        for _ in range(2):
            contents = maker.contents()
            expected = bag(readable(plan), contents)
            assert run(made, contents, maker.rng) == expected, seed
        seen[made.levels, made.home is None] += 1
    assert len(seen) == 4
    assert min(seen.values()) >= 20


def test_running_tells_a_wrong_placement() -> None:
    """The test above can fail: rows anywhere do not make a join."""
    plan = join(scan("r"), scan("s"))
    made = distribute(plan, HOME)
    loose = {r.name: replace(r, spread=Spread("any")) for r in made.routes}
    view = bottom_up(
        made.view,
        lambda n: replace(n, stream=loose[n.stream].name) if isinstance(n, Scan) else n,
    )
    wrong = replace(made, view=view, routes=tuple(loose.values()))
    maker = PlanMaker(0)
    runs = [(c, run(wrong, c, maker.rng)) for c in (maker.contents() for _ in range(20))]
    assert any(found != bag(plan, contents) for contents, found in runs)
    with pytest.raises(AssertionError):
        Checker(wrong).check(plan)
