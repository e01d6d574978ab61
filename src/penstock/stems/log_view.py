"""The rows of a source log as they are during one step, found by position or by time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.arrays import I64
from penstock.kernels.lineage import positions_among
from penstock.state.source_log import SourceLog


@dataclass(frozen=True, slots=True)
class LogView:
    """The rows of a log during one step; a place is a position less `base`."""

    rows: I64
    ts: I64
    epoch: I64
    base: int

    @staticmethod
    def of(log: SourceLog) -> LogView:
        """All rows that the log holds."""
        return LogView(*log.read_all(), log.discarded)

    @staticmethod
    def passing(log: SourceLog) -> LogView:
        """The same, for rows that nobody looks up later: they need not be stored."""
        return LogView(*log.passing(), log.discarded)

    def position(self, instant: int, *, after: bool) -> int:
        """The position of the first row with time > the instant (`after`) or ≥ it."""
        return self.base + int(self.ts.searchsorted(instant, "right" if after else "left"))

    def positions(self, instants: I64, least: int, *, after: bool) -> I64:
        """The same of each instant, in order; none before `least`."""
        return positions_among(self.ts, self.base, instants, after, least)
