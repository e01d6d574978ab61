"""Key table against a dictionary, under churn."""

import numpy as np
import pytest

from penstock.state.arena import Arena
from penstock.state.keytable import KeyTable


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
