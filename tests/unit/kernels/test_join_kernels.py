"""Join kernels: equal to their uncompiled selves; bands and buckets at the edges of int64."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.delta import Delta
from penstock.kernels.join import partner_range
from penstock.kernels.join_keys import (
    equi_keys,
    float_buckets,
    float_probes,
    int_buckets,
    int_probes,
)
from penstock.state.arena import Arena
from penstock.state.join_side import JoinSide, compact_rows, release_chains
from penstock.state.keytable import KeyTable

TOP, BOTTOM = 2**63 - 1, -(2**63)
VALUES = [BOTTOM, BOTTOM + 1, -7, -1, 0, 1, 8, TOP - 1, TOP]


def delta(n: int, exp: np.ndarray, start: int = 0) -> Delta:
    rows = np.zeros((2, n), np.int64)
    rows[1] = np.arange(start, start + n)
    return Delta(rows, np.zeros(n, np.int64), exp, np.ones(n, np.int8), np.zeros(n, np.int64))


@pytest.mark.parametrize("low", [BOTTOM, -5, 0, 3, TOP - 2])
@pytest.mark.parametrize("high", [-(2**62), -1, 0, 5, TOP])
@pytest.mark.parametrize("is_left", [True, False])
def test_partner_range_is_exact(low: int, high: int, is_left: bool) -> None:
    for value in VALUES:
        lo, hi = partner_range(value, low, high, is_left)
        for other in VALUES:
            gap = other - value if is_left else value - other
            want = (low == BOTTOM or gap >= low) and (high == TOP or gap <= high)
            assert (lo <= other <= hi) == want


@pytest.mark.parametrize("is_left", [True, False])
def test_int_probes_cover_the_band(is_left: bool) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate((rng.integers(-50, 50, 200), np.array(VALUES)))
    lin = np.zeros(len(values), np.int64)
    low, high = -3, 4
    keys = int_buckets(values, lin, 8, False)[:, 0]
    probes, good = int_probes(values, lin, low, high, 8, is_left, False)
    for i, value in enumerate(values):
        chains = {int(k) for k in probes[2 * i : 2 * i + 2, 0][good[2 * i : 2 * i + 2]]}
        for j, other in enumerate(values):
            gap = int(other) - int(value)
            if low <= (gap if is_left else -gap) <= high:
                assert int(keys[j]) in chains


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9, 1e13, 1e16])
def test_float_probes_cover_the_band(is_left: bool, scale: float) -> None:
    rng = np.random.default_rng(1)
    floats = np.round(rng.normal(0, scale, 150), 1)
    low, high = -0.3, 0.1
    floats = np.concatenate((floats, floats + low, floats + high, floats - low, floats - high))
    values, lin = floats.view(np.int64), np.zeros(len(floats), np.int64)
    keys, _ = float_buckets(values, lin, high - low, False)
    probes, good = float_probes(values, lin, low, high, high - low, is_left, False)
    for i in range(len(floats)):
        gap = floats - floats[i] if is_left else floats[i] - floats
        chains = probes[3 * i : 3 * i + 3, 0][good[3 * i : 3 * i + 3]]
        assert np.isin(keys[(low <= gap) & (gap <= high), 0], chains).all()


def test_keys_carry_lineage_when_asked() -> None:
    rows = np.array([[0, 0], [1, 2], [3, 4]], np.int64)
    lin, columns = np.array([7, 8]), np.array([1, 0])
    assert equi_keys(rows, lin, columns, True).tolist() == [[7, 3, 1], [8, 4, 2]]
    assert equi_keys(rows, lin, columns, False).tolist() == [[3, 1], [4, 2]]
    assert equi_keys(rows, lin, columns[:0], False).shape == (2, 0)


def test_compaction_equals_its_uncompiled_self() -> None:
    rng = np.random.default_rng(2)
    sides = []
    for compact in (compact_rows, compact_rows.py_func):
        side = JoinSide(Arena().scope("s"), 1)
        side.reserve(32)
        rng = np.random.default_rng(2)
        side.append(delta(100, rng.integers(0, 20, 100)), rng.integers(0, 10, 100))
        log = (side.next, side.exp, side.state, side.chain, side.head, side.count)
        dropped = compact(*log, side.scope["regs"], 9)
        sides.append([dropped.tolist(), *(a.tolist() for a in (*log, side.scope["regs"]))])
    assert sides[0] == sides[1]


def test_disorder_is_noticed_and_forgotten() -> None:
    side = JoinSide(Arena().scope("s"), 1)
    side.reserve(32)
    side.append(delta(80, np.full(80, 50)), np.zeros(80, np.int64))
    assert not side.disordered
    side.append(delta(10, np.full(10, 40)), np.zeros(10, np.int64))
    assert side.disordered
    side.append(delta(10, np.full(10, 60)), np.zeros(10, np.int64))
    assert side.tidy(50).shape == (90,)
    assert not side.disordered
    assert len(side) == 10


def test_chains_are_recycled_once_both_sides_are_empty() -> None:
    arena = Arena()
    scope = arena.scope("keys")
    keys = KeyTable(scope, 1)
    left, right = JoinSide(arena.scope("l"), 1), JoinSide(arena.scope("r"), 1)
    ids = keys.assign(np.arange(9000).reshape(-1, 1))
    for side in (left, right):
        side.reserve(keys.capacity)
    left.append(delta(9000, np.full(9000, 5)), ids)
    right.append(delta(100, np.full(100, 9)), ids[:100])
    keys = release_chains(keys, scope, [left, right], left.tidy(6))
    assert len(keys) == 100
    assert keys.capacity < 4096  # rebuilt, ids renumbered on both sides
    assert keys.find(np.arange(100).reshape(-1, 1)).tolist() == right.chain[:100].tolist()
    keys = release_chains(keys, scope, [left, right], right.tidy(9))
    assert len(keys) == 0
