"""Key table against a dictionary, under churn."""

import numpy as np
import pytest

from penstock.state.arena import Arena
from penstock.state.keytable import KeyTable, hash_all


@pytest.mark.parametrize("seed", range(5))
def test_key_table_is_a_dictionary(seed):
    rng = np.random.default_rng(seed)
    arena = Arena()
    table = KeyTable(arena.scope("k"), 3)
    model: dict[tuple[int, ...], int] = {}
    for _ in range(120):
        keys = rng.integers(0, 60, (int(rng.integers(1, 400)), 3))
        keys[:, 1:] %= 3
        ids = table.assign(keys)
        for key, id_ in zip(map(tuple, keys.tolist()), ids.tolist(), strict=True):
            assert model.setdefault(key, id_) == id_
        assert len(set(model.values())) == len(model) == len(table)
        absent = keys.copy()
        absent[:, 0] += 1000
        assert (table.find(absent) == -1).all()
        assert table.find(keys).tolist() == ids.tolist()
        gone = rng.choice(sorted(model.values()), size=len(model) // 2, replace=False)
        table.release(gone.astype(np.int64))
        left = set(gone.tolist())
        model = {key: id_ for key, id_ in model.items() if id_ not in left}
        assert table.live().tolist() == sorted(model.values())
        if rng.random() < 0.2:
            arena.restore(arena.snapshot())
    assert table.capacity < 2000


def test_keys_whose_places_look_alike_are_told_apart():
    keys = np.random.default_rng(1).integers(0, 2**62, (2_000_000, 1))
    hashes = hash_all(keys)
    alike = (hashes >> 32 << 6) | (hashes & 63)  # what the table keeps, and the first place
    order = np.argsort(alike)
    same = np.flatnonzero(alike[order][1:] == alike[order][:-1])
    assert same.shape[0] > 0
    for i in same:
        table = KeyTable(Arena().scope("k"), 1)
        pair = keys[order[i : i + 2]]
        assert table.assign(pair).tolist() == [0, 1]
        assert table.find(pair).tolist() == [0, 1]
        table.release(np.array([0]))
        assert table.find(pair).tolist() == [-1, 1]
