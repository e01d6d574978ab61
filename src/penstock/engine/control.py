"""The driver's engine: tables, plans and Q, but no rows of streams (docs/design/0004-spark.md).

It takes the same blocks as the shards and numbers the queries, but takes no steps: the shards
compute the answers. So its templates have specs, which EXPLAIN shows, but no operators. Its clocks
follow the streams, so that the session reports correct times.
"""

from __future__ import annotations

from typing import cast

from penstock.arrays import I64
from penstock.dispatch import case
from penstock.engine import blocks as b
from penstock.engine.build import outline
from penstock.engine.engine import Engine
from penstock.engine.template import Template
from penstock.state.arena import Scope


class ControlEngine(Engine):
    """Everything but rows, operators and steps."""

    TAKE = {**Engine.TAKE}  # noqa: RUF012

    def see(self, epoch: int) -> None:
        """Record that rows up to `epoch` have arrived; new queries see later ones."""
        self.arena.scope("engine")["regs"][1] = epoch

    def pass_by(self, stream: str, rows: int, watermark: int) -> None:
        """Record that rows of a stream went to the shards."""
        self.sources[stream].pass_by(rows)
        self.apply([b.Heartbeat(stream, watermark)])

    def _build(self, block: b.AddTemplate, scope: Scope) -> Template:
        return outline(block, scope)

    @case(TAKE, b.DropQueries)
    def _take_drop_queries(self, block: b.DropQueries, output: b.Output) -> set[int]:
        template = self.templates[block.template]
        template.queries.drop(block.qids)
        template.queries.hold(block.qids)  # until the shards have sent their last changes
        self._free_if_unused(template)
        return set()

    def release(self, template: int, qids: I64) -> None:
        """Record that the shards have finished with dropped queries."""
        if template in self.templates:
            self.templates[template].queries.release(qids)

    def _run(self, template: Template, output: b.Output) -> None:
        template.queries.settle()
        clock = cast(I64, template.scope["clock"])
        clock[:] = max(int(clock[0]), self.clock_of(template)), 1

    def _tidy(self, blocks: list[b.Block]) -> None:
        for table in self.tables.values():
            table.trim()
