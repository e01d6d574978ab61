"""The driver's engine: tables, plans and Q, but no rows of streams (docs/design/0004-spark.md).

It takes the same blocks as the shards do and gives queries their numbers, but takes no steps:
answers are the shards' business. Its clocks follow the streams, so that what a session says
about time is true.
"""

from __future__ import annotations

from typing import cast

from penstock.delta import I64
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.engine.template import Template


class ControlEngine(Engine):
    """Everything but rows and steps."""

    def see(self, epoch: int) -> None:
        """Rows of epochs up to `epoch` have come; new queries see later ones."""
        self.arena.scope("engine")["regs"][1] = epoch

    def pass_by(self, stream: str, rows: int, watermark: int) -> None:
        """Rows of a stream went to the shards."""
        self.sources[stream].pass_by(rows)
        self.apply([b.Heartbeat(stream, watermark)])

    def _take_dropqueries(self, block: b.DropQueries, output: b.Output) -> set[int]:
        template = self.templates[block.template]
        template.queries.drop(block.qids)
        template.queries.hold(block.qids)  # until the shards have said their last of them
        self._free_if_unused(template)
        return set()

    def release(self, template: int, qids: I64) -> None:
        """The shards are done with dropped queries."""
        if template in self.templates:
            self.templates[template].queries.release(qids)

    def _run(self, template: Template, output: b.Output) -> None:
        template.queries.settle()
        clock = cast(I64, template.scope["clock"])
        clock[:] = max(int(clock[0]), self.clock_of(template)), 1

    def _tidy(self, blocks: list[b.Block]) -> None:
        for table in self.tables.values():
            table.trim()
