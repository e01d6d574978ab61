"""Key table: a hash table from key rows to small dense ids that are recycled.

Operators resolve the keys of a whole batch to ids first; their kernels then index flat
arrays by id. Ids stay valid until released; per-id arrays of an operator are expected to be
clean (as after creation) when an id is released.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.delta import I64
from penstock.kernels.jit import kernel
from penstock.kernels.rows import hash_key
from penstock.state.arena import Scope

_USED, _FREE, _TOMBS = 0, 1, 2  # registers: ids ever used, ids on the free stack, tombstones
_SINK = 3  # what was read ahead ends here, so that the compiler keeps the reads
_AHEAD = 128  # keys whose places are read before they are probed: the misses overlap


@kernel
def _same(a: I64, i: int, b: I64, j: int) -> bool:
    for c in range(a.shape[1]):
        if a[i, c] != b[j, c]:
            return False
    return True


@kernel
def _read_ahead(keys: I64, base: int, top: int, table: I64, stored: I64, places: I64) -> int:
    """Places of keys[base:top] in the table; touches what probing will read, all at once."""
    mask = table.shape[0] - 1
    for i in range(base, top):
        places[i - base] = hash_key(keys, i) & mask
    sink = 0
    for i in range(base, top):
        entry = table[places[i - base]]
        if entry >= 0:
            sink ^= stored[entry, 0]
    return sink


@kernel
def assign_ids(keys: I64, table: I64, stored: I64, free: I64, regs: I64) -> I64:
    """Id of each key, inserting new ones. The table must have room for all of them."""
    n = keys.shape[0]
    mask = table.shape[0] - 1
    out = np.empty(n, np.int64)
    places = np.empty(_AHEAD, np.int64)
    for i in range(n):
        if i % _AHEAD == 0:
            regs[_SINK] = _read_ahead(keys, i, min(i + _AHEAD, n), table, stored, places)
        pos = places[i % _AHEAD]
        tomb = -1
        while True:
            entry = table[pos]
            if entry == -1:
                if regs[_FREE] > 0:
                    regs[_FREE] -= 1
                    entry = free[regs[_FREE]]
                else:
                    entry = regs[_USED]
                    regs[_USED] += 1
                for c in range(keys.shape[1]):
                    stored[entry, c] = keys[i, c]
                if tomb >= 0:
                    pos = tomb
                    regs[_TOMBS] -= 1
                table[pos] = entry
                break
            if entry == -2:
                if tomb < 0:
                    tomb = pos
            elif _same(keys, i, stored, entry):
                break
            pos = (pos + 1) & mask
        out[i] = entry
    return out


@kernel
def find_ids(keys: I64, table: I64, stored: I64) -> I64:
    """Id of each key, −1 when absent."""
    n = keys.shape[0]
    mask = table.shape[0] - 1
    out = np.empty(n, np.int64)
    for i in range(n):
        pos = hash_key(keys, i) & mask
        while True:
            entry = table[pos]
            if entry == -1 or (entry >= 0 and _same(keys, i, stored, entry)):
                out[i] = entry
                break
            pos = (pos + 1) & mask
    return out


@kernel
def release_ids(ids: I64, table: I64, stored: I64, free: I64, regs: I64) -> None:
    """Forget the keys of `ids` (each at most once) and recycle them."""
    mask = table.shape[0] - 1
    for k in range(ids.shape[0]):
        gone = ids[k]
        pos = hash_key(stored, gone) & mask
        while table[pos] != gone:
            pos = (pos + 1) & mask
        if table[(pos + 1) & mask] == -1:
            table[pos] = -1
        else:
            table[pos] = -2
            regs[2] += 1
        free[regs[1]] = gone
        regs[1] += 1


@kernel
def rebuild_table(table: I64, stored: I64, live: I64) -> None:
    """Insert all `live` ids into the empty `table`."""
    mask = table.shape[0] - 1
    for k in range(live.shape[0]):
        pos = hash_key(stored, live[k]) & mask
        while table[pos] != -1:
            pos = (pos + 1) & mask
        table[pos] = live[k]


class KeyTable:
    """Keys of `width` int64 words to dense ids, in the arena."""

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("table", 64, fill=-1)
        scope.array("keys", (32, width))
        scope.array("free", 32)
        scope.array("regs", 4)

    def _arr(self, name: str) -> I64:
        return cast(I64, self._scope[name])

    @property
    def keys(self) -> I64:
        """Key of each id, row-major."""
        return self._arr("keys")

    @property
    def capacity(self) -> int:
        """Ids are below this."""
        return self.keys.shape[0]

    def __len__(self) -> int:
        regs = self._arr("regs")
        return int(regs[_USED] - regs[_FREE])

    def live(self) -> I64:
        """All ids in use, ascending."""
        regs = self._arr("regs")
        mask = np.ones(regs[_USED], np.bool_)
        mask[self._arr("free")[: regs[_FREE]]] = False
        return np.flatnonzero(mask)

    def assign(self, keys: I64) -> I64:
        """Ids of `keys` (n × width), inserting those that are new."""
        self._make_room(keys.shape[0])
        return assign_ids(keys, self._arr("table"), self.keys, self._arr("free"), self._arr("regs"))

    def find(self, keys: I64) -> I64:
        """Ids of `keys`, −1 where absent."""
        return find_ids(keys, self._arr("table"), self.keys)

    def release(self, ids: I64) -> None:
        """Recycle `ids` (distinct, in use)."""
        if ids.shape[0]:
            release_ids(ids, self._arr("table"), self.keys, self._arr("free"), self._arr("regs"))

    def _make_room(self, more: int) -> None:
        regs = self._arr("regs")
        need = int(regs[_USED]) + max(0, more - int(regs[_FREE]))
        self._scope.reserve("keys", need)
        self._scope.reserve("free", self.capacity)
        table = self._arr("table")
        if 2 * (len(self) + more + int(regs[_TOMBS])) <= table.shape[0]:
            return
        size = 64
        while size < 3 * (len(self) + more):
            size *= 2
        table = np.full(size, -1, np.int64)
        rebuild_table(table, self.keys, self.live())
        self._scope["table"] = table
        regs[_TOMBS] = 0
