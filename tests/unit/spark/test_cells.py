"""Blocks in parts come back whole, in the order of their origins."""

from __future__ import annotations

import random

import pandas as pd
import pytest

from penstock.errors import StateError
from penstock.spark import cells
from penstock.spark.cells import block_batch, parts
from penstock.spark.frames import block_frame, joined


@pytest.mark.parametrize("seed", range(5))
def test_parts_are_joined(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(cells, "PART", 10)
    sent = [(3, False, b"c" * 25), (0, True, b"r" * 10), (-1, False, b"log"), (3, True, b"d" * 11)]
    blocks = [block for origin, passing, data in sent for block in parts(7, passing, origin, data)]
    assert len(blocks) == 7
    assert all(len(block[-1]) <= 10 for block in blocks)
    random.Random(seed).shuffle(blocks)
    frames: list[pd.DataFrame] = [block_frame(blocks[:2]), block_batch(blocks[2:]).to_pandas()]
    assert joined(frames) == ([b"log", b"c" * 25], [b"r" * 10, b"d" * 11])


@pytest.mark.parametrize("origins", [(3, 3), (4,)])
def test_parts_that_are_twice_or_missing_are_refused(origins: tuple[int, ...]) -> None:
    blocks = [(7, False, origin, 1 if origins == (4,) else 0, b"x") for origin in origins]
    with pytest.raises(StateError, match="not one sequence"):
        joined([block_frame(blocks)])


def test_nothing_gives_nothing() -> None:
    assert joined([]) == ([], [])
