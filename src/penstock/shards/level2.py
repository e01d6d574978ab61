"""Level 2: plans over rows that level 1 sends; results of level 1 pass through."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.delta import Delta, merge
from penstock.engine import blocks as b
from penstock.schema import Schema
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.shards.messages import CrossMessage, StepMessage
from penstock.shards.shard import Shard


class Level2Shard(Shard):
    """A shard of level 2."""

    level = 2

    def apply(self, messages: Iterable[CrossMessage]) -> list[wire.Result]:
        """Process the messages of level 1; returns the results of the batch."""
        ordered = sorted(messages, key=lambda m: m.origin)
        for k in range(max((len(m.steps) for m in ordered), default=0)):
            self._take_step([m.steps[k] for m in ordered])
            self._step += 1
        self._answer_reads()
        through = [r for m in ordered for r in m.through]
        return [*through, *self._take_results()]

    def _take_step(self, steps: list[StepMessage]) -> None:
        blocks: list[b.Block] = []
        for step in steps:
            for block in step.blocks:
                blocks += self._take(block)
            blocks += self._moved(step.watermarks)
        blocks += self._received([p for step in steps for p in step.parcels])
        if blocks or self._coming_or_going:
            self._publish(self.engine.apply(blocks))
        self._tidy()

    def _moved(self, watermarks: tuple[tuple[str, int], ...]) -> list[b.Block]:
        """The streams with a watermark; streams declared in this step have none yet."""
        sources = self.engine.sources
        return [
            b.Heartbeat(name, mark)
            for name, mark in watermarks
            if name in self.spec.streams and (name not in sources or mark > sources[name].watermark)
        ]

    def _received(self, parcels: list[wire.Parcel]) -> list[b.Block]:
        """Rows by channel, merged by time; at one instant in the order of their origin."""
        found: dict[tuple[int, int], list[Delta]] = {}
        schemas: dict[tuple[int, int], Schema] = {}
        for parcel in parcels:
            template = self.spec.templates.get(parcel.template)
            if template is None:
                continue
            key = (parcel.template, parcel.channel)
            schemas[key] = dict(template.received)[parcel.channel].schema
            delta = wire.unpack_delta(parcel, schemas[key], self.engine.strings)
            found.setdefault(key, []).append(delta)
        return [
            b.Received(*key, merge(deltas, len(schemas[key])))
            for key, deltas in sorted(found.items(), key=lambda item: item[0])
        ]

    def _deploy(self, block: e.Deploy) -> list[b.Block]:
        if not block.plan.upper or not self._is_home(block):
            return []
        made = b.AddTemplate(
            block.key, block.plan.view, block.params, block.emission, block.emits,
            received=block.received, streams=block.streams,
        )  # fmt: skip
        return [self._add_template(block, made)]
