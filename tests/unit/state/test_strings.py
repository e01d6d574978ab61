"""The string table against a Python model, with churn, collection and odd Arrow layouts."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.kernels import strings as kernels
from penstock.state.arena import Arena
from penstock.state.strings import StringTable

WORDS = ["", "a", "b", "é", "日本", "😀", "x" * 7, "x" * 8, "x" * 9, "y" * 1000, "a\0b", " "]


@pytest.fixture
def table() -> StringTable:
    return StringTable(Arena().scope("strings"))


def test_empty_and_null_are_code_zero(table: StringTable) -> None:
    codes = table.intern(pa.array(["", None, "a", "", "a"]))
    assert codes.tolist() == [0, 0, 1, 0, 1]
    assert table.decode(codes, np.array([False, True, False, False, False])).to_pylist() == [
        "", None, "a", "", "a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "array",
    [
        pa.array(WORDS * 3),
        pa.array(WORDS * 3, pa.large_string()),
        pa.array([None, *WORDS, None])[1:9],
        pa.array([*WORDS, None] * 2).dictionary_encode()[3:20],
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", "b"])),
        pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], "str")),
        pa.chunked_array([["a", None], [], ["b", "a"]]),
        pa.array([], pa.string()),
        pa.array(["v", None, "a longer view than twelve"], pa.string_view()),
    ],
    ids=lambda a: str(a.type),
)
def test_round_trip(table: StringTable, array: pa.Array) -> None:
    want = array.to_pylist()
    null = np.array([v is None for v in want], np.bool_)
    assert table.decode(table.intern(array), null).to_pylist() == want


def test_all_null_column(table: StringTable) -> None:
    assert table.intern(pa.nulls(3)).tolist() == [0, 0, 0]
    assert table.intern(pa.nulls(2, pa.string())).tolist() == [0, 0]


def test_single_strings(table: StringTable) -> None:
    codes = [table.code(w) for w in WORDS]
    assert len(set(codes)) == len(WORDS) == len(table)
    assert [table.text(c) for c in codes] == WORDS
    assert [table.find(w) for w in WORDS] == codes
    assert table.find("nobody") == -1
    with pytest.raises(StateError):
        table.text(len(WORDS))


def test_huge_strings(table: StringTable) -> None:
    huge = ["é" * 5_000_000, "z" * 10_000_001]
    codes = table.intern(pa.array([*huge, "small", huge[0]]))
    assert codes[0] == codes[3]
    assert table.decode(codes[:3]).to_pylist() == [*huge, "small"]
    table.collect(np.zeros(1, np.bool_))
    assert len(table) == 1
    assert table.nbytes < 1_000_000


def test_offsets_beyond_32_bits(table: StringTable, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = table.intern(pa.array(WORDS))
    monkeypatch.setattr("penstock.state.strings._INT32_MAX", 100)
    wide = table.decode(codes)
    assert wide.type == pa.large_string()
    assert wide.to_pylist() == WORDS
    assert table.intern(wide).tolist() == codes.tolist()


def test_order_is_that_of_the_bytes(table: StringTable) -> None:
    words = [*WORDS, "x" * 16 + "a", "x" * 16 + "b", "x" * 16]
    codes = np.array([table.code(w) for w in words])
    for function in (kernels.compare_codes, kernels.compare_codes.py_func):  # type: ignore[attr-defined]
        got = function(np.repeat(codes, len(words)), np.tile(codes, len(words)), *table.arrays())
        keys = [w.encode() for w in words]
        assert got.tolist() == [(a > b) - (a < b) for a in keys for b in keys]
    one = kernels.compare_codes(codes, codes[:1], *table.arrays())
    assert one.tolist() == [int(w != "") for w in words]


def test_interning_twin() -> None:
    rng = random.Random(3)
    words = [rng.choice(WORDS) + str(rng.randrange(9)) for _ in range(60)]
    arena = Arena()
    table = StringTable(arena.scope("s"))
    codes = table.intern(pa.array(words))
    arrays = {
        "table": np.zeros(256, np.int64), "starts": np.zeros(64, np.int64),
        "lengths": np.zeros(64, np.int64), "heap": np.zeros(1 << 16, np.uint8),
        "free": np.zeros(64, np.int64), "regs": np.zeros(8, np.int64),
    }  # fmt: skip
    arrays["regs"][kernels.USED] = 1
    data = np.frombuffer("".join(words).encode(), np.uint8)
    offsets = np.cumsum([0, *(len(w.encode()) for w in words)])
    out = np.empty(60, np.int64)
    valid = np.empty(0, np.bool_)
    with np.errstate(over="ignore"):
        end = kernels.intern_utf8.py_func(offsets, data, valid, 0, *arrays.values(), out)  # type: ignore[attr-defined]
    assert end == 60
    assert out.tolist() == codes.tolist()


def test_snapshot_holds_everything() -> None:
    arena = Arena()
    table = StringTable(arena.scope("s"))
    codes = table.intern(pa.array(WORDS))
    image = arena.snapshot()
    table.intern(pa.array([f"later {i}" for i in range(500)]))
    arena.restore(image)
    again = StringTable(arena.scope("s"))
    assert again.decode(codes).to_pylist() == WORDS
    assert len(again) == len(WORDS)


@pytest.mark.parametrize("seed", range(4))
def test_churn_against_a_model(table: StringTable, seed: int) -> None:
    rng = random.Random(seed)
    model: dict[str, int] = {"": 0}
    for _ in range(30):
        words = [f"{'k' * rng.randrange(12)}{rng.randrange(400)}" for _ in range(200)]
        words += [rng.choice(list(model)) for _ in range(20)]
        for word, code in zip(words, table.intern(pa.array(words)).tolist(), strict=True):
            assert model.setdefault(word, code) == code
        assert len(set(model.values())) == len(model) == len(table)
        if rng.random() < 0.4:
            kept = {w for w in model if not w or rng.random() < rng.choice([0.1, 0.9])}
            marks = np.zeros(table.capacity, np.bool_)
            marks[[model[w] for w in kept]] = True
            assert table.collect(marks) == len(model) - len(kept)
            model = {w: c for w, c in model.items() if w in kept}
        codes = np.array(list(model.values()))
        assert table.decode(codes).to_pylist() == list(model)
        assert all(table.find(w) == c for w, c in model.items())


def test_room_is_made_for_what_a_batch_is_likely_to_bring(
    table: StringTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, make_room = [], StringTable._make_room

    def count(self: StringTable, *args: int) -> None:
        calls.append(args)
        make_room(self, *args)

    monkeypatch.setattr(StringTable, "_make_room", count)
    words = [f"{i:x}" * 100 for i in range(3000)]
    codes = table.intern(pa.array(words))
    assert table.decode(codes).to_pylist() == words
    assert len(calls) < 9
    few = StringTable(Arena().scope("strings"))
    few.intern(pa.array([f"word {i % 90}" for i in range(100_000)]))
    assert few.nbytes < 1 << 16


def test_codes_are_recycled_and_the_heap_shrinks(table: StringTable) -> None:
    for batch in range(20):
        table.intern(pa.array([f"batch {batch} row {i}" for i in range(5000)]))
        table.collect(np.zeros(0, np.bool_))
    assert table.capacity <= 5001
    assert table.nbytes < 2_000_000


def test_collects_only_after_growth(table: StringTable) -> None:
    assert not table.should_collect()
    codes = table.intern(pa.array([str(i) for i in range(10_000)]))
    assert table.should_collect()
    marks = np.zeros(table.capacity, np.bool_)
    marks[codes] = True
    table.collect(marks)
    assert not table.should_collect()
    table.intern(pa.array([str(i) for i in range(19_000)]))
    assert not table.should_collect()
    table.code("z" * 3_000_000)
    assert table.should_collect()
