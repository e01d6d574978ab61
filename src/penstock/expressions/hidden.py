"""Failures hidden by ON ERROR NULL and SKIP ROW: rows of one evaluation, totals of a step.

Only arriving rows are counted: a row that leaves fails as it did on arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I8, I64, Bool
from penstock.logical.failing import OR_NULL


@dataclass(frozen=True, slots=True)
class Hid:
    """Rows at which one function hid a failure: whether a value was made NULL or a row skipped."""

    null: bool
    rows: I64
    reason: str


@dataclass(slots=True)
class Hidden:
    """The failures that one evaluation hid, by position of the row."""

    found: list[Hid] = field(default_factory=list)

    def note(self, fn: str, bad: Bool, reason: str) -> None:
        """A hiding function met failures."""
        rows = np.flatnonzero(bad)
        if rows.shape[0]:
            self.found.append(Hid(fn == OR_NULL, rows, reason))

    def within(self, other: Hidden, rows: I64) -> None:
        """Add what the evaluation of some of the rows hid."""
        self.found += [Hid(hid.null, rows[hid.rows], hid.reason) for hid in other.found]

    def rows(self, n: int) -> Bool:
        """Which of `n` rows are among them."""
        met = np.zeros(n, np.bool_)
        for hid in self.found:
            met[hid.rows] = True
        return met


@dataclass(slots=True)
class Totals:
    """Values made NULL, rows skipped, and the first reason."""

    nulls: int = 0
    rows: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.nulls or self.rows)

    def add(self, nulls: int, rows: int, reason: str) -> None:
        """Count more of them."""
        self.nulls += nulls
        self.rows += rows
        self.reason = self.reason or reason

    def count(self, hidden: Hidden, sign: I8 | None = None) -> None:
        """Count what an evaluation hid, of rows with these signs.

        A row is skipped once, whatever of it fails.
        """
        skipped: list[I64] = []
        for hid in hidden.found:
            rows = hid.rows if sign is None else hid.rows[sign[hid.rows] > 0]
            if rows.shape[0]:
                self.add(rows.shape[0] if hid.null else 0, 0, hid.reason)
                skipped += [] if hid.null else [rows]
        if skipped:
            self.rows += np.unique(np.concatenate(skipped)).shape[0]

    def drain(self) -> Totals:
        """Everything since the last call."""
        found = Totals(self.nulls, self.rows, self.reason)
        self.nulls, self.rows, self.reason = 0, 0, ""
        return found
