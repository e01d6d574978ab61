"""Random timed, signed streams, and plain Python recomputation of what is live at an instant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.arrays import NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.operator import Operator
from penstock.physical.specs import Spec
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.types import BIGINT, STRING

# (ts, exp, sign, lin, values); None is NULL
Row = tuple[int, int, int, int, tuple[int | None, ...]]
Bag = Counter[tuple[int, tuple[int | None, ...]]]
SHAPES = ("wks", "wk", "str", "explicit", "mon")


@dataclass(frozen=True)
class Shape:
    pattern: Pattern
    expiring: bool
    negatives: bool
    fifo: bool


_SHAPES = {
    "wks": Shape(Pattern.WKS, True, False, True),
    "wk": Shape(Pattern.WK, True, False, False),
    "str": Shape(Pattern.STR, True, True, False),
    "explicit": Shape(Pattern.STR, False, True, False),
    "mon": Shape(Pattern.MON, False, False, True),
}


def edge(shape: str, columns: int, level: Lineage = Lineage.COHORT) -> Edge:
    s = _SHAPES[shape]
    fields = tuple(Field(f"c{i}", STRING if i == 1 else BIGINT) for i in range(columns))
    return Edge(Schema(fields), s.pattern, level, s.expiring, s.negatives, s.fifo)


class Stub(Operator):
    """An input with an edge and nothing behind it."""

    def __init__(self, of: Edge) -> None:
        super().__init__(Spec(edge=of), (), Arena().scope("stub"))


def stream(rng: random.Random, shape: str, columns: int, n: int, span: int, lins: int) -> list[Row]:
    """Rows in time order; retractions of live rows where the shape has them."""
    rows: list[Row] = []
    ts = 0
    while len(rows) < n:
        ts += rng.choice((0, 0, 1, 1, 2, rng.randrange(2 * span)))
        live = [r for r in _unretracted(rows) if r[1] > ts]
        if _SHAPES[shape].negatives and live and rng.random() < 0.35:
            _, exp, _, lin, values = rng.choice(live)
            rows.append((ts, exp, -1, lin, values))
            continue
        values = tuple(rng.choice((None, 0, 1, 2)) for _ in range(columns))
        rows.append((ts, _expiry(rng, shape, ts, span), 1, rng.randrange(lins), values))
    return rows


def _expiry(rng: random.Random, shape: str, ts: int, span: int) -> int:
    if not _SHAPES[shape].expiring:
        return NEVER
    if shape == "wks":
        return ts + span
    # now and then a row that is dead on arrival, or one that stays
    return rng.choice((ts, NEVER)) if rng.random() < 0.05 else ts + rng.randint(1, 2 * span)


def _unretracted(rows: list[Row]) -> list[Row]:
    left = Counter((r[1], r[3], r[4]) for r in rows if r[2] < 0)
    out = []
    for r in rows:
        if r[2] > 0:
            if left[(r[1], r[3], r[4])]:
                left[(r[1], r[3], r[4])] -= 1
            else:
                out.append(r)
    return out


def live(rows: list[Row], at: int) -> Bag:
    """The bag of rows that are there at an instant."""
    bag: Bag = Counter()
    for ts, exp, sign, lin, values in rows:
        if ts <= at < exp:
            bag[(lin, values)] += sign
    assert all(n >= 0 for n in bag.values())
    return +bag


def to_delta(rows: list[Row], columns: int) -> Delta:
    n = len(rows)
    matrix = np.zeros((1 + columns, n), np.int64)
    for i, row in enumerate(rows):
        for c, value in enumerate(row[4]):
            if value is None:
                matrix[0, i] |= 1 << c
            else:
                matrix[1 + c, i] = value
    ts, exp, sign, lin = (np.array([r[k] for r in rows], np.int64) for k in range(4))
    return Delta(matrix, ts, exp, sign.astype(np.int8), lin)


def from_delta(delta: Delta) -> list[Row]:
    def values(i: int) -> tuple[int | None, ...]:
        nulls = int(delta.nulls[i])
        return tuple(
            None if nulls >> c & 1 else int(delta.rows[1 + c, i]) for c in range(delta.width)
        )

    return [
        (int(delta.ts[i]), int(delta.exp[i]), int(delta.sign[i]), int(delta.lin[i]), values(i))
        for i in range(len(delta))
    ]


def batches(
    rng: random.Random, inputs: list[list[Row]], end: int
) -> Iterator[tuple[list[list[Row]], Clock]]:
    """Cut the inputs into steps; an instant may be cut in two and so be visited again."""
    tagged = sorted(
        ((r[0], side, i, r) for side, rows in enumerate(inputs) for i, r in enumerate(rows)),
        key=lambda x: (x[0], x[2], x[1]),
    )
    before = pos = 0
    while pos < len(tagged):
        size = rng.choice((1, 2, 5, 20, 100))
        part = tagged[pos : pos + size]
        pos += len(part)
        now = part[-1][0]
        if pos < len(tagged):
            now = rng.randint(now, tagged[pos][0])  # a heartbeat may go beyond the rows
        out: list[list[Row]] = [[] for _ in inputs]
        for _, side, _, row in part:
            out[side].append(row)
        yield [sorted(rows, key=lambda r: r[0]) for rows in out], Clock(before, now)
        before = now
    yield [[] for _ in inputs], Clock(before, end)


def check(
    rng: random.Random,
    make: Callable[[Arena], Operator],
    inputs: list[list[Row]],
    answer: Callable[[list[Bag]], Bag],
    *,
    explicit: bool,
    purged: int | None = None,
) -> Operator:
    """Run in random batches with restores (and a purge); every instant must be recomputable."""
    times = [t for rows in inputs for r in rows for t in r[:2] if t < NEVER]
    end = max(times, default=0) + 1
    arena = Arena()
    op = make(arena)
    out: list[Row] = []
    seen: list[list[Row]] = [[] for _ in inputs]
    purge_at = rng.randrange(end) if purged is not None else NEVER
    for parts, clock in batches(rng, inputs, end):
        if purge_at <= clock.before:
            if any(r[3] == purged for rows in seen for r in rows):
                op.purge(np.array([purged], np.int64))
                seen = [[r for r in rows if r[3] != purged] for rows in seen]
                out = [r for r in out if r[3] != purged]
            parts = [[r for r in rows if r[3] != purged] for rows in parts]
        columns = [i.edge.schema for i in op.inputs]
        deltas = [to_delta(p, len(c)) for p, c in zip(parts, columns, strict=True)]
        changes = from_delta(op.step(deltas, clock))
        assert [r[0] for r in changes] == sorted(r[0] for r in changes)
        assert all(clock.before <= r[0] <= clock.now for r in changes)
        _check_net(changes, explicit)
        _check_edge(changes, op.edge)
        out += changes
        for side, part in zip(seen, parts, strict=True):
            side += part
        instants = {clock.now, *(r[0] for r in changes)} | {r[0] for p in parts for r in p}
        instants |= {r[1] for rows in seen for r in rows if clock.before <= r[1] <= clock.now}
        for t in instants:
            assert live(out, t) == answer([live(rows, t) for rows in seen]), t
        shown = from_delta(op.contents(clock))
        assert live(shown, clock.now) == live(out, clock.now)
        if rng.random() < 0.2:
            copy = Arena()
            copy.restore(arena.snapshot())
            arena, op = copy, make(copy)
    return op


def _check_net(changes: list[Row], explicit: bool) -> None:
    signs: dict[object, set[int]] = {}
    for ts, exp, sign, lin, values in changes:
        signs.setdefault((ts, lin, values, None if explicit else exp), set()).add(sign)
    assert all(len(s) == 1 for s in signs.values())


def _check_edge(changes: list[Row], of: Edge) -> None:
    assert of.negatives or all(r[2] > 0 for r in changes)
    assert of.expiring or all(r[1] == NEVER for r in changes)
