"""What was found, put in order, against Python's sort."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from penstock.kernels.pairs.data import Found
from penstock.kernels.pairs.order import join_found, order_triples, sort_words

SIZES = (0, 1, 24, 25, 0, 300, 2, 5000)


def some_found(seed: int, bits: int, most: int) -> Found:
    rng = np.random.default_rng(seed)
    positions, slots = rng.integers(0, most, sum(SIZES)), rng.integers(0, 1 << bits, sum(SIZES))
    return Found(positions << bits | slots, np.cumsum([0, *SIZES]))


@pytest.mark.parametrize(("bits", "most"), [(0, 1), (3, 50), (20, 1 << 40), (17, 1 << 46), (1, 2)])
def test_every_piece_is_sorted(bits: int, most: int) -> None:
    found = some_found(1, bits, most)
    words = np.concatenate([found.words, [5, 3]])  # beyond the last piece: left alone
    sort_words(words, found.starts)
    assert words[-2:].tolist() == [5, 3]
    for begin, end in pairwise(found.starts):
        assert words[begin:end].tolist() == sorted(found.words[begin:end].tolist())


def test_triples_are_in_order_of_row_position_and_slot() -> None:
    found, order = some_found(2, 5, 1 << 20), np.random.default_rng(3).permutation(len(SIZES))
    expected = sorted(
        (int(row), 77 + (int(word) >> 5), int(word) & 31)
        for row, (begin, end) in zip(order, pairwise(found.starts), strict=True)
        for word in found.words[begin:end]
    )
    for put in (order_triples, order_triples.py_func):
        triples = put(Found(found.words.copy(), found.starts), order, 77, 5)
        assert list(zip(*(column.tolist() for column in triples), strict=True)) == expected


def test_two_findings_are_joined_row_by_row() -> None:
    one, other = some_found(5, 4, 100), some_found(6, 4, 100)
    other = Found(other.words, other.starts[::-1].max() - other.starts[::-1])
    for join in (join_found, join_found.py_func):
        both = join(one, other)
        for i, (begin, end) in enumerate(pairwise(both.starts)):
            parts = [f.words[f.starts[i] : f.starts[i + 1]].tolist() for f in (one, other)]
            assert both.words[begin:end].tolist() == [*parts[0], *parts[1]]
