"""The window join against a plain twin, over random streams of every kind of edge."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError
from penstock.logical.expr import Literal
from penstock.logical.nodes import Band
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.join import JoinOp
from penstock.physical.join_specs import JoinSpec
from penstock.physical.operator import Operator
from penstock.physical.specs import Spec
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DOUBLE, STRING

SINCE = np.array([0, 3, 6], np.int64)
Row = tuple  # (values with None for NULL, exp, lin)


@dataclass(frozen=True)
class Side:
    """How one input behaves."""

    level: Lineage = Lineage.EPOCH
    table: bool = False
    negatives: bool = False
    fifo: bool = True
    keys: int = 4


class Source(Operator):
    def __init__(self, names: str, side: Side, band_type) -> None:
        types = (BIGINT, band_type, BIGINT)
        schema = Schema(tuple(Field(n, t) for n, t in zip(names, types, strict=True)))
        pattern = Pattern.STR if side.negatives else Pattern.WKS
        expiring = not side.table
        fifo = side.fifo and expiring
        edge = Edge(schema, pattern, side.level, expiring, side.negatives, fifo)
        super().__init__(Spec(edge=edge), (), Arena().scope("x"))


class Residual:
    """Third columns differ; fails where the left one is `poison`."""

    def __init__(self, poison: int | None = None) -> None:
        self.poison = poison

    def mask(self, rows, params=None, hidden=None):
        bad = rows[3] == (self.poison if self.poison is not None else -99)
        if bad.any():
            raise EvaluationError(bad, "poisoned")
        nulls = ((rows[0] >> 2) & 1) | ((rows[0] >> 5) & 1)
        return (rows[3] != rows[6]) & (nulls == 0)


def bits(value, type_) -> int:
    if value is None:
        return 0
    return int(np.float64(value).view(np.int64)) if type_ is DOUBLE else int(value)


def to_delta(rows: list[tuple], types) -> Delta:
    """`rows`: (ts, exp, sign, lin, values)."""
    n, width = len(rows), len(types)
    matrix = np.zeros((1 + width, n), np.int64)
    for i, row in enumerate(rows):
        for c, value in enumerate(row[4]):
            matrix[1 + c, i] = bits(value, types[c])
            if value is None:
                matrix[0, i] |= 1 << c
    column = [np.array([r[k] for r in rows], np.int64) for k in range(4)]
    return Delta(matrix, column[0], column[1], column[2].astype(np.int8), column[3])


def from_delta(delta: Delta, types) -> list[tuple]:
    out = []
    for i in range(len(delta)):
        values = []
        for c, type_ in enumerate(types):
            raw = delta.rows[1 + c, i]
            if (int(delta.rows[0, i]) >> c) & 1:
                assert raw == 0
                values.append(None)
            else:
                values.append(float(raw.view(np.float64)) if type_ is DOUBLE else int(raw))
        out.append(
            (int(delta.ts[i]), int(delta.exp[i]), int(delta.sign[i]), int(delta.lin[i]),
             tuple(values))
        )  # fmt: skip
    return out


class Twin:
    """Nested loops over lists."""

    def __init__(self, left: Side, right: Side, equi, band, poison, residual) -> None:
        self.sides, self.equi, self.band = (left, right), equi, band
        self.poison, self.residual = poison, residual
        self.held: tuple[list, list] = ([], [])

    def lineage(self, a, b):
        tagged = [s.level > Lineage.EPOCH for s in self.sides]
        if all(tagged):
            return a if a == b else None
        if tagged[0]:
            return a if b >= SINCE[a] else None
        if tagged[1]:
            return b if a >= SINCE[b] else None
        return min(a, b)

    def pair(self, left: Row, right: Row):
        (a, a_exp, a_lin), (b, b_exp, b_lin) = left, right
        for x, y in self.equi:
            if a[x] is None or a[x] != b[y]:
                return None
        if self.band is not None:
            x, y = a[self.band.left_column], b[self.band.right_column]
            if x is None or y is None:
                return None
            if self.band.low is not None and not y - x >= self.band.low:
                return None
            if self.band.high is not None and not y - x <= self.band.high:
                return None
        if self.residual and (a[2] is None or b[2] is None or a[2] == b[2] or a[2] == self.poison):
            return None
        lin = self.lineage(a_lin, b_lin)
        return None if lin is None else (min(a_exp, b_exp), lin, a + b)

    def step(self, left: list, right: list) -> list[tuple]:
        first = 1 if self.sides[1].table and not self.sides[0].table else 0
        waiting, out = [list(left), list(right)], []
        while any(waiting):
            ready = [s for s in (0, 1) if waiting[s]]
            side = min(ready, key=lambda s: (waiting[s][0][0], waiting[s][0][2] > 0, s != first))
            ts, exp, sign, lin, values = waiting[side].pop(0)
            row = (values, exp, lin)
            if sign > 0:
                self.held[side].append(row)
            elif row in self.held[side]:
                self.held[side].remove(row)
            else:
                continue
            for other in self.held[1 - side]:
                got = self.pair(row, other) if side == 0 else self.pair(other, row)
                if got is not None and got[0] > ts:
                    out.append((ts, got[0], 1 if sign > 0 else -1, *got[1:]))
        return out

    def contents(self, now: int) -> list[tuple]:
        pairs = [self.pair(a, b) for a in self.held[0] for b in self.held[1]]
        return [(now, p[0], 1, *p[1:]) for p in pairs if p is not None and p[0] > now]


def make_stream(rng, side: Side, steps: int, per_step: int, types, lazy: int) -> list[list]:
    """Rows per step (ts, exp, sign, lin, values); step s covers [10·s, 10·s + 10]."""
    out, live = [], []
    for step in range(steps):
        rows = []
        for ts in sorted(rng.integers(10 * step, 10 * step + 11, rng.integers(0, per_step + 1))):
            ts = int(ts)
            live = [r for r in live if r[1] > ts]
            if side.negatives and live and rng.random() < 0.4:
                exp, lin, values = live.pop(rng.integers(len(live)))[1:]
                rows.append((ts, exp, int(-rng.integers(1, 3)), lin, values))
                continue
            if side.table:
                exp = NEVER
            else:
                exp = ts + (lazy if side.fifo else int(rng.integers(0, 2 * lazy)))
            lin = (NEVER if side.table else step) if side.level == Lineage.EPOCH else int(
                rng.integers(0, 3))  # fmt: skip
            values = [int(rng.integers(0, side.keys)), int(rng.integers(-6, 7)),
                      int(rng.integers(0, 4))]  # fmt: skip
            if types[1] is DOUBLE:
                values[1] = values[1] / 2
            values = tuple(None if rng.random() < 0.1 else v for v in values)
            live.append((ts, exp, lin, values))
            rows.append((ts, exp, int(rng.integers(1, 3)), lin, values))
        out.append(rows)
    return out


@dataclass
class Run:
    """An operator, its arena, and what it needs to be built again."""

    left: Side
    right: Side
    equi: tuple
    band: Band | None
    residual: bool
    poison: int | None = None
    band_type: object = BIGINT

    def build(self, arena: Arena) -> JoinOp:
        self.failures = Failures()
        ctx = Context(StringTable(arena.scope("strings")), {}, self.failures)
        residual = Residual(self.poison) if self.residual else None
        return self.join(arena, ctx, residual, None, shown=False)

    def join(self, arena: Arena, ctx, residual, columns, shown: bool) -> JoinOp:
        left = Source("kav", self.left, self.band_type)
        right = Source("lbw", self.right, self.band_type)
        asked = None if residual is None else Literal(BOOLEAN, True)  # a mock stands for it
        spec = JoinSpec.of(
            left.spec, right.spec, self.equi, self.band, asked,
            (self.left.table, self.right.table), columns,
        )  # fmt: skip
        spec = decide(spec, "explicit" if shown else "expiring")
        return JoinOp(spec, left, right, arena.scope("join"), ctx, residual, lambda: SINCE)


def check(run: Run, seed: int, steps: int = 12, per_step: int = 12, lazy: int = 15) -> None:
    rng = np.random.default_rng(seed)
    types = (BIGINT, run.band_type, BIGINT)
    left = make_stream(rng, run.left, steps, per_step, types, lazy)
    right = make_stream(rng, run.right, steps, per_step, types, lazy)
    twin = Twin(run.left, run.right, run.equi, run.band, run.poison, run.residual)
    arena = Arena()
    op = run.build(arena)
    before = BEGINNING
    for step in range(steps):
        now = 10 * step + 10
        got = op.step([to_delta(left[step], types), to_delta(right[step], types)],
                      Clock(before, now))  # fmt: skip
        assert (np.diff(got.ts) >= 0).all()
        assert Counter(from_delta(got, types + types)) == Counter(
            twin.step(left[step], right[step])
        )
        view = op.contents(Clock(before, now))
        assert Counter(from_delta(view, types + types)) == Counter(twin.contents(now))
        before = now
        if rng.random() < 0.3:
            snapshot = arena.snapshot()
            arena = Arena()
            arena.restore(snapshot)
            op = run.build(arena)


KINDS = {
    "windows": (Side(), Side()),
    "weak": (Side(fifo=False), Side()),
    "negatives": (Side(negatives=True, fifo=False), Side(negatives=True)),
    "one negative": (Side(negatives=True), Side(fifo=False)),
    "table right": (Side(), Side(table=True, negatives=True)),
    "table left": (Side(table=True, negatives=True), Side()),
    "tables": (Side(table=True, negatives=True), Side(table=True, negatives=True)),
    "left tagged": (Side(Lineage.COHORT), Side(fifo=False)),
    "right tagged": (Side(), Side(Lineage.QUERY, negatives=True)),
    "both tagged": (Side(Lineage.QUERY), Side(Lineage.QUERY, negatives=True, fifo=False)),
    "tagged table": (Side(Lineage.COHORT, fifo=False), Side(table=True, negatives=True)),
}
CONDITIONS = {
    "equi": (((0, 0),), None, False, BIGINT),
    "two keys": (((0, 0), (2, 2)), None, False, BIGINT),
    "cross": ((), None, False, BIGINT),
    "equi band": (((0, 0),), Band(1, 1, -2, 3), False, BIGINT),
    "band": ((), Band(1, 1, -1, 2), False, BIGINT),
    "band up": ((), Band(1, 1, 2, None), False, BIGINT),
    "band down": (((0, 0),), Band(1, 1, None, -1), False, BIGINT),
    "point band": ((), Band(1, 1, 1, 1), False, BIGINT),
    "float band": ((), Band(1, 1, -0.5, 1.5), False, DOUBLE),
    "float point": ((), Band(1, 1, 0.5, 0.5), False, DOUBLE),
    "residual": (((0, 0),), None, True, BIGINT),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_its_twin(kind: str, condition: str) -> None:
    equi, band, residual, band_type = CONDITIONS[condition]
    run = Run(*KINDS[kind], equi, band, residual, band_type=band_type)
    for seed in range(2):
        check(run, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_long_runs_compact_and_release(kind: str) -> None:
    left, right = KINDS[kind]
    wide = [Side(s.level, s.table, s.negatives, s.fifo, keys=40) for s in (left, right)]
    check(Run(*wide, ((0, 0),), None, False), seed=5, steps=25, per_step=120, lazy=12)


def test_residual_failures_are_reported_and_dropped() -> None:
    run = Run(Side(), Side(), ((0, 0),), None, True, poison=3)
    check(run, seed=1)
    op = run.build(Arena())
    a = to_delta([(1, 9, 1, 4, (1, 1, 3)), (1, 9, 1, 5, (1, 1, 2))], (BIGINT,) * 3)
    b = to_delta([(2, 9, 1, 7, (1, 1, 0))], (BIGINT,) * 3)
    out = op.step([a, b], Clock(BEGINNING, 2))
    assert [r[4] for r in from_delta(out, (BIGINT,) * 6)] == [(1, 1, 2, 1, 1, 0)]
    assert run.failures.drain() == [(Lineage.EPOCH, 4, "poisoned")]


def pairs(op: JoinOp, left: list, right: list, now: int) -> list[tuple]:
    types = (BIGINT,) * 3
    out = op.step([to_delta(left, types), to_delta(right, types)], Clock(BEGINNING, now))
    return from_delta(out, types * 2)


def test_bands_do_not_wrap() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    for equi in ((), ((0, 0),)):
        for low, high in ((-5, 5), (0, None), (None, 0), (None, None), (-(2**40), 2**40)):
            op = Run(Side(), Side(), equi, Band(1, 1, low, high), False).build(Arena())
            values = [top, top - 3, bottom, bottom + 4, 0]
            left = [(1, 9, 1, 0, (1, v, 0)) for v in values]
            right = [(2, 9, 1, 0, (1, v, 0)) for v in values]
            want = Counter(
                (a, b) for a in values for b in values
                if (low is None or b - a >= low) and (high is None or b - a <= high)
            )  # fmt: skip
            assert Counter((r[4][1], r[4][4]) for r in pairs(op, left, right, 2)) == want


def test_float_bands_survive_magnitude_and_infinities() -> None:
    rng = np.random.default_rng(3)
    values = [float(v) for v in rng.normal(0, 1, 30)]
    values += [v * 1e17 for v in values[:8]] + [np.inf, -np.inf, np.nan, 1e300, 0.3, 0.1 + 0.2]
    types = (BIGINT, DOUBLE, BIGINT)
    for low, high in ((-0.25, 0.25), (0.1, 0.1), (1e15, 1e15 + 64), (-1e-9, 0.0)):
        run = Run(Side(), Side(), (), Band(1, 1, low, high), False, band_type=DOUBLE)
        op = run.build(Arena())
        others = values + [v + low for v in values] + [v + high for v in values]
        left = to_delta([(1, 9, 1, 0, (i, v, 0)) for i, v in enumerate(values)], types)
        right = to_delta([(2, 9, 1, 0, (i, v, 0)) for i, v in enumerate(others)], types)
        got = op.step([left, right], Clock(BEGINNING, 2))
        want = {(i, j) for i, a in enumerate(values) for j, b in enumerate(others)
                if low <= b - a <= high}  # fmt: skip
        assert {(int(a), int(b)) for a, b in zip(got.rows[1], got.rows[4], strict=True)} == want
        assert len(got) == len(want)


def test_self_join_pairs_a_row_with_itself_once() -> None:
    op = Run(Side(), Side(), ((0, 0),), None, False).build(Arena())
    rows = [(1, 9, 1, 0, (1, 7, 0)), (1, 9, 1, 0, (1, 8, 0)), (3, 11, 1, 0, (1, 9, 0))]
    got = Counter((r[4][1], r[4][4]) for r in pairs(op, rows, rows, 3))
    assert got == Counter((a, b) for a in (7, 8, 9) for b in (7, 8, 9))


def test_purge_forgets_lineages_of_the_tagged_side() -> None:
    run = Run(Side(Lineage.QUERY), Side(), ((0, 0),), None, False)
    op = run.build(Arena())
    pairs(op, [(1, 99, 1, 0, (1, 7, 0)), (1, 99, 1, 1, (1, 8, 0))], [], 1)
    op.purge(np.array([0]))
    assert op.rows() == 1
    out = pairs(op, [], [(2, 99, 1, 9, (1, 0, 0))], 2)
    assert [(r[3], r[4][1]) for r in out] == [(1, 8)]


def test_state_shrinks_when_rows_die() -> None:
    run = Run(Side(), Side(), ((0, 0),), None, False)
    arena = Arena()
    op = run.build(arena)
    rows = [(1, 50, 1, 0, (i, 0, 0)) for i in range(20_000)]
    pairs(op, rows, rows[:100], 1)
    big = arena.nbytes
    assert pairs(op, [], [], 60) == []
    assert op.rows() == 0
    assert arena.nbytes < big / 50


def test_edge_follows_the_rules() -> None:
    edge = Run(*KINDS["windows"], ((0, 0),), None, False).build(Arena()).edge
    assert (edge.pattern, edge.expiring, edge.negatives, edge.fifo) == (
        Pattern.WK, True, False, False)  # fmt: skip
    assert edge.schema.names == tuple("kavlbw")
    edge = Run(*KINDS["table right"], ((0, 0),), None, False).build(Arena()).edge
    assert (edge.pattern, edge.expiring, edge.negatives) == (Pattern.STR, True, True)
    edge = Run(*KINDS["left tagged"], ((0, 0),), None, False).build(Arena()).edge
    assert edge.lineage == Lineage.COHORT


def test_describes_itself() -> None:
    op = Run(Side(), Side(), ((0, 0),), Band(1, 1, -1, None), False).build(Arena())
    assert op.spec.detail() == "k = l AND -1 <= b - a"
    assert op.spec.structure() == "FIFO"
    assert op.strings() == []
    op.inputs[1].edge = Edge(
        Schema((Field("s", STRING), Field("x", BIGINT), Field("u", STRING))),
        Pattern.WKS, Lineage.EPOCH, True, False,
    )  # fmt: skip
    assert [(s.array, s.columns) for s in op.strings()] == [("join/right/rows", (2, 4))]


@pytest.mark.parametrize("kind", ["windows", "weak", "left tagged"])
@pytest.mark.parametrize("condition", ["equi", "band", "cross"])
def test_does_not_depend_on_batches(kind: str, condition: str) -> None:
    equi, band, residual, band_type = CONDITIONS[condition]
    run = Run(*KINDS[kind], equi, band, residual, band_type=band_type)
    rng = np.random.default_rng(11)
    types = (BIGINT,) * 3
    streams = [make_stream(rng, side, 12, 40, types, 15) for side in KINDS[kind]]
    seen = []
    for together in (1, 3, 12):
        op, out = run.build(Arena()), Counter()
        for start in range(0, 12, together):
            parts = [[r for rows in s[start : start + together] for r in rows] for s in streams]
            deltas = [to_delta(part, types) for part in parts]
            got = op.step(deltas, Clock(10 * start, 10 * (start + together)))
            out.update(from_delta(got, types * 2))
        seen.append(out)
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]
