from __future__ import annotations

import random
from collections import Counter

import pytest
from signed_streams import SHAPES, Bag, Row, Stub, check, edge, from_delta, stream, to_delta

from penstock.arrays import NEVER
from penstock.delta import Clock, Lineage
from penstock.logical.nodes import JoinKind
from penstock.patterns.edge import Pattern
from penstock.physical.expiry_policy import decide
from penstock.physical.join_specs import SemiJoinSpec
from penstock.physical.semi_join import SemiJoinOp
from penstock.state.arena import Arena

Keys = tuple[tuple[int, int], ...]
KEYS: tuple[Keys, ...] = (
    (), ((0, 0),), ((1, 0),), ((0, 1), (1, 0)), ((0, 0), (0, 1)), ((0, 0), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)  # fmt: skip


def make(
    arena: Arena,
    shapes: tuple[str, str],
    keys: Keys,
    anti: bool,
    emit: str,
    null_safe: bool = False,
    table: bool = False,
) -> SemiJoinOp:
    left = Stub(edge(shapes[0], 2))
    right = Stub(edge(shapes[1], 2, Lineage.EPOCH if table else Lineage.COHORT))
    kind = JoinKind.ANTI if anti else JoinKind.SEMI
    spec = SemiJoinSpec.of(left.spec, right.spec, kind, keys, null_safe)
    spec = decide(spec, emit)  # type: ignore[arg-type]
    return SemiJoinOp(spec, left, right, arena.scope("s"), table)


def answer(keys: Keys, anti: bool, null_safe: bool, table: bool, bags: list[Bag]) -> Bag:
    def key(lin: int, values: tuple[int | None, ...], side: int) -> object:
        return (0 if table else lin, tuple(values[p[side]] for p in keys))

    def has_null(values: tuple[int | None, ...], side: int) -> bool:
        return not null_safe and any(values[p[side]] is None for p in keys)

    right = {key(lin, values, 1) for lin, values in bags[1] if not has_null(values, 1)}
    out: Bag = Counter()
    for (lin, values), n in bags[0].items():
        matched = not has_null(values, 0) and key(lin, values, 0) in right
        if matched != anti:
            out[(lin, values)] = n
    return out


@pytest.mark.parametrize("anti", [False, True])
@pytest.mark.parametrize("emit", ["explicit", "expiring"])
@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_random_streams_fold_to_the_answer(anti: bool, emit: str, left: str, right: str) -> None:
    for seed in range(6):
        rng = random.Random(seed)
        keys, null_safe = rng.choice(KEYS), rng.random() < 0.5
        table = rng.random() < 0.3
        span, lins = rng.choice((3, 10, 30)), rng.choice((1, 3))
        inputs = [stream(rng, s, 2, 60, span, lins) for s in (left, right)]
        if table:
            inputs[1] = [(*r[:3], 99, r[4]) for r in inputs[1]]
        op = check(
            rng,
            lambda arena, k=keys, n=null_safe, t=table: make(
                arena, (left, right), k, anti, emit, n, t
            ),
            inputs,
            lambda bags, k=keys, n=null_safe, t=table: answer(k, anti, n, t, bags),
            explicit=emit == "explicit",
            purged=rng.choice((None, 0)),
        )
        if all(r[1] < NEVER for rows in inputs for r in rows):
            assert op.rows() == 0


def run(op: SemiJoinOp, left: list[Row], right: list[Row], now: int) -> list[Row]:
    return from_delta(op.step([to_delta(left, 2), to_delta(right, 2)], Clock(0, now)))


def test_a_match_takes_all_rows_of_an_anti_join_and_gives_them_back() -> None:
    op = make(Arena(), ("wks", "wks"), ((0, 0),), True, "expiring")
    left = [(0, 10, 1, 0, (1, 5)), (0, 10, 1, 0, (1, 6)), (1, 11, 1, 0, (2, 5))]
    out = run(op, left, [(3, 6, 1, 0, (1, 0)), (4, 7, 1, 0, (1, 0))], 20)
    assert Counter(out) == Counter(
        left + [(t, 10, s, 0, (1, c)) for t, s in ((3, -1), (7, 1)) for c in (5, 6)]
    )
    assert op.premature_share() == pytest.approx(2 / 5)


def test_explicit_ends_are_rows() -> None:
    op = make(Arena(), ("wks", "wks"), (), False, "explicit")
    out = run(op, [(0, 10, 1, 0, (1, 5))] * 2, [(3, 6, 1, 0, (1, 0))], 20)
    assert out == [(3, NEVER, 1, 0, (1, 5))] * 2 + [(6, NEVER, -1, 0, (1, 5))] * 2


def test_edges() -> None:
    anti = make(Arena(), ("wks", "wks"), ((0, 0),), True, "expiring").edge
    assert (anti.pattern, anti.expiring, anti.negatives) == (Pattern.STR, True, True)
    semi = make(Arena(), ("wks", "wks"), ((0, 0),), False, "explicit").edge
    assert (semi.pattern, semi.expiring, semi.negatives) == (Pattern.WK, False, True)
    silent = make(Arena(), ("wks", "mon"), ((0, 0),), False, "expiring").edge
    assert (silent.expiring, silent.negatives) == (True, False)


def test_strings_of_values_and_keys_are_reported() -> None:
    op = make(Arena(), ("wks", "wks"), ((1, 1),), False, "explicit")
    assert [(s.array, s.columns) for s in op.strings()] == [
        ("s/values/keys", (3,)),
        ("s/keys/keys", (2,)),
    ]
    assert "c1 = c1" in op.spec.detail()
    assert "FIFO / FIFO" in op.spec.structure()
