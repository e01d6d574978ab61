"""Texts and numbers about one side of an index over pairs, for EXPLAIN and stats()."""

from __future__ import annotations

from penstock.frozen import record


@record
class SideReport:
    """Stabbing groups, hotspots and the share of queries in them; shares of rows by strategy.

    There are no groups until rows are routed by their costs. Partners are sorted along the axis.
    """

    groups: int
    hotspots: int
    coverage: float
    shares: dict[str, float]
    structures: tuple[str, ...]
    axis: str
    axis_changes: int

    def text(self) -> str:
        """A line for EXPLAIN."""
        if not self.shares:
            return "no rows yet"
        routed = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        if not self.groups:
            return f"rows to {routed}; partners by {self.axis}"
        groups = f"{self.groups:,} group{'' if self.groups == 1 else 's'}"
        hot = f"{self.hotspots:,} hotspot{'' if self.hotspots == 1 else 's'}"
        told = f"{groups}, {hot} with {self.coverage:.0%} of queries; rows to {routed}"
        return f"{told}; partners by {self.axis}"
