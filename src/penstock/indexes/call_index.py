"""The index of a conjunct that must be evaluated on rows, for a lineage group (CACQ §3.2.6).

The conjunct is a function of columns and parameters, for example a UDF call. Queries that agree in
the parameters that it reads share one call: the call is evaluated once per batch, on the rows that
one of these queries may still take.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from penstock.arrays import I32, I64, Bool
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError, compile_expr
from penstock.expressions.hidden import Hidden
from penstock.indexes.contract import IndexKind, QueryRows, SlotIndex, SlotPredicate, SlotRows
from penstock.kernels.call_filter import clear_groups, rows_of_groups
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import full
from penstock.logical.expr import Expr, columns_of, params_of
from penstock.logical.failing import hides
from penstock.logical.truth import held

_MOST_PAIRS = 1 << 20  # most pairs evaluated at once
_MANY_ROWS = 256  # a call with more rows is evaluated alone, with its parameters as constants
_EVALUATION = 1000.0  # ns


class CallIndex:
    """Finds the slots that take a row by evaluating a condition on columns and parameters."""

    is_costly = True

    def __init__(self, alias: int, predicate: Expr, ctx: Context, words: int = 1) -> None:
        self.inputs: tuple[int, ...] = (alias,)
        self._alias = alias
        self._predicate = predicate
        self.hides = hides(predicate)
        self._words = words
        self._compiled = compile_expr(held(predicate), ctx)
        self._columns = np.array(sorted(columns_of(predicate)), np.int64)
        self._reads = sorted(params_of(predicate))
        self._calls: dict[bytes, int] = {}  # by the parameters that the conjunct reads
        self._params: I64 = np.zeros((1 + max(self._reads, default=-1) + 1, 0), np.int64)
        self._slots: U64 = np.zeros((0, words), np.uint64)  # by call
        self._call_of: I32 = np.full(64 * words, -1, np.int32)  # by slot
        self.uses: U64 = np.zeros(words, np.uint64)

    # ---- membership ------------------------------------------------------------------
    @property
    def predicates(self) -> int:
        """The number of slots that have the conjunct."""
        return int((self._call_of >= 0).sum())

    @property
    def calls(self) -> int:
        """The number of different calls."""
        return len(self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._params.nbytes + self._slots.nbytes + self._call_of.nbytes

    def exact(self, queries: QueryRows) -> Bool:
        """True for all queries: the conjunct itself is evaluated."""
        return np.ones(queries.ids.shape[0], np.bool_)

    def add(self, queries: QueryRows) -> None:
        """Add the conjunct for slots that do not have it yet."""
        slots, read = queries.ids, self._read(queries.params)
        fresh: list[int] = []
        for i, slot in enumerate(slots.tolist()):
            call = self._calls.setdefault(read[i].tobytes(), len(self._calls))
            if call == self._params.shape[1] + len(fresh):
                fresh.append(i)
            self._call_of[slot] = call
        self._params = np.concatenate([self._params, read[fresh].T], axis=1)
        more = np.zeros((len(fresh), self._words), np.uint64)
        self._slots = np.concatenate([self._slots, more])
        self.uses = self.uses | full(slots, self._words)
        for slot in slots.tolist():
            self._slots[self._call_of[slot], slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)

    def _read(self, params: I64) -> I64:
        """Parameter rows with zeros for parameters that the conjunct does not read."""
        read = np.zeros((params.shape[0], self._params.shape[0]), np.int64)
        for p in self._reads:
            null: I64 = params[:, 0] >> p & 1
            read[:, 0] |= null << p
            read[:, 1 + p] = np.where(null, 0, params[:, 1 + p])
        return read

    def widen(self, words: int) -> None:
        """Make room for ``64 * words`` slots."""
        more = words - self._words
        self._slots = np.hstack([self._slots, np.zeros((self.calls, more), np.uint64)])
        self._call_of = np.append(self._call_of, np.full(64 * more, -1, np.int32))
        self.uses = np.append(self.uses, np.zeros(more, np.uint64))
        self._words = words

    def remove(self, ids: I64) -> None:
        """Remove the conjunct of these slots."""
        self._call_of[ids] = -1
        self.uses = self.uses & ~full(ids, self._words)
        self._slots &= self.uses
        kept = np.flatnonzero(self._slots.any(axis=1))
        number = np.full(self.calls + 1, -1, np.int32)  # the last row: slots without a call
        number[kept] = np.arange(kept.shape[0])
        self._calls = {k: int(number[c]) for k, c in self._calls.items() if number[c] >= 0}
        self._params, self._slots = self._params[:, kept], self._slots[kept]
        self._call_of = number[self._call_of]

    # ---- matching --------------------------------------------------------------------
    def match(self, batch: SlotRows) -> U64:
        """Clear the bits of slots that do not take a row."""
        columns = batch.columns(self._alias, np.arange(batch.bits.shape[0]), self._columns)
        offsets, found = rows_of_groups(
            batch.bits, batch.rows, self.uses, self._call_of, self.calls
        )
        sizes = np.diff(offsets)
        calls = np.repeat(np.arange(self.calls), sizes)
        for c in np.flatnonzero(sizes >= _MANY_ROWS):
            its = slice(offsets[c], offsets[c + 1])
            self._evaluate(batch, columns, found[its], calls[its], True)
        few = np.flatnonzero(sizes[calls] < _MANY_ROWS)
        for start in range(0, few.shape[0], _MOST_PAIRS):
            some = few[start : start + _MOST_PAIRS]
            self._evaluate(batch, columns, found[some], calls[some], False)
        return batch.bits

    def _evaluate(self, batch: SlotRows, columns: I64, rows: I64, calls: I64, alike: bool) -> None:
        """Evaluate pairs of rows and calls; `alike` means that all pairs have the same call."""
        params, hidden = self._params[:, calls[:1] if alike else calls], Hidden()
        try:
            keep = self._compiled.mask(columns[:, rows], params, hidden)
        except EvaluationError as error:
            good = ~error.bad
            self._blame(batch, rows[error.bad], calls[error.bad])
            self._evaluate(batch, columns, rows[good], calls[good], alike)
            return
        for hid in hidden.found:
            batch.hide(hid, rows[hid.rows], self._slots[calls[hid.rows]])
        clear_groups(rows[~keep], calls[~keep], self._slots, batch.bits)

    def _blame(self, batch: SlotRows, rows: I64, calls: I64) -> None:
        for c in np.unique(calls):
            batch.blame(rows[calls == c], self._slots[c])

    def explain(self) -> str:
        """For EXPLAIN: the conjunct."""
        return f"call {self._predicate}"


def _cost(wanted: SlotPredicate) -> float | None:
    """The cost of one evaluation; each different call needs one."""
    return None if len(wanted.inputs) > 1 else _EVALUATION


def _key(wanted: SlotPredicate) -> Hashable:
    return wanted.inputs, wanted.condition


def _make(wanted: SlotPredicate, ctx: Context) -> CallIndex:
    return CallIndex(wanted.inputs[0], wanted.condition, ctx)


CALL: IndexKind[SlotPredicate, SlotIndex] = IndexKind("call", _cost, _make, _key, decides=True)
