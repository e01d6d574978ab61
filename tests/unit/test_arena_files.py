"""The arena in files: same semantics as on the heap, handed between processes, never torn."""

from __future__ import annotations

import multiprocessing as mp
import os
from contextlib import contextmanager

import numpy as np
import pytest

import penstock
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.errors import StateError
from penstock.state import arena_files
from penstock.state.arena import Arena
from penstock.state.arena_files import FileArena, abandon, claim, commit, create, sweep
from penstock.state.arena_pack import LARGE
from penstock.state.mapped import file_of

SPAWN = mp.get_context("spawn")
BIG = LARGE // 8  # int64 words that make an array large


def folders(directory):
    return sorted(p.name.split("-")[0] for p in directory.iterdir())


def files(arena):
    return {p.name for p in arena._folder.path.iterdir()} - {"contents"}


def number(arena, name):
    return file_of(arena.arrays()[name], arena._series)


def same(one, other):
    assert list(one.names()) == list(other.names())
    for name, array in one.arrays().items():
        found = other.arrays()[name]
        assert (array.dtype, array.shape) == (found.dtype, found.shape), name
        np.testing.assert_array_equal(array, found, err_msg=name)


# ---- one process -----------------------------------------------------------------------


def test_large_arrays_are_sparse_files_and_small_ones_are_not(tmp_path):
    arena = create(tmp_path)
    scope = arena.scope("a/b")
    scope.array("small", BIG - 1)
    large = scope.array("large", (1 << 20, 8))
    assert (number(arena, "a/b/small"), number(arena, "a/b/large")) == (-1, 0)
    large[0] = 1
    stat = (arena._folder.path / "0.array").stat()
    assert stat.st_size == 64 << 20
    assert stat.st_blocks * 512 < 1 << 20


def test_growing_replacing_and_freeing_delete_files(tmp_path):
    arena = create(tmp_path)
    scope = arena.scope("s")
    old = scope.array("x", BIG, fill=3)
    grown = scope.reserve("x", BIG + 1, fill=4)
    assert grown.shape == (2 * BIG,)
    assert grown[[0, -1]].tolist() == [3, 4]
    assert old[0] == 3  # who still looks at it may
    assert files(arena) == {"1.array"}
    scope["x"] = np.ones(BIG, np.int64)
    assert files(arena) == set()
    scope.array("y", BIG)
    scope.free()
    assert files(arena) == set()


def test_heap_arrays_move_to_files_at_commit_and_unused_files_go(tmp_path):
    arena = create(tmp_path)
    arena.scope("s")["x"] = np.arange(BIG)
    arena.scope("s")["part"] = arena.scope("s").array("whole", 3 * BIG)[: 2 * BIG]
    arena.scope("s")["alias"] = arena.scope("s")["whole"]
    arena.zeros(BIG, np.int64)  # never stored
    commit(arena, "n", b"")
    got = claim(tmp_path, "n", None).arena
    same(got, arena)
    numbers = {number(got, f"s/{name}") for name in ("x", "part", "whole", "alias")}
    assert files(got) == {f"{n}.array" for n in numbers}
    assert len(numbers) == 4


def test_an_unchanged_arena_is_neither_read_nor_copied(tmp_path, monkeypatch):
    arena = create(tmp_path)
    arena.scope("s").array("x", BIG)
    arena.scope("s").array("small", 4)
    commit(arena, "n", b"config")
    before = dict(arena.arrays())
    monkeypatch.setattr(FileArena, "_read", None)
    got = claim(tmp_path, "n", arena)
    assert got.arena is arena
    assert got.config == b"config"
    commit(arena, "m", b"")
    assert all(arena.arrays()[name] is array for name, array in before.items())


def test_mappings_of_unchanged_files_are_kept(tmp_path):
    first = create(tmp_path)
    scope = first.scope("s")
    scope.array("stays", BIG)
    scope.array("grows", BIG)
    scope.array("small", 2)
    commit(first, "a", b"")
    stays = scope["stays"]
    second = claim(tmp_path, "a", None).arena
    second.scope("s")["stays"][0] = 5
    second.scope("s")["small"][0] = 6
    second.scope("s").reserve("grows", BIG + 1)[-1] = 7
    commit(second, "b", b"new")
    got = claim(tmp_path, "b", first)
    assert got.config == b"new"
    assert scope["stays"] is stays  # the scope of before sees the arena of now
    assert (scope["stays"][0], scope["small"][0], scope["grows"][-1]) == (5, 6, 7)


def test_files_of_another_folder_are_not_taken_for_known_ones(tmp_path):
    for nonce, value in (("a", 1), ("b", 2)):
        arena = create(tmp_path)
        arena.scope("s").array("x", BIG)[:] = value
        commit(arena, nonce, b"")
    cached = claim(tmp_path, "a", None).arena
    got = claim(tmp_path, "b", cached).arena
    assert got.scope("s")["x"][0] == 2


@pytest.mark.parametrize("nonce", ["", "../x", "a/b", "a b"])
def test_a_nonce_is_a_plain_word(tmp_path, nonce):
    with pytest.raises(StateError):
        claim(tmp_path, nonce, None)


def test_what_cannot_be_claimed(tmp_path):
    assert claim(tmp_path / "nowhere", "n", None) is None
    arena = create(tmp_path)
    arena.scope("s").array("x", BIG)
    commit(arena, "n", b"")
    assert claim(tmp_path, "other", arena) is None
    held = claim(tmp_path, "n", None)
    assert claim(tmp_path, "n", arena) is None
    assert arena.scope("s")["x"].shape == (BIG,)
    abandon(held.arena)
    assert claim(tmp_path, "n", arena) is None
    assert folders(tmp_path) == []
    with pytest.raises(StateError, match="not claimed"):
        commit(held.arena, "m", b"")


def test_a_failed_step_leaves_nothing_to_claim(tmp_path):
    arena = create(tmp_path)
    arena.scope("s").array("x", BIG)
    commit(arena, "n", b"")
    claim(tmp_path, "n", arena)  # a step that fails
    assert claim(tmp_path, "n", arena) is None
    assert folders(tmp_path) == []


@pytest.mark.parametrize("name", ["contents", "0.array"])
@pytest.mark.parametrize("size", [None, 0, 50, LARGE - 1])
def test_a_torn_folder_is_not_trusted(tmp_path, name, size):
    arena = create(tmp_path)
    arena.scope("s").array("x", BIG)
    arena.scope("s").array("small", BIG - 1)
    commit(arena, "n", b"")
    path = next(tmp_path.iterdir()) / name
    path.unlink() if size is None else os.truncate(path, size)
    assert claim(tmp_path, "n", None) is None
    assert folders(tmp_path) == []


def test_names_of_before_a_restart_of_the_machine_do_not_count(tmp_path, monkeypatch):
    commit(create(tmp_path), "n", b"")
    monkeypatch.setattr(arena_files, "_BOOT", "later")
    assert claim(tmp_path, "n", None) is None


def test_sweep(tmp_path):
    for nonce in ("old", "new"):
        commit(create(tmp_path), nonce, b"")
    held = create(tmp_path)
    (tmp_path / "claim-dead").mkdir()
    sweep(tmp_path, {"new"})
    assert folders(tmp_path) == ["claim", "claim", "ready"]  # a claim that young may be alive
    sweep(tmp_path, {"new"}, older=0)
    assert folders(tmp_path) == ["claim", "ready"]
    commit(held, "mine", b"")
    assert claim(tmp_path, "new", None) is not None


def test_without_space_arrays_stay_on_the_heap_and_commit_says_so(tmp_path, monkeypatch):
    arena = create(tmp_path)
    monkeypatch.setattr(arena_files, "_ROOM", 1 << 62)
    array = arena.scope("s").array("x", BIG)
    array[:] = 1
    assert number(arena, "s/x") == -1
    with pytest.raises(OSError, match="space"):
        commit(arena, "n", b"")
    assert claim(tmp_path, "n", None) is None
    abandon(arena)
    assert folders(tmp_path) == []


def test_mappings_hold_no_file_open(tmp_path):
    arena = create(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for i in range(20):
        arena.scope("s").array(str(i), BIG)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_operations_is_as_on_the_heap(tmp_path, seed):
    rng = np.random.default_rng(seed)
    heap, arenas = Arena(), [create(tmp_path), None]
    saved, nonce = heap.snapshot(), 0
    for _ in range(150):
        both = (heap, arenas[0])
        scope, name = f"s{rng.integers(3)}/t", f"a/{rng.integers(4)}"
        size, fill = int(rng.integers(1, 3 * BIG)), int(rng.integers(-1, 2))
        kind = rng.choice(["array", "reserve", "set", "write", "free", "save", "restore", "commit"])
        for arena in both:
            s = arena.scope(scope)
            if kind == "array":
                s.array(name, (size, 2), np.int32, fill)
            elif kind == "set":
                s[name] = np.full((size, 2), fill, np.int32)
            elif kind == "reserve" and name in s:
                s.reserve(name, size, fill)
            elif kind == "write" and name in s:
                s[name][size % s[name].shape[0] :] = size
            elif kind == "free" and fill > 0:
                s.free()
            elif kind == "restore":
                arena.restore(saved)
        if kind == "save":
            saved = heap.snapshot()
        elif kind == "commit":  # and go on with the other arena of this directory
            nonce += 1
            commit(arenas[0], f"n{nonce}", b"")
            arenas.reverse()
            arenas[0] = claim(tmp_path, f"n{nonce}", arenas[0]).arena
        same(heap, arenas[0])
        assert heap.nbytes == arenas[0].nbytes
    assert nonce > 5


# ---- real processes --------------------------------------------------------------------


def serve(pipe, directory):
    """Claim, change and commit as told; `cached` lives as long as the process."""
    cached = None
    while True:
        try:
            what, nonce, new = pipe.recv()
        except EOFError:
            return
        got = claim(directory, nonce, cached)
        if got is None:
            pipe.send(None)
            continue
        if what == "die":
            os._exit(7)
        cached = got.arena
        pipe.send({name: (a.shape, int(a.sum())) for name, a in cached.arrays().items()})
        if what == "step":
            scope = cached.scope("s")
            scope.reserve("x", scope["x"].shape[0] + 1)[-1] = 10
            scope["x"][0] += 1
            scope["small"][0] += 1
        if what != "look":
            commit(cached, new, new.encode())


@contextmanager
def helper(directory):
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=serve, args=(theirs, directory), daemon=True)
    process.start()
    theirs.close()  # so that a helper that dies ends the wait for its answer
    try:
        yield ours, process
    finally:
        ours.close()
        process.join(60)


def started(directory):
    arena = create(directory)
    arena.scope("s").array("x", BIG)
    arena.scope("s").array("small", 3)
    commit(arena, "n0", b"")
    return arena


def test_an_arena_goes_back_and_forth_between_processes(tmp_path):
    arena = started(tmp_path)
    with helper(tmp_path) as (pipe, _):
        for turn in range(3):
            pipe.send(("step", f"n{turn}", f"m{turn}"))
            expected = {"s/x": ((BIG << 2 * turn,), 22 * turn), "s/small": ((3,), 2 * turn)}
            assert pipe.recv() == expected
            pipe.send(("look", "wrong", ""))  # answered when the step before is committed
            assert pipe.recv() is None
            got = claim(tmp_path, f"m{turn}", arena)
            assert got.config == f"m{turn}".encode()
            x = arena.scope("s").reserve("x", (BIG << 2 * turn + 1) + 1)
            x[0] += 1
            x[-1] = 10
            arena.scope("s")["small"][0] += 1
            commit(arena, f"n{turn + 1}", b"")
    assert folders(tmp_path) == ["ready"]


def test_one_of_two_racing_processes_wins_and_a_killed_one_leaves_nothing(tmp_path):
    arena = started(tmp_path)
    with helper(tmp_path) as (one, _), helper(tmp_path) as (two, process):
        nonce = "n0"
        for turn in range(20):
            new = f"r{turn}"
            for pipe in (one, two):
                pipe.send(("pass on", nonce, new))
            answers = [one.recv(), two.recv()]
            assert sorted(a is None for a in answers) == [False, True]
            for pipe in (one, two):  # wait for the winner's commit
                pipe.send(("look", "wrong", ""))
                pipe.recv()
            nonce = new
        two.send(("die", nonce, ""))
        process.join(60)
        assert process.exitcode == 7
        assert claim(tmp_path, nonce, arena) is None
        assert folders(tmp_path) == ["claim"]
        sweep(tmp_path, {nonce}, older=0)
        assert folders(tmp_path) == []


# ---- an engine -------------------------------------------------------------------------

QUERIES = (
    "SELECT r.k, r.a, s.a AS b FROM r [RANGE 300] JOIN s [RANGE 200] ON r.k = s.k WHERE r.a > 10",
    "SELECT k, count(*) AS n, sum(a) AS s, max(a) AS m FROM r [RANGE 400] GROUP BY k",
    "SELECT k FROM r [RANGE 500] EXCEPT SELECT k FROM s [RANGE 300]",
    "SELECT * FROM r [RANGE 2000] WHERE a > 50",
)


def recorded_steps():
    """Blocks that make the operators, and the steps after them."""
    steps = []
    with penstock.connect(runner="inprocess") as ps:
        apply = ps._books.engine.apply

        def record(blocks):
            steps.append(blocks)
            return apply(blocks)

        ps._books.engine.apply = record
        for stream in "rs":
            ps.sql(f"CREATE STREAM {stream} (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        for text in QUERIES:
            ps.query(text)
        rng = np.random.default_rng(1)
        for turn in range(6):
            for stream in "rs":
                n = 3000
                ts = np.sort(rng.integers(250 * turn, 250 * (turn + 1), n))
                k, a = rng.integers(0, 3000, n), rng.integers(0, 100, n)
                rows = [{"k": x, "a": y, "ts": t} for x, y, t in zip(k, a, ts, strict=True)]
                ps.push(stream, rows)
    builds = (b.AddStream, b.AddTable, b.AddTemplate)
    return [x for step in steps for x in step if isinstance(x, builds)], steps


def rebuilt(arena, make):
    with arena.aside():
        engine = Engine(arena)
        engine.apply(make)
    return engine


def changes(output):
    return [
        (key, *(getattr(c, name).tolist() for name in ("rows", "time", "kind", "qid")))
        for key, c in output.changes
    ]


def test_an_engine_on_files_goes_on_where_another_stopped(tmp_path):
    make, steps = recorded_steps()
    setup = next(i for i, step in enumerate(steps) if isinstance(step[0], b.Rows))
    plain, first = Engine(), Engine(create(tmp_path))
    for step in steps[:setup]:
        assert changes(first.apply(step)) == changes(plain.apply(step))
    commit(first.arena, "n0", b"")
    engines, rows = [first, None], 0
    for turn, step in enumerate(steps[setup:]):
        engine = engines[turn % 2]
        got = claim(tmp_path, f"n{turn}", engine.arena if engine else None)
        if engine is None:
            engine = engines[turn % 2] = rebuilt(got.arena, make)
        expected, found = plain.apply(step), engine.apply(step)
        assert expected.batch == found.batch
        assert changes(expected) == changes(found)
        rows += sum(len(c) for _, c in found.changes)
        same(plain.arena, engine.arena)
        commit(engine.arena, f"n{turn + 1}", b"")
    assert rows > 10_000
    assert len(engines[0].arena._files) > 5
