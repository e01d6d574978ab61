"""The progress of a job on Spark, from `Session.progress()`, for live displays."""

from __future__ import annotations

import datetime as dt
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.spinner import Spinner

if TYPE_CHECKING:
    from penstock.session import Session

_RECENT = 5  # batches in the shown speed


@dataclass(slots=True)
class Tracker:
    """Totals over the batches of this run."""

    session: Session
    doing: str = "the first batch starts Spark's workers"
    batch: int = 0
    rows: int = 0
    changes: int = 0
    seconds: float = 0.0
    event_time: str = ""
    _recent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _spinner: Spinner = field(default_factory=lambda: Spinner("dots"))

    def update(self) -> Tracker:
        """Add the batches that have ended since the last call."""
        records = [r for r in self.session.progress() if r["batch"] > self.batch]
        for record in records:
            self.batch = record["batch"]
            self.rows += record["rows_in"]
            self.changes += record["changes_out"]
            self.seconds += record["seconds"]
            self._recent.append((record["rows_in"], record["seconds"]))
            self.event_time = least_time(record["streams"]) or self.event_time
        return self

    @property
    def speed(self) -> float:
        """Rows per second of the last batches."""
        return sum(rows for rows, _ in self._recent) / max(1e-9, sum(s for _, s in self._recent))

    def line(self) -> str:
        """The progress in one line."""
        if not self.batch:
            return self.doing
        time = f", event time {self.event_time}" if self.event_time else ""
        return (
            f"batch {self.batch}: {self.rows:,} rows ({self.speed:,.0f}/s), "
            f"{self.changes:,} changes{time}"
        )

    def render(self) -> Spinner:
        """The line with a spinner, for a live display."""
        self._spinner.update(text=self.update().line())
        return self._spinner


def least_time(streams: dict[str, dict[str, Any]]) -> str:
    """The event time that all streams have reached; empty while one has none."""
    marks = [row["watermark"] for row in streams.values()]
    if not marks or None in marks:
        return ""
    # times in µs have a lag to the wall clock, plain units have none
    if all(row["lag_s"] is not None for row in streams.values()):
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=min(marks))
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    return f"{min(marks):,}"
