"""Arrivals: when the rows of streams arrive on the virtual clock, and when event time is reached.

Rows of a stream arrive in the order of their source. The *front* of a row is the largest event time
up to it: a row that is out of order arrives with those beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BEGINNING, I64
from penstock.engine.admission import FARTHEST, convert
from penstock.sql.catalog import StreamDef

SECOND = 1_000_000_000
_LATER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Input:
    """The rows of a stream, and their fronts."""

    stream: StreamDef
    rows: pa.Table
    front: I64

    @staticmethod
    def of(stream: StreamDef, rows: pa.Table, latest: int | None = None) -> Input:
        """Read the fronts; rows without a time, or with one after `latest`, do not move them."""
        values, _ = convert(
            rows[stream.time] if stream.time in rows.column_names else None,
            stream.schema[stream.time_index],
            rows.num_rows,
        )
        times = np.array(pc.fill_null(values.cast(pa.int64()), BEGINNING))
        far = FARTHEST if latest is None else latest
        times[(times > far) | (times < -FARTHEST)] = BEGINNING
        return Input(stream, rows, np.maximum.accumulate(times))

    def first(self, rows: int) -> Input:
        """The first rows."""
        return Input(self.stream, self.rows.slice(0, rows), self.front[:rows])


Moments = dict[str, I64]
"""The moment of arrival of every row, by stream."""


class Pace(Protocol):
    """Gives every row its moment of arrival."""

    def moments(self, inputs: Sequence[Input]) -> Moments:
        """The moments of the rows of all streams."""

    def reached(self, inputs: Sequence[Input], times: I64) -> I64 | None:
        """The moments at which event times are reached; None if only arrivals can tell."""


@dataclass(frozen=True, slots=True)
class AtRate:
    """So many rows a second in all: the streams' rows follow each other by front."""

    rows_per_second: float

    def moments(self, inputs: Sequence[Input]) -> Moments:
        """Rows arrive at equal distances."""
        return {
            name: (place * (SECOND / self.rows_per_second)).astype(np.int64)
            for name, place in _places(inputs).items()
        }

    def reached(self, inputs: Sequence[Input], times: I64) -> I64 | None:
        """None: event time is what the rows say."""
        return None


@dataclass(frozen=True, slots=True)
class AtRates:
    """So many rows a second of each stream."""

    rows_per_second: Mapping[str, float]

    def moments(self, inputs: Sequence[Input]) -> Moments:
        """Rows of a stream arrive at equal distances."""
        return {
            i.stream.name: (
                np.arange(i.rows.num_rows) * (SECOND / self.rows_per_second[i.stream.name])
            ).astype(np.int64)
            for i in inputs
        }

    def reached(self, inputs: Sequence[Input], times: I64) -> I64 | None:
        """None: event time is what the rows say."""
        return None


@dataclass(frozen=True, slots=True)
class AtSpeed:
    """So many times as fast as event time, which is in microseconds."""

    speed: float

    def moments(self, inputs: Sequence[Input]) -> Moments:
        """A row arrives when event time reaches its front."""
        return {i.stream.name: self._moments(inputs, i.front) for i in inputs}

    def _moments(self, inputs: Sequence[Input], times: I64) -> I64:
        since = np.maximum(times, _start(inputs)) - _start(inputs)
        return np.asarray(since * (1000 / self.speed), np.int64)

    def reached(self, inputs: Sequence[Input], times: I64) -> I64 | None:
        """The moments of event times, whether rows arrive then or not."""
        return self._moments(inputs, times)


@dataclass(frozen=True, slots=True)
class InBatches:
    """Batches of so many rows, an hour apart: work never waits for work."""

    rows: int

    def moments(self, inputs: Sequence[Input]) -> Moments:
        """Rows of a batch arrive together, in the order of `AtRate`."""
        return {
            name: place // self.rows * (3600 * SECOND) for name, place in _places(inputs).items()
        }

    def reached(self, inputs: Sequence[Input], times: I64) -> I64 | None:
        """None: event time is what the rows say."""
        return None


def first_rows(inputs: Sequence[Input], most: int) -> list[Input]:
    """The first rows of all streams together, by front: so many in all."""
    places = _places(inputs)
    return [i.first(int(np.count_nonzero(places[i.stream.name] < most))) for i in inputs]


def _start(inputs: Sequence[Input]) -> int:
    """The least event time."""
    fronts = [i.front[i.front > BEGINNING][:1] for i in inputs]
    return min((int(front[0]) for front in fronts if front.shape[0]), default=0)


def _places(inputs: Sequence[Input]) -> Moments:
    """The place of every row among those of all streams, in order of fronts."""
    fronts = np.concatenate([i.front for i in inputs])
    place = np.empty(fronts.shape[0], np.int64)
    place[np.argsort(fronts, kind="stable")] = np.arange(fronts.shape[0])
    ends = np.cumsum([i.front.shape[0] for i in inputs])
    parts = np.split(place, ends[:-1])
    return {i.stream.name: part for i, part in zip(inputs, parts, strict=True)}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The rows of all streams and their moments of arrival."""

    inputs: tuple[Input, ...]
    moments: Moments
    pace: Pace

    @staticmethod
    def of(inputs: Sequence[Input], pace: Pace) -> Arrivals:
        """The arrivals at a pace."""
        return Arrivals(tuple(inputs), pace.moments(inputs), pace)

    @property
    def rows(self) -> int:
        """How many rows arrive."""
        return sum(i.rows.num_rows for i in self.inputs)

    @property
    def end(self) -> int:
        """The moment of the last arrival."""
        return max((int(m[-1]) for m in self.moments.values() if m.shape[0]), default=0)

    def reached(self, streams: Collection[str], times: I64) -> I64:
        """The moments at which event times were reached for plans over these streams.

        At a speed, event time passes by itself. At a rate, it is reached when a row with that event
        time or a later one arrives on one of the streams.
        """
        known = self.pace.reached(self.inputs, times)
        if known is not None:
            return known
        found = [self._first(i, times) for i in self.inputs if i.stream.name in streams]
        return np.minimum.reduce(found) if found else np.zeros_like(times)

    def passed(self, streams: Collection[str], times: I64) -> I64:
        """The moments at which the watermarks of all these streams have reached event times."""
        found = [
            self._first(i, times + i.stream.delay) for i in self.inputs if i.stream.name in streams
        ]
        return np.maximum.reduce(found) if found else np.zeros_like(times)

    def _first(self, given: Input, times: I64) -> I64:
        """The moments at which the first rows with these event times, or later ones, arrive."""
        at = np.append(self.moments[given.stream.name], _LATER)
        return np.asarray(at[np.searchsorted(given.front, times, "left")])
