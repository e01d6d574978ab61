"""Key table: a hash table from key rows to small dense ids that are recycled.

Operators resolve the keys of a whole batch to ids first; their kernels then index flat
arrays by id. Ids stay valid until released; per-id arrays of an operator are expected to be
clean (as after creation) when an id is released. A place of the table holds an id and, above
it, the upper half of its key's hash: other keys are passed over without being read.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.kernels.jit import kernel
from penstock.kernels.memory import AHEAD, prefetch
from penstock.kernels.rows import hash_key
from penstock.state.arena import Scope

_USED, _FREE, _TOMBS = 0, 1, 2  # registers: ids ever used, ids on the free stack, tombstones
_EMPTY, _TOMB = -1, -2  # places without an id: never used, given back
_ID = (1 << 32) - 1  # bits of a place that are the id
_TAG = ~_ID  # bits of a place that are of its key's hash


@kernel
def _same(a: I64, i: int, b: I64, j: int) -> bool:
    for c in range(a.shape[1]):
        if a[i, c] != b[j, c]:
            return False
    return True


@kernel
def hash_all(keys: I64) -> I64:
    """The hash of each key."""
    out = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        out[i] = hash_key(keys, i)
    return out


@kernel
def assign_ids(keys: I64, table: I64, stored: I64, free: I64, regs: I64) -> I64:
    """Id of each key, inserting new ones. The table must have room for all of them."""
    n = keys.shape[0]
    mask = table.shape[0] - 1
    out = np.empty(n, np.int64)
    hashes = hash_all(keys)
    for i in range(n):
        prefetch(table, 0, hashes[min(i + 2 * AHEAD, n - 1)] & mask)
        prefetch(stored, max(table[hashes[min(i + AHEAD, n - 1)] & mask], 0) & _ID, 0)
        tag, pos, tomb = hashes[i] & _TAG, hashes[i] & mask, -1
        while True:
            found = table[pos]
            entry = found & _ID
            if found == _EMPTY:
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
                table[pos] = tag | entry
                break
            if found == tag | entry and _same(keys, i, stored, entry):
                break
            if found == _TOMB and tomb < 0:
                tomb = pos
            pos = (pos + 1) & mask
        out[i] = entry
    return out


@kernel
def find_ids(keys: I64, table: I64, stored: I64) -> I64:
    """Id of each key, −1 when absent."""
    n = keys.shape[0]
    mask = table.shape[0] - 1
    out = np.empty(n, np.int64)
    hashes = hash_all(keys)
    for i in range(n):
        prefetch(table, 0, hashes[min(i + 2 * AHEAD, n - 1)] & mask)
        prefetch(stored, max(table[hashes[min(i + AHEAD, n - 1)] & mask], 0) & _ID, 0)
        tag, pos = hashes[i] & _TAG, hashes[i] & mask
        while True:
            found = table[pos]
            entry = found & _ID
            if found == tag | entry and _same(keys, i, stored, entry):
                break
            if found == _EMPTY:
                entry = -1
                break
            pos = (pos + 1) & mask
        out[i] = entry
    return out


@kernel
def release_ids(ids: I64, table: I64, stored: I64, free: I64, regs: I64) -> None:
    """Forget the keys of `ids` (each at most once) and recycle them."""
    n = ids.shape[0]
    mask = table.shape[0] - 1
    hashes = np.empty(n, np.int64)
    for k in range(n):
        prefetch(stored, ids[min(k + AHEAD, n - 1)], 0)
        hashes[k] = hash_key(stored, ids[k])
    for k in range(n):
        prefetch(table, 0, hashes[min(k + AHEAD, n - 1)] & mask)
        tag, pos = hashes[k] & _TAG, hashes[k] & mask
        while table[pos] != tag | ids[k]:
            pos = (pos + 1) & mask
        if table[(pos + 1) & mask] == _EMPTY:
            table[pos] = _EMPTY
        else:
            table[pos] = _TOMB
            regs[_TOMBS] += 1
        free[regs[_FREE]] = ids[k]
        regs[_FREE] += 1


@kernel
def rebuild_table(table: I64, stored: I64, live: I64) -> None:
    """Insert all `live` ids into the empty `table`."""
    mask = table.shape[0] - 1
    for k in range(live.shape[0]):
        hashed = hash_key(stored, live[k])
        pos = hashed & mask
        while table[pos] != _EMPTY:
            pos = (pos + 1) & mask
        table[pos] = (hashed & _TAG) | live[k]


class KeyTable:
    """Keys of `width` int64 words to dense ids, in the arena."""

    def __init__(self, scope: Scope, width: int) -> None:
        self._scope = scope
        scope.array("table", 64, fill=_EMPTY)
        scope.array("keys", (32, width))
        scope.array("free", 32)
        scope.array("regs", 3)

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
        table = np.full(size, _EMPTY, np.int64)
        rebuild_table(table, self.keys, self.live())
        self._scope["table"] = table
        regs[_TOMBS] = 0
