"""Figures of a simulation: delays of changes, and how they and the queues develop over time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64

_PER_DOUBLING = 32
_BUCKETS = 64 * _PER_DOUBLING


@dataclass(slots=True)
class Delays:
    """Delays in nanoseconds: exact count, sum and maximum; percentiles to within 2.2 %."""

    count: int = 0
    total: int = 0
    most: int = 0
    _buckets: I64 = field(default_factory=lambda: np.zeros(_BUCKETS, np.int64))

    def add(self, delays: I64) -> None:
        """Count some."""
        if delays.shape[0]:
            self.count += delays.shape[0]
            self.total += int(delays.sum())
            self.most = max(self.most, int(delays.max()))
            place = (np.log2(np.maximum(delays, 1)) * _PER_DOUBLING).astype(np.int64)
            self._buckets += np.bincount(place, minlength=_BUCKETS)

    @property
    def average(self) -> float:
        """The average; 0 without any."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The delay that `percent` of them do not exceed."""
        if not self.count:
            return 0.0
        wanted = max(1, int(np.ceil(self.count * percent / 100)))
        place = int(np.searchsorted(np.cumsum(self._buckets), wanted))
        return float(min(2 ** ((place + 1) / _PER_DOUBLING), self.most))


@dataclass(slots=True)
class Answers:
    """Changes of the answers of one plan: how many, and how late.

    The `waited` part of a delay is before the watermarks of all streams have passed the change.
    """

    changes: int = 0
    deletes: int = 0
    delays: Delays = field(default_factory=Delays)
    waited: int = 0

    def add(self, delays: I64, waited: I64, deletes: int) -> None:
        """Count the changes of a step."""
        self.changes += delays.shape[0]
        self.deletes += deletes
        self.delays.add(delays)
        self.waited += int(waited.sum())


@dataclass(slots=True)
class Slice:
    """A part of the time: changes, their delays, the most rows that waited."""

    changes: int = 0
    total: int = 0
    most: int = 0
    queued: int = 0


@dataclass(slots=True)
class Course:
    """The slices of the time, by moment."""

    width: int
    slices: dict[int, Slice] = field(default_factory=dict)

    def at(self, moment: int) -> Slice:
        """The slice of a moment."""
        return self.slices.setdefault(moment // self.width, Slice())

    def add(self, moment: int, delays: I64) -> None:
        """Count changes that came at a moment."""
        if delays.shape[0]:
            found = self.at(moment)
            found.changes += delays.shape[0]
            found.total += int(delays.sum())
            found.most = max(found.most, int(delays.max()))

    def note_queued(self, moment: int, rows: int) -> None:
        """Note how many rows wait at a moment."""
        found = self.at(moment)
        found.queued = max(found.queued, rows)
