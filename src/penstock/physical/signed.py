"""Turns the rows of counting operators into signed events of ids.

A `SignedInput` stores the id of each row until the row expires, in the store that its spec names. A
kernel then reads four streams in time order: expirations and arrivals of both inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta
from penstock.kernels.rows import gather_rows, key_rows
from penstock.physical.expiry import Kept
from penstock.physical.expiry_stores import is_due, make_store
from penstock.physical.operator import StringColumns
from penstock.schema import Schema
from penstock.state.arena import Scope
from penstock.state.keytable import KeyTable

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Expirations (a −1 event each) and arrivals of one input."""

    gone: I64
    gone_ids: I64
    ts: I64
    ids: I64
    step: I64
    exp: I64


NOTHING = Arrivals(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE)


@dataclass(frozen=True, slots=True)
class Events:
    """The four streams of both inputs, concatenated; `offsets` gives the start of each."""

    ts: I64
    ids: I64
    step: I64
    exp: I64
    offsets: I64


def streams(left: Arrivals, right: Arrivals) -> Events:
    """Concatenate left expirations, left arrivals, right expirations, right arrivals."""
    parts = (left.gone, left.ts, right.gone, right.ts)
    gone = (np.full(left.gone.shape, -1, np.int64), np.full(right.gone.shape, -1, np.int64))
    return Events(
        np.concatenate(parts),
        np.concatenate((left.gone_ids, left.ids, right.gone_ids, right.ids)),
        np.concatenate((gone[0], left.step, gone[1], right.step)),
        np.concatenate((left.gone, left.exp, right.gone, right.exp)),
        np.cumsum([0, *(p.shape[0] for p in parts)], dtype=np.int64),
    )


def alive(delta: Delta) -> Delta:
    """Drop the rows that expire by the time they come."""
    keep = delta.exp > delta.ts
    return delta if bool(keep.all()) else delta.take(keep)


class SignedInput:
    """One input of a counting operator."""

    def __init__(self, scope: Scope, kept: Kept) -> None:
        self._retracted = kept.retracted
        self._store = make_store(scope, kept, 1)

    def __len__(self) -> int:
        return 0 if self._store is None else len(self._store)

    def due(self, until: int) -> bool:
        """Whether a row may expire by `until`."""
        return is_due(self._store, until)

    def apply(self, delta: Delta, ids: I64, clock: Clock) -> Arrivals:
        """Store the ids of arrivals; take out retracted and expired entries."""
        if not self._retracted:
            step = np.ones(len(delta), np.int64)
            if self._store is not None:
                self._store.add(delta.exp, ids.reshape(-1, 1))
        else:
            step, delta, ids = self._apply_signed(delta, ids)
        if self._store is None:
            return Arrivals(_NONE, _NONE, delta.ts, ids, step, delta.exp)
        gone, words = self._store.expire(clock.now)
        gone = clock.instants(gone)
        return Arrivals(gone, words.reshape(-1), delta.ts, ids, step, delta.exp)

    def _apply_signed(self, delta: Delta, ids: I64) -> tuple[I64, Delta, I64]:
        minus = delta.sign < 0
        if bool(minus.any()):
            # At one instant additions come first: a list must hold a row before the row is taken
            # from it, and taking it back then finds a row that has not been shown yet.
            order = np.lexsort((minus, delta.ts))
            delta, ids, minus = delta.take(order), ids[order], minus[order]
        step = np.where(minus, np.int64(-1), np.int64(1))
        if self._store is not None:
            plus = ~minus
            self._store.add(delta.exp[plus], ids[plus].reshape(-1, 1))
            if bool(minus.any()):
                found = self._store.cancel(delta.exp[minus], ids[minus].reshape(-1, 1))
                step[minus] = -found
        return step, delta, ids

    def forget(self, ids: I64) -> None:
        """Drop the entries of these ids."""
        if self._store is not None and ids.shape[0]:
            _, words = self._store.entries()
            self._store.filter(np.flatnonzero(~np.isin(words.reshape(-1), ids)))


def row_ids(keys: KeyTable, delta: Delta) -> I64:
    """Ids of whole rows."""
    columns = np.arange(delta.width, dtype=np.int64)
    return keys.assign(key_rows(delta.rows, delta.lin, columns))


def row_delta(keys: KeyTable, ids: I64, ts: I64, exp: I64, sign: I64) -> Delta:
    """The rows of these ids, as a delta."""
    words = gather_rows(keys.keys, np.ascontiguousarray(ids))
    return Delta(words[1:], ts, exp, sign.astype(np.int8), words[0])


def emitted(keys: KeyTable, out: I64) -> Delta:
    """Turn a kernel's output [id, ts, exp, sign] into a delta, in time order."""
    columns = np.ascontiguousarray(out.T)
    return row_delta(keys, columns[0], columns[1], columns[2], columns[3])


def live_rows(keys: KeyTable, ids: I64, exp: I64 | None, clock: Clock) -> Delta:
    """The rows of these ids as live rows at the clock."""
    now = np.full(ids.shape, clock.now, np.int64)
    ends = np.full(ids.shape, NEVER, np.int64) if exp is None else exp
    return row_delta(keys, ids, now, ends, np.ones(ids.shape, np.int64))


def ids_of_lins(keys: KeyTable, lins: I64) -> I64:
    """Ids of rows with one of these lineages."""
    live = keys.live()
    return live[np.isin(keys.keys[live, 0], lins)]


def key_strings(scope: Scope, schema: Schema) -> list[StringColumns]:
    """Where a key table of whole rows holds string codes."""
    columns = tuple(2 + c for c in schema.string_columns)
    return [StringColumns(f"{scope.prefix}/keys", columns)] if columns else []
