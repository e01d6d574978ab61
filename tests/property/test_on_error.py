"""Expressions that can fail, below guards, under every setting of ON ERROR, against plain Python.

The reference evaluates a row at a time, lazily, and raises where a function has no value. The
answers of one process and of two shards must equal it after every batch, the changes must fold to
them, and a query fails exactly when the reference says that a row fails it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import penstock

MOST = 2**63 - 1
Row = dict[str, Any]
Value = Any


class Fails(Exception):
    """A function has no value here."""


@dataclass(frozen=True)
class Expression:
    """Its text, and its value for a row; `hide` says whether a function that fails is NULL."""

    sql: str
    value: Callable[[Row, bool], Value]
    word: str = ""  # AND, OR or NOT
    sides: tuple[Expression, ...] = ()

    def holds(self, row: Row, hide: bool, negate: bool = False) -> bool:
        """Whether it is TRUE (or FALSE); raises only if what fails could make the difference."""
        if self.word == "NOT":
            return self.sides[0].holds(row, hide, not negate)
        if not self.word:
            return self.value(row, hide) is not negate and self.value(row, hide) is not None
        decisive = (self.word == "OR") is not negate
        failed = False
        for side in self.sides:
            try:
                if side.holds(row, hide, negate) is decisive:
                    return decisive
            except Fails:
                failed = True
        if failed:
            raise Fails
        return not decisive

    def __repr__(self) -> str:
        return self.sql


def fallible(sql: str, compute: Callable[..., Value], *args: Expression) -> Expression:
    """A function that is NULL when an argument is, and may fail."""

    def value(row: Row, hide: bool) -> Value:
        given = [a.value(row, hide) for a in args]
        if None in given:
            return None
        try:
            return compute(*given)
        except Fails:
            if hide:
                return None
            raise

    return Expression(sql.format(*args), value)


def _fit(n: int) -> int:
    if not -MOST - 1 <= n <= MOST:
        raise Fails
    return n


def _read(text: str) -> int:
    try:
        return _fit(int(text))
    except ValueError:
        raise Fails from None


def _ln(x: float) -> float:
    if x <= 0:
        raise Fails
    return math.log(x)


def _sqrt(x: float) -> float:
    if x < 0:
        raise Fails
    return math.sqrt(x)


def column(name: str) -> Expression:
    return Expression(name, lambda row, hide: row[name])


def constant(n: int) -> Expression:
    return Expression(str(n), lambda row, hide: n)


def try_cast(text: Expression) -> Expression:
    def value(row: Row, hide: bool) -> Value:
        given = text.value(row, hide)
        try:
            return None if given is None else _read(given)
        except Fails:
            return None

    return Expression(f"TRY_CAST({text} AS BIGINT)", value)


def case(test: Expression, yes: Expression, no: Expression) -> Expression:
    def value(row: Row, hide: bool) -> Value:
        return (yes if test.value(row, hide) is True else no).value(row, hide)

    return Expression(f"CASE WHEN {test} THEN {yes} ELSE {no} END", value)


def coalesce(a: Expression, b: Expression) -> Expression:
    def value(row: Row, hide: bool) -> Value:
        first = a.value(row, hide)
        return b.value(row, hide) if first is None else first

    return Expression(f"coalesce({a}, {b})", value)


def logic(word: str, decisive: bool, a: Expression, b: Expression) -> Expression:
    """AND and OR: what decides, decides, whatever the other side does."""

    def value(row: Row, hide: bool) -> Value:
        found, failed = [], False
        for side in (a, b):
            try:
                found.append(side.value(row, hide))
            except Fails:
                failed = True
        if decisive in found:
            return decisive
        if failed:
            raise Fails
        return None if None in found else not decisive

    return Expression(f"({a} {word} {b})", value, word, (a, b))


def negation(a: Expression) -> Expression:
    def value(row: Row, hide: bool) -> Value:
        found = a.value(row, hide)
        return None if found is None else not found

    return Expression(f"(NOT {a})", value, "NOT", (a,))


def is_null(a: Expression) -> Expression:
    return Expression(f"({a} IS NULL)", lambda row, hide: a.value(row, hide) is None)


def compared(a: Expression, op: str, b: Expression) -> Expression:
    test = {">": lambda x, y: x > y, "=": lambda x, y: x == y, "<=": lambda x, y: x <= y}[op]
    return fallible(f"({{0}} {op} {{1}})", test, a, b)


TEXT, KIND, X, B, K = (column(name) for name in ("v", "kind", "x", "b", "k"))
SAFE = st.sampled_from([
    Expression("(kind = 'n')", lambda row, hide: row["kind"] and row["kind"] == "n"),
    Expression("(k <> 2)", lambda row, hide: row["k"] != 2),
    is_null(TEXT), compared(X, ">", constant(0)), compared(K, ">", constant(1)),
])  # fmt: skip
REAL = st.sampled_from([fallible("ln({0})", _ln, X), fallible("sqrt({0})", _sqrt, X)])


def _numbers(deeper: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(
            lambda a, b: fallible("({0} + {1})", lambda x, y: _fit(x + y), a, b), deeper, deeper
        ),
        st.builds(lambda a: fallible("({0} * 3)", lambda x: _fit(x * 3), a), deeper),
        st.builds(case, SAFE, deeper, deeper),
        st.builds(coalesce, deeper, deeper),
    )


NUMBER = st.recursive(
    st.sampled_from(
        [fallible("CAST({0} AS BIGINT)", _read, TEXT), B, K, try_cast(TEXT), constant(1)]
    ),
    _numbers,
    max_leaves=4,
)
LEAF = st.one_of(
    SAFE,
    st.builds(
        compared, NUMBER, st.sampled_from([">", "=", "<="]), st.sampled_from([constant(2), K])
    ),
    st.builds(compared, REAL, st.just(">"), st.just(constant(1))),
    st.builds(is_null, NUMBER),
)
CONDITION = st.recursive(
    LEAF,
    lambda deeper: st.one_of(
        st.builds(logic, st.just("AND"), st.just(False), deeper, deeper),
        st.builds(logic, st.just("OR"), st.just(True), deeper, deeper),
        st.builds(negation, deeper),
    ),
    max_leaves=3,
)
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2, 3]),
        "kind": st.sampled_from(["n", "n", "m", None]),
        "v": st.sampled_from(["1", "7", "-3", "seven", "", str(MOST), None]),
        "x": st.sampled_from([-1.0, 0.0, 1.0, 4.0, None]),
        "b": st.sampled_from([0, 5, MOST, -MOST, None]),
    }
)
SETTING = st.sampled_from(["fail", "null", "skip"])


@dataclass(frozen=True)
class Select:
    """A SELECT with conditions, and what it shows: columns of rows, or of groups by kind."""

    conditions: tuple[Expression, ...]
    shown: tuple[Expression, ...]
    grouped: Expression | None  # FILTER of a sum
    having: Expression | None  # over k (the count) and b (the sum)
    setting: str

    def sql(self) -> str:
        where = " AND ".join(map(str, self.conditions))
        tail = f"FROM s [RANGE 4] WHERE {where}"
        if self.grouped is None:
            items = ", ".join(f"{e} AS c{i}" for i, e in enumerate(self.shown))
            return f"SELECT {items} {tail}"
        least = str(self.having).replace("b", "x0").replace("k", "x1")
        inner = f"SELECT kind, sum({self.shown[0]}) FILTER (WHERE {self.grouped}) AS x0, "
        inner += f"count(*) AS x1 {tail} GROUP BY kind"
        return f"SELECT kind, x0, x1, ln(x1 - 1) AS c FROM ({inner}) q WHERE {least}"

    # ---- the reference ---------------------------------------------------------------
    @property
    def hide(self) -> bool:
        return self.setting == "null"

    def answer(self, rows: list[Row]) -> Counter[tuple[Value, ...]]:
        """The rows shown; raises Fails where the query fails."""
        kept = [row for row in rows if self._holds(self.conditions, row)]
        if self.grouped is None:
            found = [self._or_skip(lambda row=row: self._shown(row)) for row in kept]
            return Counter(f for f in found if f is not None)
        return self._groups(kept)

    def _or_skip(self, compute: Callable[[], Value]) -> Value:
        try:
            return compute()
        except Fails:
            if self.setting == "skip":
                return None
            raise

    def _shown(self, row: Row) -> tuple[Value, ...]:
        return tuple(e.value(row, self.hide) for e in self.shown)

    def _holds(self, conditions: tuple[Expression, ...], row: Row) -> bool:
        failed = False
        for condition in conditions:
            try:
                if not condition.holds(row, self.hide):
                    return False
            except Fails:
                failed = True
        if failed and self.setting == "fail":
            raise Fails
        return not failed

    def _groups(self, kept: list[Row]) -> Counter[tuple[Value, ...]]:
        groups: dict[Value, list[Value]] = {}
        assert self.grouped is not None
        guarded = case(self.grouped, self.shown[0], Expression("NULL", lambda row, hide: None))
        for row in kept:
            value = self._or_skip(lambda row=row: (guarded.value(row, self.hide),))
            if value is not None:
                groups.setdefault(row["kind"], []).append(value[0])
        found = [self._group(kind, values) for kind, values in groups.items()]
        return Counter(f for f in found if f is not None)

    def _group(self, kind: Value, values: list[Value]) -> tuple[Value, ...] | None:
        there = [v for v in values if v is not None]
        total: Value = sum(there) if there else None
        if total is not None and abs(total) > MOST and total != -MOST - 1:
            if self.setting == "fail":
                raise Fails
            if self.setting == "skip":
                return None
            total = None
        row = {"b": total, "k": len(values), "kind": kind, "v": None, "x": None}
        assert self.having is not None
        if not self._holds((self.having,), row):
            return None
        log = fallible("ln({0})", _ln, fallible("({0} - 1)", lambda k: _fit(k - 1), K))
        found = self._or_skip(lambda: (log.value(row, self.hide),))
        return None if found is None else (kind, total, len(values), *found)


OVER_GROUPS = st.builds(
    compared,
    st.sampled_from(
        [B, K, fallible("({0} + 1)", lambda x: _fit(x + 1), B),
         fallible("({0} * 3)", lambda x: _fit(x * 3), B)]
    ),
    st.sampled_from([">", "<="]),
    st.just(constant(1)),
)  # fmt: skip
SELECT = st.builds(
    Select,
    st.lists(CONDITION, min_size=1, max_size=3).map(tuple),
    st.lists(st.one_of(NUMBER, REAL), min_size=1, max_size=2).map(tuple),
    st.none(), st.none(), SETTING,
)  # fmt: skip
GROUPED = st.builds(
    Select,
    st.lists(CONDITION, min_size=1, max_size=2).map(tuple),
    st.tuples(NUMBER),
    CONDITION, OVER_GROUPS, SETTING,
)  # fmt: skip


def plain(value: Value) -> Value:
    return round(value, 9) if isinstance(value, float) else value


def bag(rows: list[dict[str, Value]]) -> Counter[tuple[Value, ...]]:
    return Counter(tuple(map(plain, row.values())) for row in rows)


def check(selects: list[Select], batches: list[list[Row]], **options: Any) -> None:
    with penstock.connect(runner="inprocess", **options) as ps:
        ps.sql("CREATE STREAM s (k INT, kind STRING, v STRING, x DOUBLE, b BIGINT, ts BIGINT) "
               "TIMESTAMP BY ts")  # fmt: skip
        queries = [ps.query(s.sql(), on_error=s.setting) for s in selects]
        folds = [Counter[tuple[Value, ...]]() for _ in selects]
        alive, came = [True] * len(selects), list[tuple[int, Row]]()
        for ts, batch in enumerate(batches):
            came += [(ts, row) for row in batch]
            ps.push("s", [{**row, "ts": ts} for row in batch])
            ps.advance("s", ts)
            live = [row for t, row in came if ts - 4 < t]
            for i, (select, query) in enumerate(zip(selects, queries, strict=True)):
                if not alive[i]:
                    continue
                try:
                    want = select.answer(live)
                except Fails:
                    alive[i] = False
                    assert query.status == "failed", select.sql()
                    continue
                assert query.status != "failed", (select.sql(), live)
                want = Counter({tuple(map(plain, k)): n for k, n in want.items()})
                assert bag(query.view().to_pylist()) == want, (select.sql(), select.setting, live)
                folds[i] = fold(folds[i], query.changes().to_pylist())
                assert folds[i] == want, (select.sql(), select.setting)


def fold(before: Counter[tuple[Value, ...]], changes: list[Row]) -> Counter[tuple[Value, ...]]:
    found = Counter(before)
    for change in changes:
        key = tuple(plain(v) for n, v in change.items() if not n.startswith("_"))
        found[key] += 1 if change["_change_type"] in ("insert", "update_postimage") else -1
    assert min(found.values(), default=0) >= 0
    return +found


BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=7)


@pytest.mark.parametrize("shards", [1, 2])
@given(st.lists(SELECT, min_size=1, max_size=4), BATCHES)
def test_selections(shards: int, selects: list[Select], batches: list[list[Row]]) -> None:
    check(selects, batches, **({"shards": 2} if shards == 2 else {}))


@pytest.mark.parametrize("shards", [1, 2])
@given(st.lists(GROUPED, min_size=1, max_size=3), BATCHES)
def test_groups(shards: int, selects: list[Select], batches: list[list[Row]]) -> None:
    check(selects, batches, **({"shards": 2} if shards == 2 else {}))
