"""Arenas as bytes: whole, the same wherever the arrays live, cheap where they are zero."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import StateError
from penstock.state.arena import Arena
from penstock.state.arena_files import FileArena, commit, create
from penstock.state.arena_pack import CHUNK, LARGE, pack, unpack

MIB = 1 << 20


def fill(arena, noise=9 * MIB):
    rng = np.random.default_rng(0)
    scope = arena.scope("s/ö\n")
    scope.array("noise", noise, np.uint8)[:] = rng.integers(0, 256, noise)
    holes = scope.array("holes", (4 * MIB, 8))
    for row in (0, MIB + 5, 4 * MIB - 1):
        holes[row] = row + 1
    scope.array("zero", 8 * MIB)
    scope["columns"] = np.asfortranarray(rng.integers(0, 9, (3, LARGE)))
    scope["few_columns"] = np.asfortranarray(rng.integers(0, 9, (3, 5)))
    for i in range(50):
        scope.array(f"small{i}", i, np.int16)[:] = i
    scope.array("flags", (5, 3), np.bool_, 1)
    scope.array("floats", 7, np.float64)[:] = [0.0, -0.0, np.nan, np.inf, 1, 2, 3]
    scope["scalar"] = np.array(5)
    return arena


def content(arena):
    return {n: (a.dtype, a.shape, a.tobytes()) for n, a in arena.arrays().items()}


@pytest.mark.parametrize("target", [Arena, FileArena, "file"])
def test_what_was_packed_is_unpacked(tmp_path, target):
    arena = fill(Arena())
    copy = create(tmp_path) if target == "file" else target()
    copy.scope("s").array("before", LARGE)
    unpack(pack(arena), copy)
    assert content(copy) == content(arena)
    copy.scope("s/ö\n")["small3"][:] = 7  # an array like any other
    copy.scope("s/ö\n")["holes"][9] = 7


def test_nothing_is_something(tmp_path):
    full = fill(Arena())
    unpack(pack(Arena()), full)
    assert content(full) == {}


def test_large_arrays_only():
    arena, copy = Arena(), Arena()
    arena.scope("s").array("x", LARGE)
    unpack(pack(arena), copy)
    assert content(copy) == content(arena)


def test_bytes_depend_on_content_only(tmp_path):
    heap = fill(Arena())
    packed = list(pack(heap))
    assert list(pack(fill(create(tmp_path)))) == packed
    other = Arena()
    for name in sorted(heap.names(), reverse=True):
        other.scope(name.rsplit("/", 1)[0])[name.rsplit("/", 1)[1]] = heap.arrays()[name]
    assert list(pack(other)) == packed


def test_chunks_are_full_but_not_too_large():
    sizes = [len(chunk) for chunk in pack(fill(Arena(), 30 * MIB))]
    assert max(sizes) <= CHUNK
    assert min(sizes[:-1]) > CHUNK - 2 * MIB


def test_zeros_cost_nothing_and_holes_stay_holes(tmp_path):
    arena = create(tmp_path)
    arena.scope("s").array("x", 128 * MIB // 8)[:100] = 1
    path = arena._folder.path / "0.array"
    assert sum(map(len, pack(arena))) < 10_000
    assert path.stat().st_blocks * 512 < 2 * MIB
    copy = create(tmp_path)
    unpack(pack(arena), copy)
    assert (copy._folder.path / "0.array").stat().st_blocks * 512 < 2 * MIB


def test_unpacked_files_survive_the_commit(tmp_path):
    arena = create(tmp_path)
    unpack(pack(fill(Arena())), arena)
    names = sorted(p.name for p in arena._folder.path.iterdir())
    commit(arena, "n", b"")
    (ready,) = tmp_path.iterdir()
    assert sorted(p.name for p in ready.iterdir()) == [*names, "contents"]


@pytest.mark.parametrize("lost", [0, 1, -1])
def test_what_is_not_whole_is_refused(lost):
    chunks = list(pack(fill(Arena())))
    copy = fill(Arena(), LARGE)
    before = content(copy)
    del chunks[lost]
    with pytest.raises(StateError) as caught:
        unpack(chunks, copy)
    assert caught.value.code == "PS-STATE-003"
    assert content(copy) == before


@pytest.mark.parametrize("at", [10, 30, 100, -30])
def test_what_is_damaged_is_refused(at):
    chunks = list(pack(fill(Arena())))
    chunks[0] = chunks[0][:at] + bytes(20) + chunks[0][at:]
    with pytest.raises(StateError):
        unpack(chunks, Arena())
