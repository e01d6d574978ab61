"""Queues: the rows between two operators of a pipeline, first in, first out (Ghanem et al. §2).

A queue also has its producer's progress: the event time up to which every row has been put in. Rows
of that very instant may still follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np

from penstock.delta import Delta, concat


@dataclass(slots=True)
class Level:
    """The number of rows in all queues of a pipeline."""

    rows: int = 0


@dataclass(slots=True)
class QueueFigures:
    """Counts of a queue: +1 and −1 rows, the largest length, and rows × nanoseconds of waiting."""

    plus: int = 0
    minus: int = 0
    most: int = 0
    area: int = 0


@dataclass(slots=True)
class _Part:
    """Rows that were put in together: when, and the moment at which their cause arrived."""

    delta: Delta
    born: int
    put: int


@dataclass(slots=True)
class Queue:
    """The rows between two operators, in order of event time.

    `wake` is called when the consumer may have something to do.
    """

    columns: int
    reached: int
    level: Level
    wake: Callable[[], None]
    figures: QueueFigures = field(default_factory=QueueFigures)
    rows: int = 0
    _parts: deque[_Part] = field(default_factory=deque)
    _moved: int | None = None  # the birth of progress that the consumer has not seen

    @property
    def first(self) -> int | None:
        """The event time of the first row."""
        return int(self._parts[0].delta.ts[0]) if self._parts else None

    @property
    def since(self) -> int | None:
        """The moment at which the cause of the oldest content arrived; None without content."""
        births = [part.born for part in [*self._parts][:1]]
        return min(births if self._moved is None else [*births, self._moved], default=None)

    def put(self, delta: Delta, reached: int, born: int, now: int) -> None:
        """Append rows, and the progress of the producer."""
        if reached > self.reached:
            self.reached = reached
            self._moved = born if self._moved is None else self._moved
        elif not len(delta):
            return
        if len(delta):
            self._parts.append(_Part(_own(delta), born, now))
            self._count(delta)
        self.wake()

    def _count(self, delta: Delta) -> None:
        n, minus = len(delta), int(np.count_nonzero(delta.sign < 0))
        self.rows += n
        self.level.rows += n
        self.figures.minus += minus
        self.figures.plus += n - minus
        self.figures.most = max(self.figures.most, self.rows)

    def take(self, until: int, now: int) -> Delta:
        """Remove the rows with an event time of at most `until`."""
        self._moved = None
        taken = []
        while self._parts and self._parts[0].delta.ts[0] <= until:
            part = self._parts.popleft()
            n = int(np.searchsorted(part.delta.ts, until, "right"))
            if n < len(part.delta):
                rest = part.delta.take(np.arange(n, len(part.delta)))
                self._parts.appendleft(_Part(rest, part.born, part.put))
                part.delta = part.delta.take(np.arange(n))
            self.figures.area += n * (now - part.put)
            self.rows -= n
            self.level.rows -= n
            taken.append(part.delta)
        return concat(taken, self.columns)


def _own(delta: Delta) -> Delta:
    """The rows in memory of their own: parts of the arena change while rows wait."""
    views = {f.name: a for f in fields(delta) if (a := getattr(delta, f.name)).base is not None}
    return delta.with_(**{name: a.copy() for name, a in views.items()}) if views else delta
