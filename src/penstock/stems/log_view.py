"""The rows of a source log as they are during one step, found by position or by time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.arrays import I64
from penstock.kernels.lineage import positions_among
from penstock.state.source_log import SourceLog


@dataclass(frozen=True, slots=True)
class LogView:
    """The rows of a log during one step; row i of the view is at position `base` + i of the log."""

    rows: I64
    ts: I64
    epoch: I64
    base: int

    @staticmethod
    def of(log: SourceLog) -> LogView:
        """A view of all rows that the log holds."""
        return LogView(*log.read_all(), log.discarded)

    @staticmethod
    def passing(log: SourceLog) -> LogView:
        """The same view for rows that no later step looks up: the log need not store them."""
        return LogView(*log.passing(), log.discarded)

    def position(self, instant: int, *, after: bool) -> int:
        """The position of the first row with time > the instant (`after`) or ≥ it."""
        return self.base + int(self.ts.searchsorted(instant, "right" if after else "left"))

    def positions(self, instants: I64, least: int, *, after: bool) -> I64:
        """For each instant (ascending), the position as in `position`, but at least `least`."""
        return positions_among(self.ts, self.base, instants, after, least)
