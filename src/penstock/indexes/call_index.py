"""A conjunct that must be evaluated on rows, for a pool of queries in slots (CACQ §3.2.6).

Functions of columns and parameters, UDF calls among them. Queries whose parameters agree, as far
as the conjunct reads them, make one call and share what it says: it is evaluated once per batch,
on the rows in which one of them is still alive. A cache: nothing of it is in the arena.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I32, I64
from penstock.expressions.context import Context
from penstock.expressions.evaluate import EvaluationError, compile_expr
from penstock.expressions.hidden import Hid, Hidden
from penstock.kernels.call_filter import clear_groups, rows_of_groups
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import full
from penstock.logical.expr import Expr, params_of

_MOST_PAIRS = 1 << 20  # evaluated at once
_MANY_ROWS = 256  # of a call: it is evaluated by itself, with its parameters as constants


Tell = Callable[[Hid, I64, U64], None]
"""Takes note of a failure that was hidden: at which rows, and of which slots each."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Rows at which a call raised, and the slots that share it. Their bits are as before."""

    rows: I64
    slots: U64


class CallIndex:
    """Which of up to ``64 * words`` slots take a row, by a condition on columns and parameters."""

    def __init__(self, predicate: Expr, ctx: Context, words: int) -> None:
        self.predicate = predicate
        self.words = words
        self._compiled = compile_expr(predicate, ctx)
        self._reads = sorted(params_of(predicate))
        self._groups: dict[bytes, int] = {}
        self._params: I64 = np.zeros((1 + max(self._reads, default=-1) + 1, 0), np.int64)
        self._members: U64 = np.zeros((0, words), np.uint64)
        self._group_of: I32 = np.full(64 * words, -1, np.int32)
        self.uses: U64 = np.zeros(words, np.uint64)  # slots that have the conjunct

    # ---- membership ------------------------------------------------------------------
    @property
    def predicates(self) -> int:
        """How many slots have the conjunct."""
        return int((self._group_of >= 0).sum())

    @property
    def calls(self) -> int:
        """How many different calls these are."""
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._params.nbytes + self._members.nbytes + self._group_of.nbytes

    def add(self, slots: I64, params: I64) -> None:
        """Add the conjunct for slots that have none, with a row of parameters each."""
        read = self._read(params)
        fresh: list[int] = []
        for i, slot in enumerate(slots.tolist()):
            group = self._groups.setdefault(read[i].tobytes(), len(self._groups))
            if group == self._params.shape[1] + len(fresh):
                fresh.append(i)
            self._group_of[slot] = group
        self._params = np.concatenate([self._params, read[fresh].T], axis=1)
        more = np.zeros((len(fresh), self.words), np.uint64)
        self._members = np.concatenate([self._members, more])
        self.uses = self.uses | full(slots, self.words)
        for slot in slots.tolist():
            self._members[self._group_of[slot], slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)

    def _read(self, params: I64) -> I64:
        """Parameter rows with zeros in place of what the conjunct does not read."""
        read = np.zeros((params.shape[0], self._params.shape[0]), np.int64)
        for p in self._reads:
            null: I64 = params[:, 0] >> p & 1
            read[:, 0] |= null << p
            read[:, 1 + p] = np.where(null, 0, params[:, 1 + p])
        return read

    def widen(self, words: int) -> None:
        """Make room for slots."""
        more = words - self.words
        self._members = np.hstack([self._members, np.zeros((self.calls, more), np.uint64)])
        self._group_of = np.append(self._group_of, np.full(64 * more, -1, np.int32))
        self.uses = np.append(self.uses, np.zeros(more, np.uint64))
        self.words = words

    def remove(self, slots: I64) -> None:
        """Remove the conjunct of these slots."""
        self._group_of[slots] = -1
        self.uses = self.uses & ~full(slots, self.words)
        self._members &= self.uses
        kept = np.flatnonzero(self._members.any(axis=1))
        number = np.full(self.calls + 1, -1, np.int32)  # the last one: of slots without a call
        number[kept] = np.arange(kept.shape[0])
        self._groups = {k: int(number[g]) for k, g in self._groups.items() if number[g] >= 0}
        self._params, self._members = self._params[:, kept], self._members[kept]
        self._group_of = number[self._group_of]

    # ---- matching --------------------------------------------------------------------
    def take(self, columns: I64, rows: I64, bits: U64, tell: Tell | None = None) -> list[Fault]:
        """Clear the bits of slots that do not take a row: of columns[:, r] in bits[r], r of `rows`.

        `columns` have the NULL word first. `tell` is told of failures that are hidden.
        """
        offsets, found = rows_of_groups(bits, rows, self.uses, self._group_of, self.calls)
        sizes = np.diff(offsets)
        groups = np.repeat(np.arange(self.calls), sizes)
        faults: list[Fault] = []
        for g in np.flatnonzero(sizes >= _MANY_ROWS):
            its = slice(offsets[g], offsets[g + 1])
            self._evaluate(columns, found[its], groups[its], True, bits, faults, tell)
        few = np.flatnonzero(sizes[groups] < _MANY_ROWS)
        for start in range(0, few.shape[0], _MOST_PAIRS):
            some = few[start : start + _MOST_PAIRS]
            self._evaluate(columns, found[some], groups[some], False, bits, faults, tell)
        return faults

    def _evaluate(
        self, columns: I64, rows: I64, groups: I64, alike: bool, bits: U64, faults: list[Fault],
        tell: Tell | None,
    ) -> None:  # fmt: skip
        """Evaluate pairs of rows and calls; `alike`: it is one call."""
        params, hidden = self._params[:, groups[:1] if alike else groups], Hidden()
        try:
            keep = self._compiled.mask(columns[:, rows], params, hidden)
        except EvaluationError as error:
            bad, good = error.bad, ~error.bad
            self._report(rows[bad], groups[bad], faults)
            self._evaluate(columns, rows[good], groups[good], alike, bits, faults, tell)
            return
        if tell is not None:
            for hid in hidden.found:
                tell(hid, rows[hid.rows], self._members[groups[hid.rows]])
        clear_groups(rows[~keep], groups[~keep], self._members, bits)

    def _report(self, rows: I64, groups: I64, faults: list[Fault]) -> None:
        for g in np.unique(groups):
            faults.append(Fault(rows[groups == g], self._members[g].copy()))
