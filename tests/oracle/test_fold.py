"""Folding and comparing bags."""

from __future__ import annotations

import pyarrow as pa
import pytest

from oracle.fold import Change, Fold, FoldError, bag, changes_of, same


def log(*entries: tuple[str, int, int]) -> pa.Table:
    return pa.table(
        {
            "_query": ["q"] * len(entries),
            "_change_type": pa.array([e[0] for e in entries], pa.string()),
            "_time": pa.array([e[1] for e in entries], pa.int64()),
            "_batch": [1] * len(entries),
            "_seq": list(range(len(entries))),
            "n": pa.array([e[2] for e in entries], pa.int64()),
        }
    )


def test_fold_and_update_pairs() -> None:
    fold = Fold()
    fold.apply(
        changes_of(log(("insert", 1, 5), ("update_preimage", 2, 5), ("update_postimage", 2, 6)))
    )
    assert fold.held == bag([(6,)])


@pytest.mark.parametrize(
    "entries",
    [
        [("update_preimage", 1, 5)],
        [("update_postimage", 1, 5)],
        [("update_preimage", 1, 5), ("update_postimage", 2, 6)],
        [("insert", 2, 5), ("insert", 1, 5)],
        [("upsert", 1, 5)],
    ],
)
def test_malformed_changelogs(entries: list[tuple[str, int, int]]) -> None:
    with pytest.raises(FoldError):
        changes_of(log(*entries))


def test_negative_multiplicity_at_the_end_of_an_instant() -> None:
    fold = Fold()
    fold.apply([Change(-1, 1, (5,)), Change(1, 1, (5,))])
    with pytest.raises(FoldError, match="multiplicity"):
        fold.apply([Change(-1, 1, (5,))])


def test_time_does_not_go_back_between_batches() -> None:
    fold = Fold()
    fold.apply([Change(1, 3, (5,))])
    with pytest.raises(FoldError, match="after one at"):
        fold.apply([Change(1, 2, (5,))])


def test_same_within_tolerance() -> None:
    nan = float("nan")
    assert same(bag([(1, 0.3), (None, nan)]), bag([(None, nan), (1, 0.1 + 0.2)]))
    assert same(bag([(0.0,)]), bag([(-0.0,)]))
    assert same(bag([(1,)]), bag([(1.0,)]))
    assert not same(bag([(1, 0.3)]), bag([(1, 0.3001)]))
    assert not same(bag([(1,)]), bag([(1,), (1,)]))
    assert not same(bag([(None,)]), bag([(0,)]))
