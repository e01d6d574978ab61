from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from signed_streams import SHAPES, Bag, Row, Stub, check, edge, from_delta, stream, to_delta

from penstock.arrays import NEVER
from penstock.delta import Clock
from penstock.patterns.edge import Pattern
from penstock.physical.distinct import DistinctOp
from penstock.physical.expiry_policy import decide
from penstock.physical.keyed_specs import DistinctSpec
from penstock.state.arena import Arena


def make(arena: Arena, shape: str, columns: int, emit: str) -> DistinctOp:
    source = Stub(edge(shape, columns))
    spec = decide(DistinctSpec.of(source.spec), emit)  # type: ignore[arg-type]
    return DistinctOp(spec, source, arena.scope("d"))


def answer(bags: list[Bag]) -> Bag:
    return Counter(dict.fromkeys(bags[0], 1))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("emit", ["explicit", "expiring"])
def test_random_streams_fold_to_the_distinct_rows(shape: str, emit: str) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        columns = rng.choice((0, 1, 1, 2))
        rows = stream(rng, shape, columns, 80, rng.choice((3, 10, 30)), rng.choice((1, 3)))
        op = check(
            rng,
            lambda arena, columns=columns: make(arena, shape, columns, emit),
            [rows],
            answer,
            explicit=emit == "explicit" or shape in ("str", "explicit"),
            purged=rng.choice((None, 0)),
        )
        if all(r[1] < NEVER for r in rows):
            assert op.rows() == 0


def run(op: DistinctOp, rows: list[Row], now: int, before: int = 0) -> list[Row]:
    return from_delta(op.step([to_delta(rows, 1)], Clock(before, now)))


def test_explicit_is_silent_while_a_value_is_renewed() -> None:
    op = make(Arena(), "wks", 1, "explicit")
    rows = [(0, 10, 1, 0, (7,)), (5, 15, 1, 0, (7,)), (15, 25, 1, 0, (7,))]
    assert run(op, rows, 30) == [(0, NEVER, 1, 0, (7,)), (25, NEVER, -1, 0, (7,))]


def test_expiring_renews_a_row_with_the_largest_known_expiry() -> None:
    op = make(Arena(), "wk", 1, "expiring")
    rows = [(0, 10, 1, 0, (7,)), (2, 20, 1, 0, (7,)), (3, 12, 1, 0, (7,))]
    assert run(op, rows, 4) == [(0, 10, 1, 0, (7,))]
    assert run(op, [], 30, 4) == [(10, 20, 1, 0, (7,))]
    assert op.rows() == 0


def test_star_keeps_distinct_values_only() -> None:
    op = make(Arena(), "wks", 1, "explicit")
    run(op, [(t, t + 1000, 1, 0, (t % 5,)) for t in range(500)], 500)
    assert op.rows() == 5


def test_edges() -> None:
    explicit = make(Arena(), "wks", 1, "explicit").edge
    assert (explicit.pattern, explicit.expiring, explicit.negatives) == (Pattern.WK, False, True)
    expiring = make(Arena(), "wks", 1, "expiring").edge
    assert (expiring.expiring, expiring.negatives, expiring.fifo) == (True, False, False)
    assert make(Arena(), "str", 1, "explicit").edge.pattern is Pattern.STR
    assert not make(Arena(), "mon", 1, "explicit").edge.negatives


def test_rows_without_a_known_end_are_told() -> None:
    """Of rows that may be retracted no expiry is known; rows that stay have none."""
    for shape in ("str", "explicit", "mon"):
        assert make(Arena(), shape, 1, "expiring").spec.expiry.tells
        assert make(Arena(), shape, 1, "expiring").edge == make(Arena(), shape, 1, "explicit").edge
    assert not make(Arena(), "wk", 1, "expiring").spec.expiry.tells


def test_string_codes_are_reported() -> None:
    arena = Arena()
    op = make(arena, "wks", 2, "explicit")
    (where,) = op.strings()
    op.step([to_delta([(0, 9, 1, 0, (1, 42))], 2)], Clock(0, 0))
    codes = arena.snapshot()[where.array][:1][:, list(where.columns)]
    assert np.array_equal(codes, [[42]])
    assert "δ*" in op.spec.detail()


def test_structure_follows_the_edge() -> None:
    assert make(Arena(), "wks", 1, "explicit").spec.structure() == "hash + calendar"
    assert make(Arena(), "str", 1, "explicit").spec.structure() == "hash + calendar"
    assert make(Arena(), "explicit", 1, "explicit").spec.structure() == "hash + counts"
