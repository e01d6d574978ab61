"""The results of a flow's step, by template: matches, failed queries and hidden failures.

The eddy returns rows in any order. Matches are sorted by time, positions and query, so that routing
never changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64
from penstock.expressions.hidden import Totals
from penstock.kernels.lineage import is_sorted

Faults = dict[int, dict[int, str]]
"""Failed queries and their reasons, by template."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows and the queries of a template that take them: positions by alias, instants, queries."""

    positions: I64
    instants: I64
    qids: I64

    @staticmethod
    def none(aliases: int) -> Matches:
        """No matches."""
        empty = np.empty(0, np.int64)
        return Matches(np.empty((aliases, 0), np.int64), empty, empty)

    @staticmethod
    def in_order(parts: list[Matches]) -> Matches:
        """Merge matches, sorted by time, then positions and query."""
        one = len(parts) == 1
        positions = parts[0].positions if one else np.concatenate([p.positions for p in parts], 1)
        instants = parts[0].instants if one else np.concatenate([p.instants for p in parts])
        qids = parts[0].qids if one else np.concatenate([p.qids for p in parts])
        found = Matches(positions, instants, qids)
        if is_sorted(instants, positions, qids):
            return found
        return found.take(np.lexsort((qids, *positions[::-1], instants)))

    def __len__(self) -> int:
        return int(self.qids.shape[0])

    def heads(self, exp: I64) -> I64:
        """The start of each run of matches with equal rows, instant and expiry."""
        before = (self.positions[:, 1:] == self.positions[:, :-1]).all(axis=0)
        before &= exp[1:] == exp[:-1]
        same = np.append(False, before & (self.instants[1:] == self.instants[:-1]))
        return np.flatnonzero(~same[: len(self)])

    def take(self, index: I64) -> Matches:
        """The matches at these places."""
        positions = np.take(self.positions, index, axis=1)
        return Matches(positions, self.instants[index], self.qids[index])


@dataclass(slots=True)
class Results:
    """Matches, failed queries and hidden failures, each by template."""

    aliases: int
    faults: Faults = field(default_factory=dict)
    hidden: dict[int, Totals] = field(default_factory=dict)
    _parts: dict[int, list[Matches]] = field(default_factory=dict)

    def add(self, found: Matches, templates: I64) -> None:
        """Add matches; `templates` has the template of each."""
        if not len(found):
            return
        first = int(templates[0])
        if (templates == first).all():
            self._parts.setdefault(first, []).append(found)
            return
        order = np.argsort(templates, kind="stable")
        keys, starts = np.unique(templates[order], return_index=True)
        for key, part in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
            self._parts.setdefault(key, []).append(found.take(part))

    def hide(self, key: int, hid: Totals) -> None:
        """Add to the count of failures that were hidden from a template's queries."""
        self.hidden.setdefault(key, Totals()).add(hid.nulls, hid.rows, hid.reason)

    def blame(self, key: int, failed: dict[int, str]) -> None:
        """Record failed queries of a template; the first reason of each query stays."""
        if failed:
            self.faults[key] = failed | self.faults.get(key, {})

    def has(self, key: int) -> bool:
        """Whether there is a result for a template."""
        return key in self._parts or key in self.faults or key in self.hidden

    def take(self, key: int) -> Matches:
        """Remove and return the matches of a template."""
        parts = self._parts.pop(key, None)
        return Matches.none(self.aliases) if parts is None else Matches.in_order(parts)
