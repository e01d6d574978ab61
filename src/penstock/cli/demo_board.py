"""The display of the demo: counts of all queries, and the life of one alert."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.table import Table

if TYPE_CHECKING:
    from penstock.session import Queries, Query

_TOLD = 20  # which of the first results is told


@dataclass(slots=True)
class Story:
    """One alert, from the row that makes it fire until that result ends."""

    constants: dict[str, dict[str, Any]]
    fired: dict[str, Any] | None = None
    ended: Any = None

    def see(self, changes: pa.Table) -> None:
        """Look for one of the first results of any alert, then for its end."""
        if self.fired is None:
            inserts = changes.filter(pc.equal(changes["_change_type"].cast(pa.string()), "insert"))
            self.fired = inserts.slice(0, _TOLD).to_pylist()[-1] if inserts.num_rows else None
        if self.fired is not None and self.ended is None:
            own = changes.filter(pc.equal(changes["_query"], self.fired["_query"]))
            ends = [row for row in own.to_pylist() if self._is_end(row)]
            self.ended = ends[0]["_time"] if ends else None

    def _is_end(self, row: dict[str, Any]) -> bool:
        same = all(row[name] == self.fired[name] for name in ("src", "dst", "payload"))  # type: ignore[index]
        return same and row["_change_type"] == "delete"

    def lines(self) -> list[str]:
        """The lines to show so far."""
        if self.fired is None:
            return ["no alert has fired yet"]
        row, of = self.fired, self.constants[self.fired["_query"]]
        told = [
            f"{row['_time']:%H:%M:%S}  {row['_query']} (src = {of['s']} AND payload > {of['p']:,}) "
            f"fires: {row['payload']:,} bytes"
        ]
        if self.ended is not None:
            told.append(
                f"{self.ended:%H:%M:%S}  that result expires: its row is 60 s old and leaves the"
                " window"
            )
        return told


@dataclass(slots=True)
class Tally:
    """Changes seen so far of one query, or of all alerts of one kind."""

    name: str
    about: str
    source: Query | Queries
    queries: int = 1
    story: Story | None = None
    came: int = 0
    left: int = 0
    _results: Counter[str] = field(default_factory=Counter)  # by query, now

    def read(self) -> None:
        """Count the changes since the last call."""
        changes = self.source.changes()
        if self.story is not None:
            self.story.see(changes)
        keys = ["_query", "_change_type"]
        counts = pa.TableGroupBy(changes.select(keys), keys).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            sign = {"insert": 1, "delete": -1}.get(row["_change_type"], 0)
            self.came += row["count_all"] * (sign > 0)
            self.left += row["count_all"] * (sign < 0)
            self._results[row["_query"]] += row["count_all"] * sign

    @property
    def firing(self) -> int:
        """How many of the queries have an answer now."""
        return sum(count > 0 for count in self._results.values())


def board(tallies: list[Tally]) -> Table:
    """Counts of all queries: those with an answer, results now, and what came and left."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("query", "what it watches"):
        table.add_column(heading, no_wrap=True)
    for heading in ("firing", "results", "came", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    for tally in tallies:
        name = tally.name if tally.queries == 1 else f"{tally.queries} {tally.name}"
        counts = (tally.firing, tally.came - tally.left, tally.came, tally.left)
        table.add_row(name, tally.about, *(f"{count:,}" for count in counts))
    queries, firing = sum(t.queries for t in tallies), sum(t.firing for t in tallies)
    came, left = sum(t.came for t in tallies), sum(t.left for t in tallies)
    table.add_section()
    totals = (firing, came - left, came, left)
    table.add_row(f"{queries:,} queries", "", *(f"{count:,}" for count in totals))
    return table
