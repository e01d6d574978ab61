"""Keep: stores the live rows of an input that has no state, for operators above that read them.

A query with history that joins an existing cohort needs the rows that the cohort already has. Level
2 can supply them only if it kept them (docs/design/0004-spark.md). A keep that tells what leaves by
−1 rows is EXPIRE: above it no row leaves silently (Ghanem et al. 2005, §4).
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, NEVER, Bool
from penstock.delta import Clock, Delta, merge
from penstock.kernels.changes import view_words
from penstock.physical.expiry_stores import ExpiryStore, make_store
from penstock.physical.operator import Operator, StringColumns
from penstock.physical.signed import alive
from penstock.physical.specs import KeepSpec
from penstock.state.arena import Scope


def keep_rows(store: ExpiryStore, delta: Delta, negatives: bool) -> None:
    """Add the +1 rows to the store as [lin, row…]; each −1 row removes one equal entry."""
    if not negatives:
        store.add_rows(delta.exp, delta.lin, delta.rows)
        return
    plus = np.flatnonzero(delta.sign > 0)
    minus = np.flatnonzero(delta.sign < 0)
    store.add(delta.exp[plus], view_words(delta.rows, delta.lin, plus))
    store.cancel(delta.exp[minus], view_words(delta.rows, delta.lin, minus))


def kept_rows(store: ExpiryStore, now: int, lins: I64 | None = None) -> Delta:
    """The stored rows (of some queries or cohorts, or all) as rows that arrive at `now`."""
    exp, words = store.entries()
    if lins is not None:
        mine = np.flatnonzero(_is_of(words, lins))
        exp, words = exp[mine], words[mine]
    return _to_rows(words, np.full(exp.shape[0], now), exp, 1)


def _to_rows(words: I64, ts: I64, exp: I64, sign: int) -> Delta:
    rows = np.ascontiguousarray(words[:, 1:].T)
    return Delta(rows, ts, exp, np.full(ts.shape[0], sign, np.int8), words[:, 0].copy())


def _never(n: int) -> I64:
    return np.full(n, NEVER, np.int64)


def forget_rows(store: ExpiryStore, lins: I64) -> None:
    """Remove the rows of some queries or cohorts."""
    _, words = store.entries()
    gone = _is_of(words, lins)
    if gone.any():
        store.filter(np.flatnonzero(~gone))


def _is_of(words: I64, lins: I64) -> Bool:
    return words[:, 0] == lins[0] if lins.shape[0] == 1 else np.isin(words[:, 0], lins)


class KeepOp(Operator):
    """Passes its input on and stores the rows that are alive; EXPIRE also says which leave."""

    def __init__(self, spec: KeepSpec, source: Operator, scope: Scope) -> None:
        super().__init__(spec, (source,), scope)
        (self._kept,) = spec.expiry.inputs
        self._tells = spec.expiry.tells
        store = make_store(scope.scope("store"), self._kept, 2 + len(source.edge.schema))
        assert store is not None
        self._store: ExpiryStore = store

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Store the rows and pass them on; EXPIRE adds a −1 row for each row that leaves."""
        delta = alive(inputs[0]) if self._tells else inputs[0]
        if len(delta):
            keep_rows(self._store, delta, self._kept.retracted)
        gone_at, gone = self._store.take(clock.now)
        if not self._tells:
            return delta
        words, leaving = self._store.words[gone], clock.instants(gone_at)
        left = _to_rows(words, leaving, _never(len(leaving)), -1)
        return merge([left, delta.with_(exp=_never(len(delta)))], len(self.edge.schema))

    def idle(self, now: int) -> bool:
        """Whether nothing expires by `now`."""
        return not self._store.due(now)

    def contents(self, clock: Clock) -> Delta:
        """The stored rows."""
        rows = kept_rows(self._store, clock.now)
        return rows.with_(exp=_never(len(rows))) if self._tells else rows

    def purge(self, lins: I64) -> None:
        """Forget the rows of these queries or cohorts."""
        forget_rows(self._store, lins)

    def rows(self) -> int:
        """Number of stored rows."""
        return len(self._store)

    def strings(self) -> list[StringColumns]:
        """Arrays with the string codes of stored rows."""
        columns = tuple(2 + c for c in self.edge.schema.string_columns)
        return [StringColumns(f"{self.scope.prefix}/store/words", columns)] if columns else []
