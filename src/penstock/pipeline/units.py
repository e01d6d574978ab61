"""Units: what the scheduler of a pipeline runs, one at a time.

A unit takes what its inputs hold up to the least of their progress, does its work, which is
measured, and gives the results to its outputs. `at` is its own clock (Golab & Özsu §2.3.2): the
event time up to which it has processed all rows. A leaf reads the logs up to the clock of its
template, so all clocks of a template agree once its queues are empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.changes import Changes
from penstock.delta import Clock, Delta
from penstock.eddy.flow import Flow
from penstock.engine.template import Template
from penstock.physical.flow import FlowOp
from penstock.physical.operator import Operator
from penstock.physical.scan import ScanOp
from penstock.physical.view import ViewOp
from penstock.physical.window_join import WindowJoinOp
from penstock.pipeline.clock import VirtualClock
from penstock.pipeline.queue import Queue

Views = Sequence[tuple[Template, Template]]
"""Pairs of a template and the template of a view that it reads."""


class Host(Protocol):
    """The engine that the units work for."""

    @property
    def moment(self) -> VirtualClock:
        """The virtual clock."""

    def clock_of(self, template: Template) -> int:
        """The least watermark of the streams below a template."""

    def check(self, template: Template) -> None:
        """Raise an error if a query of the template has failed."""

    def tell(self, template: Template, changes: Changes, born: int) -> None:
        """Report changes of answers."""

    def step_whole(self, templates: Sequence[Template]) -> list[tuple[Template, Changes]]:
        """Take an ordinary step of some templates."""


class Unit:
    """Base: a number in the order of rows, a name, the templates it works for, and its costs."""

    def __init__(self, number: int, name: str, templates: Sequence[Template] = ()) -> None:
        self.number, self.name = number, name
        self.templates = tuple(templates)
        self.steps = self.busy = 0

    @property
    def since(self) -> int | None:
        """The moment since which it has had something to do; None if it has nothing to do."""
        raise NotImplementedError

    @property
    def inputs(self) -> Sequence[Queue]:
        """The queues that it reads."""
        return ()

    def begin(self) -> None:
        """Take the input."""

    def work(self) -> None:
        """Process the input; only this is measured."""
        raise NotImplementedError

    def end(self) -> None:
        """Pass the results on."""


class Stage(Unit):
    """An operator with inputs; it runs when all of them have progressed or hold rows to take."""

    def __init__(
        self, number: int, template: Template, operator: Operator, inputs: list[Queue], host: Host
    ) -> None:
        super().__init__(number, operator.spec.name, (template,))
        self.template, self.operator, self.host = template, operator, host
        self.outputs: list[Queue] = []
        self.at = self._until = template.clock
        self._inputs, self._taken = inputs, list[Delta]()
        self._made: Delta | None = None
        self._born = 0

    @property
    def inputs(self) -> Sequence[Queue]:
        """The queues that it reads."""
        return self._inputs

    @property
    def since(self) -> int | None:
        """The birth of its oldest input, if it can take any."""
        until = self._progress()
        heads = [queue.first for queue in self._inputs]
        if until <= self.at and not any(h is not None and h <= until for h in heads):
            return None
        return min(s for queue in self._inputs if (s := queue.since) is not None)

    def _progress(self) -> int:
        """The event time that all its inputs have reached."""
        return min(queue.reached for queue in self._inputs)

    def begin(self) -> None:
        """Take the rows up to the least progress of the inputs."""
        since = self.since
        assert since is not None
        self._born, self._until = since, self._progress()
        self._taken = [queue.take(self._until, self.host.moment.now) for queue in self._inputs]

    def work(self) -> None:
        """Step the operator."""
        self._made = self.template.step_one(self.operator, self._taken, self._clock())

    def _clock(self) -> Clock:
        return Clock(self.at, self._until)

    def end(self) -> None:
        """Pass the rows on, with the progress."""
        self.host.check(self.template)
        self.at = self._until
        assert self._made is not None
        for queue in self.outputs:
            queue.put(self._made, self.at, self._born, self.host.moment.now)
        self._taken, self._made = [], None


class Root(Stage):
    """The view at the top of a plan."""

    def work(self) -> None:
        """Find the changes of the answers."""
        assert isinstance(self.operator, ViewOp)
        self._changes = self.template.show(self.operator, self._taken[0], self._clock())

    def end(self) -> None:
        """Report the changes."""
        self.host.check(self.template)
        self.at, self._taken = self._until, []
        self.template.reach(self.at)
        self.host.tell(self.template, self._changes, self._born)


@dataclass(slots=True)
class Reader:
    """A leaf of one template's plan."""

    template: Template
    operator: Operator
    outputs: list[Queue] = field(default_factory=list)
    made: Delta | None = None


class Leaf(Unit):
    """Leaves that read the logs: one scan, or all plans of a flow, which takes one step for all."""

    def __init__(
        self, number: int, readers: list[Reader], streams: frozenset[str], flow: Flow | None,
        host: Host,
    ) -> None:  # fmt: skip
        first = readers[0]
        super().__init__(number, first.operator.spec.name, [r.template for r in readers])
        self.readers, self.streams, self.flow, self.host = readers, streams, flow, host
        self.at = self._until = first.template.clock
        self._due: int | None = None
        self._born = 0

    @property
    def since(self) -> int | None:
        """The moment since which rows or progress wait in the logs."""
        return self._due

    def join(self, reader: Reader) -> None:
        """Add a plan that reads the same flow or join."""
        self.readers.append(reader)
        self.templates = (*self.templates, reader.template)

    def positions(self, template: Template) -> Iterator[tuple[str, int]]:
        """The first place in the log of each stream that it still needs for a template."""
        for reader in self.readers:
            match reader.operator:
                case ScanOp() as scan if reader.template is template:
                    yield scan.node.stream, max(scan.position(), 0)
                case FlowOp() | WindowJoinOp() as join if reader.template is template:
                    yield from join.needs(self.at).items()

    def notice(self, born: int, stream: str | None = None) -> None:
        """Note that the log of a stream, or the view that it follows, has changed."""
        if stream in self.streams or stream is None or self._horizon() > self.at:
            self._due = born if self._due is None else self._due

    def _horizon(self) -> int:
        return max(self.at, self.host.clock_of(self.readers[0].template))

    def begin(self) -> None:
        """Fix the event time to read up to."""
        assert self._due is not None
        self._born, self._due, self._until = self._due, None, self._horizon()

    def work(self) -> None:
        """Read the logs: the flow for all its plans, then each plan its rows."""
        if self.flow is not None:
            self.flow.step(self._until)
        for reader in self.readers:
            reader.made = reader.operator.step([], Clock(self.at, self._until))
            self.host.check(reader.template)

    def end(self) -> None:
        """Pass the rows on, with the progress."""
        self.at = self._until
        for reader in self.readers:
            assert reader.made is not None
            for queue in reader.outputs:
                queue.put(reader.made, self.at, self._born, self.host.moment.now)
            reader.made = None


class ViewLeaf(Leaf):
    """The leaf that follows a view: it reads no further than the view's plan has come."""

    def __init__(self, number: int, reader: Reader, view: Template | None, host: Host) -> None:
        super().__init__(number, [reader], frozenset(), None, host)
        self._view = view if view is not None and view.streams else None

    def _horizon(self) -> int:
        until = super()._horizon()
        return until if self._view is None else max(self.at, min(until, self._view.clock))


class Whole(Unit):
    """Plans that take ordinary steps together, because they show the net change of a batch.

    A flow takes one step for all its plans, so all plans of their flows are here; so are plans that
    read their views.
    """

    def __init__(
        self, number: int, templates: Sequence[Template], views: Views, host: Host
    ) -> None:
        super().__init__(number, "whole plan", templates)
        self.host = host
        self._views = [(reader, view) for reader, view in views if view.streams]
        self._due: int | None = None
        self._born = 0

    @property
    def since(self) -> int | None:
        """The moment since which rows wait; None while a view that it reads is behind."""
        behind = any(view.clock < self.host.clock_of(reader) for reader, view in self._views)
        return None if behind else self._due

    def notice(self, born: int) -> None:
        """Note that a log or a view has changed."""
        self._due = born if self._due is None else self._due

    def begin(self) -> None:
        """Note that nothing is due any more."""
        assert self._due is not None
        self._born, self._due = self._due, None

    def work(self) -> None:
        """Take the steps, in the order of the plans."""
        self._changes = self.host.step_whole(self.templates)

    def end(self) -> None:
        """Report the changes of each plan."""
        for template, changes in self._changes:
            self.host.tell(template, changes, self._born)
