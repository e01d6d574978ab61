"""The join that tells its own deletions, beside a twin that stores results until they expire."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_join import CONDITIONS, SINCE, Residual, Run, Side, Twin, from_delta, to_delta
from test_join import make_stream as plain_stream

from penstock.arrays import BEGINNING, NEVER
from penstock.delta import Clock, Lineage
from penstock.expressions.context import Context, Failures
from penstock.kernels.join import DISORDERED
from penstock.physical.join import JoinOp
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, DOUBLE


@dataclass
class Explicit(Run):
    """Builds the join below a view."""

    columns: tuple[int, ...] | None = None

    def build(self, arena: Arena) -> JoinOp:
        ctx = Context(StringTable(arena.scope("strings")), {}, Failures())
        residual = Residual() if self.residual else None
        return self.join(arena, ctx, residual, self.columns, shown=True)


class ExplicitTwin(Twin):
    """Keeps every live result and deletes it at its expiry."""

    def __init__(self, run: Explicit) -> None:
        super().__init__(run.left, run.right, run.equi, run.band, None, run.residual)
        self.live: Counter = Counter()

    def changes(self, left: list, right: list, clock: Clock) -> list[tuple]:
        out = self.step(left, right)
        for _, exp, sign, lin, values in out:
            self.live[exp, lin, values] += sign
        for exp, lin, values in [key for key in self.live if key[0] <= clock.now]:
            gone = self.live.pop((exp, lin, values))
            assert gone >= 0
            when = clock.now if clock.at_commit else exp
            out += [(when, exp, -1, lin, values)] * gone
        return [(ts, NEVER, sign, lin, values) for ts, _, sign, lin, values in out]


def streams(rng, run: Explicit, steps: int, per_step: int, lazy: tuple[int, int], history: bool):
    types = (BIGINT, run.band_type, BIGINT)
    out = []
    for side, span in zip((run.left, run.right), lazy, strict=True):
        rows = plain_stream(rng, side, steps, per_step, types, span)
        if history and side.level > Lineage.EPOCH and not side.negatives:
            rows[steps // 2] = [
                (ts, ts + 1 + int(rng.integers(span)), sign, lin, values)
                for ts, _, sign, lin, values in rows[steps // 2]
            ]
        out.append(rows)
    return out


def at_commit(rows: list, now: int) -> list:
    return [(now, exp, sign, lin, values) for _, exp, sign, lin, values in rows if exp > now]


def seen(changes: list[tuple], run: Explicit) -> Counter:
    """The changes; of the epoch of a result it counts which queries see it."""
    if max(run.left.level, run.right.level) > Lineage.EPOCH:
        return Counter(changes)
    return Counter((*c[:3], int((c[3] >= SINCE).sum()), c[4]) for c in changes)


def check_fold(changes: list[tuple], held: Counter) -> None:
    """Nothing is deleted before it is there; what comes and goes at one instant goes first."""
    for ts, _, sign, _, values in changes:
        held[values] += sign
        assert held[values] >= 0, (ts, values)


def check(
    run: Explicit, seed: int, steps: int = 12, per_step: int = 12,
    lazy: tuple[int, int] = (15, 15), commit: bool = False,
) -> int:  # fmt: skip
    rng = np.random.default_rng(seed)
    types = (BIGINT, run.band_type, BIGINT)
    left, right = streams(rng, run, steps, per_step, lazy, history=True)
    twin, arena, held = ExplicitTwin(run), Arena(), Counter()
    op = run.build(arena)
    assert not op.edge.expiring
    assert op.edge.negatives
    before, total = BEGINNING, 0
    for step in range(steps + 3):
        now = 10 * step + 10
        clock = Clock(before, now, commit)
        rows = [s[step] if step < steps else [] for s in (left, right)]
        if commit:
            rows = [at_commit(r, now) for r in rows]
        got = op.step([to_delta(r, types) for r in rows], clock)
        assert (np.diff(got.ts) >= 0).all()
        changes = from_delta(got, types + types)
        assert seen(changes, run) == seen(twin.changes(*rows, clock), run)
        check_fold(changes, held)
        total += len(changes)
        live = [(now, NEVER, 1, *row[3:]) for row in twin.contents(now)]
        assert Counter(from_delta(op.contents(clock), types + types)) == Counter(live)
        before = now
        if rng.random() < 0.3:
            snapshot = arena.snapshot()
            arena = Arena()
            arena.restore(snapshot)
            op = run.build(arena)
    return total


WINDOWS = {
    "windows": (Side(), Side()),
    "left tagged": (Side(Lineage.COHORT), Side()),
    "right tagged": (Side(), Side(Lineage.QUERY)),
    "both tagged": (Side(Lineage.QUERY), Side(Lineage.QUERY)),
}
KINDS = WINDOWS | {
    "negatives": (Side(negatives=True), Side(negatives=True)),
    "one negative": (Side(negatives=True), Side()),
    "table right": (Side(), Side(table=True, negatives=True)),
    "table left": (Side(table=True, negatives=True), Side()),
    "tagged table": (Side(Lineage.COHORT), Side(table=True, negatives=True)),
}
PLAIN = {name: c for name, c in CONDITIONS.items() if name != "residual"}


@pytest.mark.parametrize("condition", PLAIN)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_its_twin(kind: str, condition: str) -> None:
    equi, band, _, band_type = PLAIN[condition]
    run = Explicit(*KINDS[kind], equi, band, False, band_type=band_type)
    assert sum(check(run, seed) for seed in range(2)) > 20


@pytest.mark.parametrize("condition", ["equi", "band"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_everything_of_a_commit_happens_at_its_clock(kind: str, condition: str) -> None:
    equi, band, _, band_type = PLAIN[condition]
    run = Explicit(*WINDOWS[kind], equi, band, False, band_type=band_type)
    assert sum(check(run, seed, commit=True, lazy=(15, 25)) for seed in range(3)) > 50


@pytest.mark.parametrize("lazy", [(3, 40), (40, 3), (1, 1), (10, 10)])
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_any_lengths(kind: str, lazy: tuple[int, int]) -> None:
    check(Explicit(*KINDS[kind], ((0, 0),), None, False), seed=3, lazy=lazy)


@pytest.mark.parametrize("kind", KINDS)
def test_long_runs_compact_and_need_more_room(kind: str) -> None:
    sides = [replace(side, keys=3) for side in KINDS[kind]]
    assert check(Explicit(*sides, ((0, 0),), None, False), 5, 10, 60, (12, 17)) > 1_000


def test_a_row_that_leaves_as_it_comes_is_never_told() -> None:
    op = Explicit(Side(), Side(), ((0, 0),), None, False).build(Arena())
    left = to_delta([(1, 1, 1, 0, (1, 7, 0)), (1, 3, 1, 0, (1, 8, 0))], (BIGINT,) * 3)
    right = to_delta([(1, 9, 1, 0, (1, 9, 0))], (BIGINT,) * 3)
    out = from_delta(op.step([left, right], Clock(BEGINNING, 9)), (BIGINT,) * 6)
    assert [(r[0], r[2], r[4][1]) for r in out] == [(1, 1, 8), (3, -1, 8)]


def test_an_instant_that_is_visited_again_tells_nothing_twice() -> None:
    op = Explicit(Side(), Side(), ((0, 0),), None, False).build(Arena())
    row = to_delta([(1, 5, 1, 0, (1, 7, 0))], (BIGINT,) * 3)
    none = to_delta([], (BIGINT,) * 3)
    assert len(op.step([row, row], Clock(BEGINNING, 1))) == 1
    assert len(op.step([none, none], Clock(1, 5))) == 1
    late = to_delta([(5, 9, 1, 0, (1, 8, 0))], (BIGINT,) * 3)
    assert len(op.step([late, none], Clock(5, 5))) == 0
    assert op.contents(Clock(5, 5)).ts.shape[0] == 0


def test_rows_that_come_with_history_leave_the_log_in_order() -> None:
    arena = Arena()
    op = Explicit(Side(Lineage.QUERY), Side(), ((0, 0),), None, False).build(arena)
    rows = [(1, 9, 1, 0, (1, 7, 0)), (1, 5, 1, 1, (1, 8, 0)), (1, 7, 1, 1, (1, 9, 0))]
    none = to_delta([], (BIGINT,) * 3)
    op.step([to_delta(rows, (BIGINT,) * 3), none], Clock(BEGINNING, 1))
    log = arena.scope("join/left")
    assert log["exp"][:3].tolist() == [5, 7, 9]
    assert log["regs"][DISORDERED] == 0


def test_chosen_columns_and_nulls() -> None:
    run = Explicit(Side(), Side(), ((0, 0),), None, False, columns=(4, 0, 2))
    op = run.build(Arena())
    left = to_delta([(1, 5, 1, 0, (1, 7, None))], (BIGINT,) * 3)
    right = to_delta([(1, 5, 1, 0, (1, None, 6))], (BIGINT,) * 3)
    out = from_delta(op.step([left, right], Clock(BEGINNING, 5)), (BIGINT,) * 3)
    assert [(r[2], r[4]) for r in out] == [(1, (None, 1, None)), (-1, (None, 1, None))]


def test_a_query_purged_leaves_nothing_to_delete() -> None:
    op = Explicit(Side(Lineage.QUERY), Side(), ((0, 0),), None, False).build(Arena())
    left = to_delta([(1, 9, 1, 0, (1, 7, 0)), (1, 9, 1, 1, (1, 8, 0))], (BIGINT,) * 3)
    right = to_delta([(1, 20, 1, 9, (1, 0, 0))], (BIGINT,) * 3)
    assert len(op.step([left, right], Clock(BEGINNING, 1))) == 2
    op.purge(np.array([0]))
    none = to_delta([], (BIGINT,) * 3)
    out = from_delta(op.step([none, none], Clock(1, 30)), (BIGINT,) * 6)
    assert [(r[0], r[2], r[3], r[4][1]) for r in out] == [(9, -1, 1, 8)]


def test_a_purge_does_not_bring_back_what_has_left() -> None:
    op = Explicit(Side(Lineage.QUERY), Side(), ((0, 0),), None, False).build(Arena())
    left = to_delta([(1, 3, 1, 1, (1, 7, 0)), (1, 9, 1, 0, (1, 8, 0))], (BIGINT,) * 3)
    right = to_delta([(1, 20, 1, 9, (1, 0, 0))], (BIGINT,) * 3)
    assert len(op.step([left, right], Clock(BEGINNING, 5))) == 3
    op.purge(np.array([0]))
    none = to_delta([], (BIGINT,) * 3)
    assert len(op.step([none, none], Clock(5, 30))) == 0


@pytest.mark.parametrize(
    ("left", "right", "residual", "explicit"),
    [
        (Side(), Side(), False, True),
        (Side(), Side(), True, False),
        (Side(fifo=False), Side(), False, False),
        (Side(table=True), Side(), False, True),
        (Side(table=True), Side(table=True), False, False),
    ],
)
def test_where_it_can(left: Side, right: Side, residual: bool, explicit: bool) -> None:
    op = Explicit(left, right, ((0, 0),), None, residual, band_type=DOUBLE).build(Arena())
    assert op.edge.expiring == (not explicit and not (left.table and right.table))
