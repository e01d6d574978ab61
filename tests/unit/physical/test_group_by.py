from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Delta, Lineage, concat
from penstock.errors import PlanError
from penstock.expressions.context import Context, Failures
from penstock.kernels.sums import NAN_BITS
from penstock.logical.expr import Agg, Call, Column
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.group_by import GroupByOp
from penstock.physical.keyed_specs import GroupBySpec
from penstock.physical.operator import Operator
from penstock.physical.specs import Spec
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DOUBLE, STRING, SqlType, decimal

MONEY = decimal(12, 2)
SCHEMA = Schema(
    (
        Field("k", STRING),
        Field("v", BIGINT),
        Field("x", DOUBLE),
        Field("s", STRING),
        Field("d", MONEY),
        Field("f", BOOLEAN),
    )
)
K, V, X, S, D, F = (Column(f.type, i, f.name) for i, f in enumerate(SCHEMA))


def agg(fn: str, arg: Column | None = None, distinct: bool = False, where: bool = False) -> Agg:
    if fn == "count":
        type_ = BIGINT
    elif fn in ("avg", "stddev", "median"):
        type_ = DOUBLE
    else:
        assert arg is not None
        type_ = arg.type
        if fn == "sum":
            type_ = decimal(18, 2) if arg is D else (DOUBLE if arg is X else BIGINT)
    return Agg(fn, arg, distinct, F if where else None, type_)


ALL = (
    agg("count"), agg("count", where=True), agg("count", V), agg("count", S, distinct=True),
    agg("count", X, distinct=True, where=True),
    agg("sum", V), agg("sum", X), agg("sum", D, where=True), agg("sum", V, distinct=True),
    agg("avg", V), agg("avg", X, where=True), agg("avg", D), agg("avg", X, distinct=True),
    agg("min", V), agg("max", X), agg("min", X, where=True), agg("min", S), agg("max", S),
    agg("max", D), agg("stddev", X), agg("stddev", V), agg("stddev", D),
    agg("median", V), agg("median", X), agg("median", D, where=True),
    agg("median", V, distinct=True),
)  # fmt: skip

WKS = {"pattern": Pattern.WKS, "expiring": True, "negatives": False, "fifo": True}
WK = {"pattern": Pattern.WK, "expiring": True, "negatives": False}
STR = {"pattern": Pattern.STR, "expiring": True, "negatives": True}
EXPLICIT = {"pattern": Pattern.STR, "expiring": False, "negatives": True}
MON = {"pattern": Pattern.MON, "expiring": False, "negatives": False}
EDGES = {"fifo": WKS, "calendar": WK, "negatives": STR, "explicit": EXPLICIT, "forever": MON}


class World:
    """An operator over a stub input, with its arena."""

    def __init__(
        self,
        aggs: tuple[Agg, ...],
        edge: dict[str, Any],
        keys: tuple[int, ...] = (0,),
        lins: tuple[int, ...] = (0, 1),
        schema: Schema = SCHEMA,
    ) -> None:
        self.arena = Arena()
        self.strings = StringTable(self.arena.scope("strings"))
        self.failures = Failures()
        self.aggs, self.keys, self.lins = aggs, keys, list(lins)
        ctx = Context(self.strings, {}, self.failures)
        given = Spec(edge=Edge(schema, lineage=Lineage.COHORT, **edge))
        source = Operator(given, (), self.arena.scope("in"))
        fields = tuple(schema[c] for c in keys) + tuple(Field(str(a), a.type) for a in aggs)
        self.schema = Schema(fields)
        spec = decide(GroupBySpec.of(given, keys, aggs, self.schema))
        lineages = lambda: np.array(self.lins, np.int64)  # noqa: E731
        self.op = GroupByOp(spec, source, self.arena.scope("group"), ctx, lineages)

    def word(self, value: Any, type_: SqlType) -> int:
        if value is None:
            return 0
        if type_.is_string:
            return self.strings.code(value)
        if type_.is_float:
            bits = int(np.float64(value + 0.0).view(np.int64))
            return NAN_BITS if math.isnan(value) else bits
        return int(value)

    def delta(self, events: list[tuple[int, int, int, int, tuple[Any, ...]]]) -> Delta:
        """From (ts, exp, sign, lin, values)."""
        width = len(events[0][4]) if events else len(SCHEMA)
        rows = np.zeros((1 + width, len(events)), np.int64)
        types = self.op.inputs[0].edge.schema.types
        for i, (*_, values) in enumerate(events):
            for c, value in enumerate(values):
                rows[1 + c, i] = self.word(value, types[c])
                rows[0, i] |= int(value is None) << c
        part = [np.array([e[p] for e in events], np.int64) for p in range(4)]
        return Delta(rows, part[0], part[1], part[2].astype(np.int8), part[3])

    def read(self, delta: Delta) -> list[tuple[int, int, int, tuple[Any, ...]]]:
        """(ts, sign, lin, values) of output rows."""
        out = []
        for i in range(len(delta)):
            values: list[Any] = []
            for c, type_ in enumerate(self.schema.types):
                word = int(delta.rows[1 + c, i])
                if (delta.rows[0, i] >> c) & 1:
                    assert word == 0
                    values.append(None)
                elif type_.is_string:
                    values.append(self.strings.text(word))
                elif type_.is_float:
                    values.append(float(np.int64(word).view(np.float64)))
                else:
                    values.append(word)
            out.append((int(delta.ts[i]), int(delta.sign[i]), int(delta.lin[i]), tuple(values)))
        return out


# ---- the plain twin --------------------------------------------------------------------
def order(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def same_float(value: float) -> Any:
    return "nan" if math.isnan(value) else value


def evaluate(a: Agg, rows: list[tuple[Any, ...]]) -> Any:
    if a.filter is not None:
        rows = [r for r in rows if r[5]]
    if a.arg is None:
        return len(rows)
    assert isinstance(a.arg, Column)
    values = [r[a.arg.index] for r in rows if r[a.arg.index] is not None]
    if a.distinct:
        values = list({same_float(v) if a.arg is X else v: v for v in values}.values())
    if a.fn == "count":
        return len(values)
    if not values:
        return None
    if a.fn in ("min", "max"):
        return (min if a.fn == "min" else max)(values, key=order)
    scale = 100 if a.arg is D else 1
    if a.fn == "median":
        values.sort(key=order)
        middle = values[(len(values) - 1) // 2], values[len(values) // 2]
        if order(middle[0]) == order(middle[1]):
            return middle[0] / scale
        return (0.5 * middle[0] + 0.5 * middle[1]) / scale
    finite = all(math.isfinite(v) for v in values)
    if a.fn == "stddev":
        if len(values) < 2:
            return None
        if not finite:
            return math.nan
        mean = Fraction(sum(map(Fraction, values)), len(values))
        spread = sum((Fraction(v) - mean) ** 2 for v in values) / (len(values) - 1)
        return math.sqrt(spread) / scale
    total = sum(map(Fraction, values)) if finite else sum(values)
    if a.fn == "avg":
        return float(total / len(values)) / scale
    return float(total) if a.arg is X else int(total)


def answer(world: World, live: list[tuple[int, tuple[Any, ...]]]) -> dict[Any, tuple[Any, ...]]:
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    if not world.keys:
        groups = {(lin,): [] for lin in world.lins}
    for lin, values in live:
        groups.setdefault((lin, *(values[k] for k in world.keys)), []).append(values)
    return {g: tuple(evaluate(a, rows) for a in world.aggs) for g, rows in groups.items()}


def close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and bool(a == b)


def check_equal(found: dict[Any, tuple[Any, ...]], expected: dict[Any, tuple[Any, ...]]) -> None:
    assert found.keys() == expected.keys()
    for group, values in expected.items():
        for mine, other in zip(found[group], values, strict=True):
            assert close(mine, other), (group, found[group], values)


class Fold:
    """Folds a changelog, checking the form of changes on the way."""

    def __init__(self, keys: int) -> None:
        self.keys = keys
        self.rows: dict[Any, tuple[Any, ...]] = {}

    def apply(self, change: tuple[int, int, int, tuple[Any, ...]]) -> None:
        _, sign, lin, values = change
        group, rest = (lin, *values[: self.keys]), values[self.keys :]
        if sign < 0:
            assert repr(self.rows.pop(group)) == repr(rest)
        else:
            assert group not in self.rows
            self.rows[group] = rest


def check_form(changes: list[tuple[int, int, int, tuple[Any, ...]]], keys: int) -> None:
    """Time order, adjacent pairs, at most one visible change of a group at an instant."""
    seen = set()
    for i, (ts, sign, lin, values) in enumerate(changes):
        assert i == 0 or changes[i - 1][0] <= ts
        if sign == 2:
            continue
        group = (ts, lin, values[:keys])
        assert group not in seen
        seen.add(group)
        if sign == -2:
            after = changes[i + 1]
            assert after[:3] == (ts, 2, lin)
            assert after[3][:keys] == values[:keys]
            assert repr(after[3]) != repr(values)


# ---- random streams ----------------------------------------------------------------------
def stream(rng: np.random.Generator, edge: dict[str, Any], n: int) -> list[Any]:
    """Events (ts, exp, sign, lin, values) in time order, as the edge promises them."""
    odd = [math.nan, math.inf, -math.inf, 0.0, 1e15, -1e15]

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    events: list[Any] = []
    ts = 0
    live: list[Any] = []
    for _ in range(n):
        ts += int(rng.integers(0, 4))
        live = [r for r in live if r[1] > ts]
        if edge["negatives"] and live and rng.random() < 0.35:
            gone = live.pop(int(rng.integers(len(live))))
            events.append((ts, gone[1], -1, gone[3], gone[4]))
            continue
        x = odd[int(rng.integers(len(odd)))] if rng.random() < 0.06 else rng.normal() * 100
        values = (
            maybe(str(rng.choice(["a", "b", "é"]))), maybe(int(rng.integers(-5, 6))),
            maybe(float(x)), maybe(str(rng.choice(["", "a", "ab", "b", "zz" * 8, "ü"]))),
            maybe(int(rng.integers(-300, 300))), maybe(bool(rng.random() < 0.5)),
        )  # fmt: skip
        if not edge["expiring"]:
            exp = NEVER
        elif edge.get("fifo"):
            exp = ts + 25
        else:
            exp = ts + int(rng.integers(0, 50))
        row = (ts, exp, 1, int(rng.integers(0, 2)), values)
        events.append(row)
        if exp > ts:
            live.append(row)
    return events


def state_at(events: list[Any], now: int) -> list[tuple[int, tuple[Any, ...]]]:
    live: list[Any] = []
    for _, exp, sign, lin, values in (e for e in events if e[0] <= now):
        if exp <= now:
            continue
        if sign > 0:
            live.append((exp, lin, values))
        else:
            at = next(i for i, r in enumerate(live) if repr(r) == repr((exp, lin, values)))
            live.pop(at)
    return [(lin, values) for _, lin, values in live]


def cut(rng: np.random.Generator, events: list[Any], batch: int) -> list[tuple[list[Any], Clock]]:
    steps, before, at = [], BEGINNING, 0
    while at < len(events):
        size = int(rng.integers(1, 2 * batch))
        part = events[at : at + size]
        at += size
        now = part[-1][0]
        steps.append((part, Clock(before, now)))
        before = now
    end = before + 60
    steps.append(([], Clock(before, end)))
    return steps


@pytest.mark.parametrize("keys", [(0,), (0, 1), ()], ids=["one", "two", "none"])
@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES.keys())
def test_every_instant_equals_the_twin(edge: dict[str, Any], keys: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(keys))
    world = World(ALL, edge, keys)
    events = stream(rng, edge, 250)
    fold, done = Fold(len(keys)), []
    for part, clock in [([], Clock(BEGINNING, -1)), *cut(rng, events, 12)]:
        done += part
        changes = world.read(world.op.step([world.delta(part)], clock))
        check_form(changes, len(keys))
        for i, change in enumerate(changes):
            fold.apply(change)
            ts = change[0]
            if i + 1 == len(changes) or changes[i + 1][0] != ts:
                check_equal(fold.rows, answer(world, state_at(done, ts)))
        expected = answer(world, state_at(done, clock.now))
        check_equal(fold.rows, expected)
        listed = world.read(world.op.contents(clock))
        assert {(lin, *v[: len(keys)]): repr(v[len(keys) :]) for _, _, lin, v in listed} == {
            g: repr(v) for g, v in fold.rows.items()
        }
    if edge["expiring"]:
        # Everything has left: nothing of a group, a value or a node is kept.
        assert world.op.rows() == (0 if keys else 2)
        for name in world.arena.names():
            if name.rsplit("/")[-1] in ("deques", "text_deques", "trees", "text_trees"):
                pool = world.arena.snapshot()[name]
                assert pool[0, 1] == pool[0, 3]
            if name == "group/state" and keys:
                assert not world.arena.snapshot()[name].any()


@pytest.mark.parametrize("edge", [WKS, STR], ids=["fifo", "negatives"])
def test_batches_do_not_matter(edge: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    events = stream(rng, edge, 200)
    aggs = tuple(a for a in ALL if a.arg is not X)
    logs = []
    for batch in (1, 7, 1000):
        world = World(aggs, edge)
        changes: list[Any] = []
        for part, clock in cut(np.random.default_rng(batch), events, batch):
            changes += world.read(world.op.step([world.delta(part)], clock))
        fold, states = Fold(1), {}
        for change in changes:
            fold.apply(change)
            states[change[0]] = dict(fold.rows)
        logs.append(states)
    # An instant may be revisited, with no visible change in the end: compare what is common.
    for states in logs[:2]:
        last: dict[Any, Any] = {}
        for ts in sorted(states.keys() | logs[2].keys()):
            last = logs[2].get(ts, last)
            if ts in states:
                assert states[ts] == last


@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES.keys())
def test_snapshot_and_restore(edge: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    events = stream(rng, edge, 150)
    steps = cut(rng, events, 10)
    one = World(ALL, edge)
    deltas = [(one.delta(part), clock) for part, clock in steps]
    half = len(deltas) // 2
    for delta, clock in deltas[:half]:
        one.op.step([delta], clock)
    snapshot = one.arena.snapshot()
    first = concat([one.op.step([d], c) for d, c in deltas[half:]], len(one.schema))
    two = World(ALL, edge)
    two.arena.restore(snapshot)
    second = concat([two.op.step([d], c) for d, c in deltas[half:]], len(one.schema))
    for name in ("rows", "ts", "exp", "sign", "lin"):
        assert np.array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("keys", [(0,), ()], ids=["keys", "none"])
@pytest.mark.parametrize("edge", [WKS, WK, STR, EXPLICIT], ids=["fifo", "cal", "neg", "explicit"])
def test_purge_forgets_one_lineage_only(edge: dict[str, Any], keys: tuple[int, ...]) -> None:
    rng = np.random.default_rng(11)
    events = stream(rng, edge, 200)
    world, alone = World(ALL, edge, keys), World(ALL, edge, keys, lins=(1,))
    logs: list[list[Any]] = [[], []]
    for i, (part, clock) in enumerate(cut(rng, events, 10)):
        others = [e for e in part if e[3] == 1]
        if i == 8:
            world.op.purge(np.array([0]))
            world.lins = [1]
        mine = part if i < 8 else others
        logs[0] += world.read(world.op.step([world.delta(mine)], clock))
        logs[1] += alone.read(alone.op.step([alone.delta(others)], clock))
    assert [repr(c) for c in logs[0] if c[2] == 1] == [repr(c) for c in logs[1]]
    assert world.op.rows() == alone.op.rows()


# ---- DuckDB ------------------------------------------------------------------------------
def test_against_duckdb() -> None:
    rng = np.random.default_rng(5)
    edge = dict(WK)
    # stddev of what is not finite is an error there, and interpolation differs at infinity.
    events = [e for e in stream(rng, edge, 400) if e[4][2] is None or math.isfinite(e[4][2])]
    world = World(ALL, edge)
    con = duckdb.connect()
    columns = ", ".join(map(str, ALL))
    done: list[Any] = []
    for part, clock in cut(rng, events, 40):
        done += part
        world.op.step([world.delta(part)], clock)
        live = [v for lin, v in state_at(done, clock.now) if lin == 1]
        if not live:
            continue
        table = pa.table(
            {
                f.name: pa.array([r[c] for r in live], _duck_type(f.type))
                for c, f in enumerate(SCHEMA)
            }
        )
        con.register("t", table)
        sql = f"SELECT k, {columns} FROM (SELECT * REPLACE (d / 100.0 AS d) FROM t) GROUP BY k"
        expected = {(1, r[0]): _physical(r[1:]) for r in con.sql(sql).fetchall()}
        listed = world.read(world.op.contents(clock))
        check_equal({(1, v[0]): v[1:] for _, _, lin, v in listed if lin == 1}, expected)


def _duck_type(type_: SqlType) -> pa.DataType:
    by_type = {STRING: pa.string(), DOUBLE: pa.float64(), BOOLEAN: pa.bool_()}
    return by_type.get(type_, pa.int64())


def _physical(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """DuckDB's values as the operator's: sums and extremes of the decimal are scaled ints."""
    out = []
    for a, value in zip(ALL, values, strict=True):
        if value is not None and a.arg is D and a.fn in ("sum", "min", "max"):
            value = round(float(value) * 100)
        out.append(float(value) if a.type is DOUBLE and value is not None else value)
    return tuple(out)


# ---- single cases --------------------------------------------------------------------------
def row(ts: int, exp: int, k: str, v: int | None = None, x: float | None = None, sign: int = 1,
        lin: int = 0) -> Any:  # fmt: skip
    return (ts, exp, sign, lin, (k, v, x, None, None, True))


def test_one_net_change_per_instant() -> None:
    world = World((agg("count"), agg("sum", V)), WKS)
    delta = world.delta(
        [row(1, 5, "a", 1), row(1, 5, "a", 2), row(3, 7, "b", 3), row(5, 9, "a", 3)]
    )
    got = world.read(world.op.step([delta], Clock(BEGINNING, 20)))
    assert got == [
        (1, 1, 0, ("a", 2, 3)),
        (3, 1, 0, ("b", 1, 3)),
        (5, -2, 0, ("a", 2, 3)),
        (5, 2, 0, ("a", 1, 3)),
        (7, -1, 0, ("b", 1, 3)),
        (9, -1, 0, ("a", 1, 3)),
    ]
    assert world.op.rows() == 0


def test_equal_rows_that_trade_places_are_invisible() -> None:
    world = World((agg("count"), agg("max", V)), WKS)
    delta = world.delta([row(0, 10, "a", 4), row(10, 20, "a", 4)])
    got = world.read(world.op.step([delta], Clock(BEGINNING, 10)))
    assert got == [(0, 1, 0, ("a", 1, 4))]


def test_rows_that_never_live_leave_nothing() -> None:
    world = World((agg("count"),), WK)
    delta = world.delta([row(4, 4, "a"), row(5, 3, "b")])
    assert len(world.op.step([delta], Clock(BEGINNING, 9))) == 0
    assert world.op.rows() == 0


def test_a_removal_of_nothing_is_ignored() -> None:
    for edge in (STR, EXPLICIT):
        world = World((agg("count"), agg("sum", V)), edge)
        exp = 9 if edge is STR else NEVER
        delta = world.delta([row(1, exp, "a", 1, sign=-1), row(2, exp, "b", 1)])
        got = world.read(world.op.step([delta], Clock(BEGINNING, 3)))
        assert got == [(2, 1, 0, ("b", 1, 1))]
        assert len(world.op.contents(Clock(3, 3))) == 1


def test_a_group_that_empties_more_than_once_is_forgotten_once() -> None:
    world = World((agg("count"),), STR)
    delta = world.delta(
        [row(1, 3, "a"), row(4, 6, "a"), row(7, 9, "a", sign=-1), row(8, 9, "a", sign=-1)]
    )
    got = world.read(world.op.step([delta], Clock(BEGINNING, 8)))
    assert [(ts, sign) for ts, sign, *_ in got] == [(1, 1), (3, -1), (4, 1), (6, -1)]
    assert world.op.rows() == 0
    delta = world.delta([row(9, 12, "b"), row(9, 12, "c")])
    got = world.read(world.op.step([delta], Clock(8, 9)))
    assert got == [(9, 1, 0, ("b", 1)), (9, 1, 0, ("c", 1))]


def test_without_keys_a_row_for_every_lineage() -> None:
    aggs = (agg("count"), agg("sum", V), agg("min", X))
    world = World(aggs, WKS, (), lins=(3,))
    empty = Delta.empty(len(SCHEMA))
    assert world.read(world.op.step([empty], Clock(BEGINNING, 7))) == [(7, 1, 3, (0, None, None))]
    world.lins.append(5)
    delta = world.delta([row(7, 9, "a", 2, 1.5, lin=5), row(8, 10, "a", 3, lin=3)])
    assert world.read(world.op.step([delta], Clock(7, 12))) == [
        (7, 1, 5, (1, 2, 1.5)),
        (8, -2, 3, (0, None, None)),
        (8, 2, 3, (1, 3, None)),
        (9, -2, 5, (1, 2, 1.5)),
        (9, 2, 5, (0, None, None)),
        (10, -2, 3, (1, 3, None)),
        (10, 2, 3, (0, None, None)),
    ]
    world.op.purge(np.array([3]))
    world.lins.remove(3)
    assert world.read(world.op.contents(Clock(12, 12))) == [(12, 1, 5, (0, None, None))]


def test_what_leaves_a_float_sum_is_gone() -> None:
    world = World((agg("sum", X), agg("avg", X)), WKS)
    xs = [0.1, 1e20, math.inf, 0.2, -math.inf, math.nan, 0.3]
    delta = world.delta([row(i, i + 2, "a", None, x) for i, x in enumerate(xs)])
    changes = world.read(world.op.step([delta], Clock(BEGINNING, 7)))
    shown = {ts: v[1] for ts, sign, _, v in changes if sign > 0}
    assert shown[1] == 1e20
    assert shown[2] == math.inf
    assert shown[4] == -math.inf
    assert math.isnan(shown[5])
    assert shown[7] == 0.3


def test_overflow_fails_its_lineage_only() -> None:
    world = World((agg("sum", V), agg("avg", V)), WKS)
    top = 2**63 - 1
    delta = world.delta(
        [row(0, 9, "a", top, lin=0), row(1, 10, "a", 1, lin=0), row(1, 10, "a", 1, lin=1)]
    )
    got = world.read(world.op.step([delta], Clock(BEGINNING, 1)))
    assert got[-2:] == [(1, 2, 0, ("a", None, 2.0**62)), (1, 1, 1, ("a", 1, 1.0))]
    assert world.failures.drain() == [(Lineage.COHORT, 0, "overflow of BIGINT in sum(v)")]
    got = world.read(world.op.step([Delta.empty(len(SCHEMA))], Clock(1, 9)))
    assert got[-1] == (9, 2, 0, ("a", 1, 1.0))


def test_decimal_overflow() -> None:
    world = World((agg("sum", D),), WKS)
    half = 5 * 10**17
    events = [(0, 9, 1, 1, ("a", None, None, None, half, None)) for _ in range(2)]
    got = world.read(world.op.step([world.delta(events)], Clock(BEGINNING, 0)))
    assert got == [(0, 1, 1, ("a", None))]
    assert world.failures.drain() == [(Lineage.COHORT, 1, "overflow of DECIMAL(18) in sum(d)")]


def test_stddev_survives_a_large_offset() -> None:
    world = World((agg("stddev", X),), WKS)
    rng = np.random.default_rng(1)
    xs = [1e9 + x for x in rng.normal(size=400)]
    delta = world.delta([row(i, i + 50, "a", None, float(x)) for i, x in enumerate(xs)])
    world.op.step([delta], Clock(BEGINNING, 399))
    (found,) = world.read(world.op.contents(Clock(399, 399)))
    last = [Fraction(x) for x in xs[-50:]]
    mean = sum(last) / 50
    assert found[3][1] == pytest.approx(
        math.sqrt(sum((x - mean) ** 2 for x in last) / 49), rel=1e-12
    )


def test_strings_are_reported_to_the_collector() -> None:
    for edge in (WKS, WK, MON):
        world = World(ALL, edge)
        rng = np.random.default_rng(2)
        for part, clock in cut(rng, stream(rng, edge, 60), 20)[:-1]:
            world.op.step([world.delta(part)], clock)
        before = world.read(world.op.contents(Clock(0, 0)))
        marks = np.zeros(world.strings.capacity, np.bool_)
        arrays = world.arena.snapshot()
        for place in world.op.strings():
            marks[arrays[place.array][..., list(place.columns)].ravel()] = True
        world.strings.collect(marks)
        assert repr(world.read(world.op.contents(Clock(0, 0)))) == repr(before)


def test_what_explain_shows() -> None:
    assert World((agg("count"),), WKS).op.spec.structure() == "group array + FIFO"
    assert World((agg("count"),), WK).op.spec.structure() == "group array + calendar"
    world = World((agg("count"), agg("sum", V, True, True)), MON)
    assert world.op.spec.structure() == "group array"
    assert world.op.spec.detail() == "k: count(*), sum(DISTINCT v) FILTER (WHERE f)"
    edge = world.op.edge
    assert (edge.pattern, edge.expiring, edge.negatives, edge.keyed) == (
        Pattern.WK,
        False,
        True,
        True,
    )


@pytest.mark.parametrize(
    "bad",
    [
        Agg("sum", S, False, None, STRING),
        Agg("sum", None, False, None, BIGINT),
        Agg("mode", V, False, None, BIGINT),
        Agg("sum", Call(BIGINT, "add", (V, V)), False, None, BIGINT),
    ],
)
def test_refused_aggregates(bad: Agg) -> None:
    with pytest.raises(PlanError):
        World((bad,), WKS)
