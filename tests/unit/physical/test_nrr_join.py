"""The join with a non-retroactive relation against a plain twin."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import EvaluationError
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.join_specs import NrrJoinSpec
from penstock.physical.nrr_join import NrrJoinOp
from penstock.physical.operator import Operator
from penstock.physical.specs import Spec
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, STRING

STREAM = Schema((Field("k", BIGINT), Field("v", BIGINT)))
TABLE = Schema((Field("id", BIGINT), Field("name", STRING)))


class Source(Operator):
    def __init__(self, schema: Schema, level: Lineage, expiring: bool, negatives: bool) -> None:
        pattern = Pattern.STR if negatives else Pattern.WKS
        edge = Edge(schema, pattern, level, expiring, negatives, fifo=True, keyed=negatives)
        super().__init__(Spec(edge=edge), (), Arena().scope("x"))
        self.live = Delta.empty(len(schema))

    def contents(self, clock: Clock) -> Delta:
        return self.live


class Residual:
    def mask(self, rows, params=None, hidden=None):
        bad = rows[2] == 3
        if bad.any():
            raise EvaluationError(bad, "three")
        return rows[2] != rows[4]


def to_delta(rows: list[tuple]) -> Delta:
    """`rows`: (ts, exp, sign, lin, values with None for NULL)."""
    matrix = np.zeros((3, len(rows)), np.int64)
    for i, row in enumerate(rows):
        for c, value in enumerate(row[4]):
            matrix[1 + c, i] = value or 0
            matrix[0, i] |= int(value is None) << c
    part = [np.array([r[k] for r in rows], np.int64) for k in range(4)]
    return Delta(matrix, part[0], part[1], part[2].astype(np.int8), part[3])


def from_delta(delta: Delta) -> list[tuple]:
    out = []
    for i in range(len(delta)):
        null = int(delta.rows[0, i])
        values = tuple(
            None if (null >> c) & 1 else int(delta.rows[1 + c, i]) for c in range(delta.width)
        )
        one = (delta.ts[i], delta.exp[i], delta.sign[i], delta.lin[i])
        out.append((*map(int, one), values))
    return out


class Twin:
    """Keeps the table as a list and what every arrival joined."""

    def __init__(self, residual: bool) -> None:
        self.table: list[tuple] = []
        self.arrivals: list[tuple] = []
        self.residual = residual

    def joined(self, row: tuple) -> list[tuple]:
        out = []
        for other in self.table:
            if row[0] is None or row[0] != other[0]:
                continue
            if self.residual and (row[1] or 0) in (3, other[1] or 0):
                continue
            out.append(row + other)
        return out

    def step(self, stream: list, table: list) -> list[tuple]:
        events = [(r[0], 0, i, r) for i, r in enumerate(table)]
        events += [(r[0], 1, i, r) for i, r in enumerate(stream)]
        out = []
        for ts, kind, _, (_, exp, sign, lin, row) in sorted(events, key=lambda e: e[:3]):
            if kind == 0:
                self.table.append(row) if sign > 0 else self.table.remove(row)
                continue
            if sign > 0:
                found = self.joined(row) if exp > ts else []
                self.arrivals.append((row, exp, lin, found))
            else:
                at = next(i for i, a in enumerate(self.arrivals) if a[:3] == (row, exp, lin))
                found = self.arrivals.pop(at)[3]
            if exp > ts:
                out += [(ts, exp, 1 if sign > 0 else -1, lin, values) for values in found]
        return out

    def contents(self, now: int) -> list[tuple]:
        live = [a for a in self.arrivals if a[1] > now]
        return [(now, exp, 1, lin, values) for _, exp, lin, found in live for values in found]


def make_table(rng, steps: int) -> list[list]:
    out, live = [], []
    for step in range(steps):
        rows = []
        for ts in sorted(rng.integers(10 * step, 10 * step + 11, rng.integers(0, 6))):
            if live and rng.random() < 0.4:
                rows.append((int(ts), NEVER, -1, NEVER, live.pop(rng.integers(len(live)))))
                continue
            values = (int(rng.integers(0, 5)), int(rng.integers(0, 3)))
            values = tuple(None if rng.random() < 0.1 else v for v in values)
            live.append(values)
            rows.append((int(ts), NEVER, 1, NEVER, values))
        out.append(rows)
    return out


def make_stream(rng, steps: int, per_step: int, tagged: bool, negatives: bool) -> list[list]:
    out, live = [], []
    for step in range(steps):
        rows = []
        for ts in sorted(rng.integers(10 * step, 10 * step + 11, rng.integers(0, per_step))):
            ts = int(ts)
            live = [r for r in live if r[0] > ts]
            if negatives and live and rng.random() < 0.4:
                exp, lin, values = live.pop(rng.integers(len(live)))
                rows.append((ts, exp, -int(rng.integers(1, 3)), lin, values))
                continue
            values = (int(rng.integers(0, 5)), int(rng.integers(0, 4)))
            values = tuple(None if rng.random() < 0.1 else v for v in values)
            exp = NEVER if negatives and rng.random() < 0.5 else ts + 15
            lin = int(rng.integers(0, 3)) if tagged else step
            live.append((exp, lin, values))
            rows.append((ts, exp, int(rng.integers(1, 3)), lin, values))
        out.append(rows)
    return out


def build(arena: Arena, tagged: bool, negatives: bool, residual: bool) -> NrrJoinOp:
    ctx = Context(StringTable(arena.scope("strings")), {}, Failures())
    level = Lineage.QUERY if tagged else Lineage.EPOCH
    stream = Source(STREAM, level, True, negatives)
    table = Source(TABLE, Lineage.EPOCH, False, True)
    given = Residual() if residual else None
    spec = decide(NrrJoinSpec.of(stream.spec, table.spec, ((0, 0),), None))
    return NrrJoinOp(spec, stream, table, arena.scope("nrr"), ctx, given)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("per_step", [10, 80])
def test_equals_its_twin(tagged: bool, negatives: bool, residual: bool, per_step: int) -> None:
    rng = np.random.default_rng(per_step)
    steps = 15
    stream = make_stream(rng, steps, per_step, tagged, negatives)
    table = make_table(rng, steps)
    arena, twin, before = Arena(), Twin(residual), BEGINNING
    op = build(arena, tagged, negatives, residual)
    for step in range(steps):
        now = 10 * step + 10
        clock = Clock(before, now)
        got = op.step([to_delta(stream[step]), to_delta(table[step])], clock)
        assert (np.diff(got.ts) >= 0).all()
        assert Counter(from_delta(got)) == Counter(twin.step(stream[step], table[step]))
        if negatives:
            assert Counter(from_delta(op.contents(clock))) == Counter(twin.contents(now))
        before = now
        if rng.random() < 0.3:
            snapshot = arena.snapshot()
            arena = Arena()
            arena.restore(snapshot)
            op = build(arena, tagged, negatives, residual)


def test_a_retraction_takes_back_what_was_joined_then() -> None:
    op = build(Arena(), False, True, False)
    a, b = (1, NEVER, 1, NEVER, (1, 10)), (5, NEVER, 1, NEVER, (1, 20))
    row = (NEVER, 1, 0, (1, 2))
    first = op.step([to_delta([(2, *row)]), to_delta([a])], Clock(BEGINNING, 2))
    second = op.step([to_delta([(6, *row)]), to_delta([b])], Clock(2, 6))
    gone = (NEVER, -1, 0, (1, 2))
    third = op.step([to_delta([(7, *gone)]), to_delta([])], Clock(6, 7))
    assert [r[4] for r in from_delta(first)] == [(1, 2, 1, 10)]
    assert sorted(r[4] for r in from_delta(second)) == [(1, 2, 1, 10), (1, 2, 1, 20)]
    assert [(r[2], r[4]) for r in from_delta(third)] == [(-1, (1, 2, 1, 10))]


def test_edge_is_that_of_the_stream() -> None:
    plain = build(Arena(), True, False, False)
    assert plain.edge.pattern is Pattern.WKS
    assert plain.edge.fifo
    assert plain.edge.lineage == Lineage.QUERY
    assert plain.edge.schema.names == ("k", "v", "id", "name")
    strict = build(Arena(), False, True, False)
    assert strict.edge.pattern is Pattern.STR
    assert not strict.edge.keyed


def test_history_joins_live_rows_with_the_table_of_now() -> None:
    op = build(Arena(), False, False, False)
    op.step([to_delta([]), to_delta([(1, NEVER, 1, NEVER, (1, 10))])], Clock(BEGINNING, 1))
    op.inputs[0].live = to_delta([(3, 9, 1, 0, (1, 2)), (3, 9, 1, 0, (2, 2))])
    assert [r[4] for r in from_delta(op.contents(Clock(1, 3)))] == [(1, 2, 1, 10)]


def test_purge_forgets_what_a_lineage_joined() -> None:
    op = build(Arena(), True, True, False)
    table = to_delta([(1, NEVER, 1, NEVER, (1, 10))])
    rows = to_delta([(2, 99, 1, 0, (1, 2)), (2, 99, 1, 1, (1, 2))])
    op.step([rows, table], Clock(BEGINNING, 2))
    assert op.rows() == 3
    op.purge(np.array([0]))
    assert op.rows() == 2
    assert [r[3] for r in from_delta(op.contents(Clock(2, 2)))] == [1]


def test_describes_itself() -> None:
    op = build(Arena(), False, True, False)
    assert op.spec.detail() == "k = id"
    assert op.spec.structure() == "hash"
    assert [(s.array, s.columns) for s in op.strings()] == [
        ("nrr/table/rows", (3,)), ("nrr/joined/rows", (5,))]  # fmt: skip
