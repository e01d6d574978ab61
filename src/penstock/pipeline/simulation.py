"""A simulation: arrivals, a pipeline and a schedule on one virtual clock.

The clock moves by the measured time of each unit, and jumps to the next arrival when no unit has
anything to do. Scheduling itself takes no time on it. Sources are units too: one takes the rows
that have arrived, admits them and puts them into the log of its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.changes import Changes
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted, admit
from penstock.engine.template import Template
from penstock.kernels.changes import DELETE, PREIMAGE
from penstock.pipeline.arrivals import SECOND, Arrivals, Input
from penstock.pipeline.engine import PipelinedEngine
from penstock.pipeline.figures import Answers, Course
from penstock.pipeline.schedule import Schedule
from penstock.pipeline.units import Unit
from penstock.state.convert import to_rows

_SLICES, _LEAST = 60, SECOND // 1000


@dataclass(frozen=True, slots=True)
class Rules:
    """How rows enter: the most that a source takes at once, the wall time, and MAX AHEAD."""

    batch_rows: int
    wall: int
    ahead: dict[str, int | None]


class Source(Unit):
    """The source of a stream."""

    def __init__(
        self, number: int, given: Input, moments: np.ndarray, rules: Rules, engine: PipelinedEngine
    ) -> None:
        super().__init__(number, "source")
        self.stream, self._rows, self._moments = given.stream, given.rows, moments
        self._rules, self._engine = rules, engine
        self.taken = self._until = self.late = self.quarantined = self.most = self.area = 0
        self._admitted: Admitted | None = None

    @property
    def next(self) -> int | None:
        """The moment of the next arrival that is not taken."""
        return int(self._moments[self.taken]) if self.taken < len(self._moments) else None

    @property
    def since(self) -> int | None:
        """The moment at which the first waiting row arrived."""
        next_ = self.next
        return None if next_ is None or next_ > self._engine.moment.now else next_

    @property
    def waiting(self) -> int:
        """How many rows have arrived and are not taken."""
        arrived = np.searchsorted(self._moments, self._engine.moment.now, "right")
        return int(arrived) - self.taken

    def begin(self) -> None:
        """Take the rows that have arrived."""
        self.most = max(self.most, self.waiting)
        self._until = self.taken + min(self.waiting, self._rules.batch_rows)
        now, moments = self._engine.moment.now, self._moments[self.taken : self._until]
        self.area += int((now - moments).sum())

    def work(self) -> None:
        """Admit them and put them into the log."""
        stream, engine = self.stream, self._engine
        self._admitted = admitted = admit(
            self._rows.slice(self.taken, self._until - self.taken), stream.schema, stream.time,
            stream.delay, self._rules.ahead[stream.name], engine.sources[stream.name].watermark,
            self._rules.wall,
        )  # fmt: skip
        words = to_rows(admitted.accepted, stream.schema, engine.strings)
        block = b.Rows(stream.name, b.Timed(words, admitted.ts), admitted.watermark)
        engine.arrive(block, born=int(self._moments[self.taken]))

    def end(self) -> None:
        """Count the rows."""
        assert self._admitted is not None
        self.late += self._admitted.late.num_rows
        self.quarantined += self._admitted.quarantined.num_rows
        self.taken, self._admitted = self._until, None


@dataclass(slots=True)
class Simulation:
    """A run of a pipelined engine over arrivals; `run` may be called once."""

    engine: PipelinedEngine
    arrivals: Arrivals
    schedule: Schedule
    rules: Rules
    answers: dict[int, Answers] = field(default_factory=dict)  # by template
    most: int = 0
    sources: list[Source] = field(init=False)
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        inputs = self.arrivals.inputs
        self.sources = [
            Source(
                at - len(inputs), given, self.arrivals.moments[given.stream.name], self.rules,
                self.engine,
            )
            for at, given in enumerate(inputs)
        ]  # fmt: skip
        self.course = Course(max(_LEAST, self.arrivals.end // _SLICES))
        self.answers = {key: Answers() for key in self.engine.templates}

    @property
    def units(self) -> list[Unit]:
        """Sources and units of the plans, in the order of the rows' way."""
        return [*self.sources, *self.engine.units]

    @property
    def taken(self) -> int:
        """How many rows the sources have taken."""
        return sum(source.taken for source in self.sources)

    @property
    def busy(self) -> int:
        """Nanoseconds of work."""
        return sum(unit.busy for unit in self.units)

    def run(self, told: Callable[[int], None] = lambda rows: None) -> None:
        """Run until all rows have arrived and no unit has anything to do.

        Whenever a source has taken rows, `told` gets the number that all have taken so far.
        """
        self.engine.listener = self._note
        try:
            for unit in self._turns():
                self.engine.run(unit)
                if isinstance(unit, Source):
                    told(self.taken)
        finally:
            self.engine.listener = None

    def _turns(self) -> Iterator[Unit]:
        """The units to run, one after another; waits for arrivals in between."""
        while True:
            ready = self._ready()
            if ready:
                self._look()
                yield self.schedule.pick(ready)
                continue
            self.engine.collect_strings()  # no row in a queue holds one
            following = [moment for source in self.sources if (moment := source.next) is not None]
            if not following:
                return
            self.engine.moment.wait_until(min(following))

    def _ready(self) -> Sequence[Unit]:
        return [*(s for s in self.sources if s.since is not None), *self.engine.ready()]

    def _look(self) -> None:
        """Note how many rows wait now, in queues and at sources."""
        rows = self.engine.queued + sum(source.waiting for source in self.sources)
        self.most = max(self.most, rows)
        self.course.note_queued(self.engine.moment.now, rows)

    def _note(self, template: Template, changes: Changes) -> None:
        """Note the delays of changes that come now."""
        if not len(changes):
            return
        now = self.engine.moment.now
        reached = np.minimum(self.arrivals.reached(template.streams, changes.time), now)
        passed = np.clip(self.arrivals.passed(template.streams, changes.time), reached, now)
        deletes = int(np.count_nonzero((changes.kind == DELETE) | (changes.kind == PREIMAGE)))
        delays = now - reached
        self.answers[template.key].add(delays, passed - reached, deletes)
        self.course.add(now, delays)
