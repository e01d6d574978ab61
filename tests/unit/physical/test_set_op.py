from __future__ import annotations

import random
from collections import Counter

import pytest
from signed_streams import SHAPES, Bag, Row, Stub, check, edge, from_delta, stream, to_delta

from penstock.arrays import NEVER
from penstock.delta import Clock
from penstock.logical.nodes import SetKind
from penstock.patterns.edge import Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.keyed_specs import SetOpSpec
from penstock.physical.set_op import SetOpOp
from penstock.state.arena import Arena

OPS = [(k, a) for k in (SetKind.EXCEPT, SetKind.INTERSECT) for a in (False, True)]


def make(
    arena: Arena, shapes: tuple[str, str], columns: int, kind: SetKind, all_: bool, emit: str
) -> SetOpOp:
    left, right = (Stub(edge(s, columns)) for s in shapes)
    spec = decide(SetOpSpec.of(left.spec, right.spec, kind, all_), emit)  # type: ignore[arg-type]
    return SetOpOp(spec, left, right, arena.scope("s"))


def answer(kind: SetKind, all_: bool, bags: list[Bag]) -> Bag:
    left, right = bags
    if kind is SetKind.EXCEPT:
        return left - right if all_ else Counter({v: 1 for v in left if v not in right})
    return left & right if all_ else Counter({v: 1 for v in left if v in right})


def check_op(shapes: tuple[str, str], kind: SetKind, all_: bool, emit: str, seed: int) -> None:
    rng = random.Random(seed)
    columns, span, lins = rng.choice((0, 1, 1, 2)), rng.choice((3, 10, 30)), rng.choice((1, 3))
    inputs = [stream(rng, s, columns, 60, span, lins) for s in shapes]
    op = check(
        rng,
        lambda arena: make(arena, shapes, columns, kind, all_, emit),
        inputs,
        lambda bags: answer(kind, all_, bags),
        explicit=emit == "explicit",
        purged=rng.choice((None, 0)),
    )
    if all(r[1] < NEVER for rows in inputs for r in rows):
        assert op.rows() == 0


@pytest.mark.parametrize(("kind", "all_"), OPS)
@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_explicit_folds_to_the_answer(kind: SetKind, all_: bool, left: str, right: str) -> None:
    for seed in range(4):
        check_op((left, right), kind, all_, "explicit", seed)


@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_expiring_except_all_folds_to_the_answer(left: str, right: str) -> None:
    for seed in range(10):
        check_op((left, right), SetKind.EXCEPT, True, "expiring", seed)


def run(op: SetOpOp, left: list[Row], right: list[Row], now: int) -> list[Row]:
    return from_delta(op.step([to_delta(left, 1), to_delta(right, 1)], Clock(0, now)))


def test_expirations_are_silent_and_premature_ends_are_counted() -> None:
    op = make(Arena(), ("wks", "wks"), 1, SetKind.EXCEPT, True, "expiring")
    left = [(0, 10, 1, 0, (7,)), (2, 12, 1, 0, (7,)), (3, 13, 1, 0, (8,))]
    right = [(5, 11, 1, 0, (7,))]
    assert run(op, left, right, 20) == [
        (0, 10, 1, 0, (7,)),
        (2, 12, 1, 0, (7,)),
        (3, 13, 1, 0, (8,)),
        (5, 12, -1, 0, (7,)),  # the last to expire is the one that goes
        (11, 12, 1, 0, (7,)),
    ]
    assert op.premature_share() == pytest.approx(1 / 4)
    assert op.rows() == 0


def test_changes_of_one_instant_are_netted() -> None:
    op = make(Arena(), ("wks", "wks"), 1, SetKind.EXCEPT, True, "explicit")
    left, right = [(1, 9, 1, 0, (7,))] * 3, [(1, 9, 1, 0, (7,))] * 2
    assert run(op, left, right, 20) == [(1, NEVER, 1, 0, (7,)), (9, NEVER, -1, 0, (7,))]
    assert op.premature_share() == 0.0


def test_a_row_taken_and_given_back_at_one_instant_is_not_shown() -> None:
    op = make(Arena(), ("str", "wks"), 1, SetKind.EXCEPT, True, "expiring")
    left = [(1, 9, 1, 0, (7,)), (2, 9, -1, 0, (7,)), (2, 9, 1, 0, (7,)), (3, 9, -1, 0, (7,))]
    assert run(op, left, [], 20) == [(1, 9, 1, 0, (7,)), (3, 9, -1, 0, (7,))]
    assert op.rows() == 0


def test_only_except_all_can_expire() -> None:
    for kind, all_ in OPS:
        if (kind, all_) != (SetKind.EXCEPT, True):
            made = make(Arena(), ("wks", "wks"), 1, kind, all_, "expiring")
            assert made.spec.expiry.tells
            assert not made.edge.expiring


def test_edges() -> None:
    for kind, pattern in ((SetKind.EXCEPT, Pattern.STR), (SetKind.INTERSECT, Pattern.WK)):
        out = make(Arena(), ("wks", "wk"), 1, kind, True, "explicit").edge
        assert (out.pattern, out.expiring, out.negatives) == (pattern, False, True)
    out = make(Arena(), ("wks", "wks"), 1, SetKind.EXCEPT, True, "expiring").edge
    assert (out.pattern, out.expiring, out.negatives) == (Pattern.STR, True, True)


@pytest.mark.parametrize("emit", ["explicit", "expiring"])
def test_both_ways_to_leave_count_premature_ends(emit: str) -> None:
    op = make(Arena(), ("wks", "wks"), 1, SetKind.EXCEPT, True, emit)
    left = [(t, t + 10, 1, 0, (t,)) for t in range(8)]
    right = [(9, 19, 1, 0, (t,)) for t in (5, 6)]
    run(op, left, right, 40)
    assert op.premature_share() == pytest.approx(2 / 8)
