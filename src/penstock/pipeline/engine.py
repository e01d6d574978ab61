"""An engine that runs plans as pipelines (docs/design/0018-pipelined-runs.md).

It takes the same blocks as any engine. Rows and heartbeats only wake leaves; then one unit runs
after another, in the order of a schedule. Any other block waits until all queues are empty: plans
take an ordinary step, as in the engine without queues, and are cut into units again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from penstock.changes import Changes
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.engine.template import Template
from penstock.errors import QueryFailed
from penstock.pipeline.clock import VirtualClock
from penstock.pipeline.schedule import RoundRobin, Schedule
from penstock.pipeline.units import Unit
from penstock.pipeline.wiring import Wiring
from penstock.roomy import roomy

Moving = b.Rows[b.Timed] | b.Heartbeat
"""The blocks that arrive while a pipeline runs."""
Listener = Callable[[Template, Changes], None]
"""Takes changes of answers in place of the output of a step."""
_BATCH_ROWS = 10_000


class PipelinedEngine(Engine):
    """One shard, with a queue on each edge.

    `apply` cuts rows into batches, lets a few units run between two batches, and empties the
    queues. A simulation calls `arrive` and `run` itself.
    """

    def __init__(
        self,
        schedule: Schedule | None = None,
        batch_rows: int = _BATCH_ROWS,
        overlap: int = 1,
        moment: VirtualClock | None = None,
    ) -> None:
        self.moment = moment or VirtualClock()
        self.listener: Listener | None = None
        self._schedule, self._overlap = schedule or RoundRobin(), overlap
        self._batch_rows = batch_rows
        self._awake: dict[Unit, None] = {}
        super().__init__()
        self._output = b.Output(0)
        self._wire()

    @property
    def units(self) -> Sequence[Unit]:
        """All units, in the order of rows' ways."""
        return self._wiring.units

    @property
    def queued(self) -> int:
        """The number of rows in queues."""
        return self._wiring.level.rows

    # ---- blocks ----------------------------------------------------------------------
    @roomy
    def apply(self, blocks: list[b.Block]) -> b.Output:
        """Take blocks, and run all units until the queues are empty."""
        moving = [block for block in blocks if isinstance(block, b.Rows | b.Heartbeat)]
        if len(moving) < len(blocks):
            return self._step_all(blocks)
        self._begin()
        for block in moving:
            for part in _parts(block, self._batch_rows):
                self.arrive(part)
                self._run_ready(self._overlap)
        self._drain()
        self._tidy(blocks)
        return self._output

    def _step_all(self, blocks: list[b.Block]) -> b.Output:
        """Empty the queues, take an ordinary step, and cut the plans again."""
        self._output = b.Output(self.batch)
        self._drain()
        before = self._output.changes
        output = super().apply(blocks)
        output.changes[:0] = before
        self._wire()
        return output

    def _begin(self) -> None:
        self.arena.scope("engine")["regs"][0] += 1
        self._output = b.Output(self.batch)

    def arrive(self, block: Moving, born: int | None = None) -> None:
        """Add rows or progress to the log of a stream, and wake the leaves that it concerns.

        `born` is the moment at which the first of the rows arrived; by default, it is now.
        """
        self._tidy([block])
        self.arena.scope("engine")["regs"][1] += isinstance(block, b.Rows)
        due = self._take(block, self._output)
        self.flows.joins.begin()  # kept pairs are places in the logs as they were
        for key in sorted(due):
            self._notice(key, block.stream, self.moment.now if born is None else born)

    def _notice(self, key: int, stream: str, born: int) -> None:
        """Wake what a change of a stream's log concerns in a template."""
        whole = self._wiring.wholes.get(key)
        if whole is not None:
            whole.notice(born)
            self._wake(whole)
        for leaf in self._wiring.leaves.get(key, ()):
            leaf.notice(born, stream)
            self._wake(leaf)

    def _wire(self) -> None:
        """Cut the plans into units; all queues are empty."""
        self._awake.clear()
        self._wiring = Wiring(self, self.templates, self._wake).lay()

    def _wake(self, unit: Unit) -> None:
        self._awake[unit] = None

    def _positions(self, template: Template) -> Iterator[tuple[str, int]]:
        if template.key not in self._wiring.leaves:
            return super()._positions(template)
        leaves = self._wiring.leaves[template.key]
        return (place for leaf in leaves for place in leaf.positions(template))

    # ---- units -----------------------------------------------------------------------
    def ready(self) -> list[Unit]:
        """The units that have something to do, in the order of their numbers."""
        found = [unit for unit in self._awake if unit.since is not None]
        self._awake = dict.fromkeys(found)
        return sorted(found, key=lambda unit: unit.number)

    def run(self, unit: Unit) -> None:
        """Run a unit: it takes its input, works while the clock moves on, and passes results on."""
        unit.begin()
        try:
            unit.busy += self.moment.spend(unit.name, unit.work)
        except QueryFailed:
            raise
        except Exception as error:
            raise _failed(f"{type(error).__name__}: {error}") from error
        unit.steps += 1
        unit.end()

    def _run_ready(self, most: int) -> None:
        """Run at most so many units."""
        for _ in range(most):
            ready = self.ready()
            if not ready:
                return
            self.run(self._schedule.pick(ready))

    def _drain(self) -> None:
        """Run units until none has anything to do."""
        while ready := self.ready():
            self.run(self._schedule.pick(ready))

    # ---- what units ask for ----------------------------------------------------------
    def check(self, template: Template) -> None:
        """Raise an error if a query has failed; count failures that ON ERROR hid."""
        hidden = self.ctx.hidden.drain()
        if hidden:
            template.note(hidden)
        for failure in self._failures(template):
            raise _failed(failure.reason)

    def step_whole(self, templates: Sequence[Template]) -> list[tuple[Template, Changes]]:
        """Take an ordinary step of some templates."""
        output = b.Output(self.batch)
        self._step_flows({template.key for template in templates})
        for template in templates:
            self._run(template, output)
        for failure in output.failures:
            raise _failed(failure.reason)
        return [(self.templates[key], changes) for key, changes in output.changes]

    def tell(self, template: Template, changes: Changes, born: int) -> None:
        """Report changes of answers, and wake the plans that read them."""
        if self.listener is None:
            self._output.changes.append((template.key, changes))
        else:
            self.listener(template, changes)
        if template.key in self._wiring.wholes:
            return  # its readers are in the same unit
        self.views.tell(template, changes)
        for follower in self._wiring.followers.get(template.key, ()):
            follower.notice(born)
            self._wake(follower)


def _parts(block: Moving, most: int) -> Iterator[Moving]:
    """A block as several with at most so many rows, in order of time."""
    n = block.rows.ts.shape[0] if isinstance(block, b.Rows) else 0
    if isinstance(block, b.Heartbeat) or n <= most:
        yield block
        return
    order = np.argsort(block.rows.ts, kind="stable")
    for start in range(0, n, most):
        chosen = order[start : start + most]
        ts = block.rows.ts[chosen]
        reached = min(block.watermark, int(ts[-1])) if start + most < n else block.watermark
        yield b.Rows(block.stream, b.Timed(block.rows.words[:, chosen], ts), reached, block.epoch)


def _failed(reason: str) -> QueryFailed:
    return QueryFailed(
        f"a query failed while its plan ran as a pipeline: {reason}",
        code="PS-SIM-001",
        remedy="the figures would be those of another workload: add ON ERROR NULL or ON ERROR "
        "SKIP ROW to the query, or remove it from the script",
    )
