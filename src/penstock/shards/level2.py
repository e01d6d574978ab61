"""Level 2: plans over rows that level 1 sends; results of level 1 pass through."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.delta import Delta, merge
from penstock.dispatch import case, classes, complete
from penstock.engine import blocks as b
from penstock.shards import wire
from penstock.shards.encoding import Encoded, Parcel, decode
from penstock.shards.messages import CrossMessage
from penstock.shards.shard import Shard


class Level2Shard(Shard):
    """A shard of level 2."""

    level = 2
    TAKE = {**Shard.TAKE}  # noqa: RUF012

    def apply(self, messages: Iterable[CrossMessage]) -> list[wire.Result]:
        """Process the messages of level 1; returns the results of the batch."""
        ordered = sorted(messages, key=lambda m: m.origin)
        for k in range(max((len(m.steps) for m in ordered), default=0)):
            self._take_step([m.steps[k] for m in ordered])
            self._step += 1
        self._answer_reads()
        through = [r for m in ordered for r in m.through]
        return [*through, *self._take_results()]

    def _take_step(self, steps: list[tuple[Encoded, ...]]) -> None:
        self._arrived: list[b.Received[Parcel]] = []
        blocks = [made for step in steps for block in step for made in self._take(block)]
        blocks += self._merged()
        if blocks or self._coming_or_going:
            self._publish(self.engine.apply(blocks))
        self._tidy()

    @case(TAKE, b.Heartbeat)
    def _take_heartbeat(self, block: b.Heartbeat) -> list[b.Block]:
        """A watermark that has moved; a stream declared in this step has none yet."""
        if block.stream not in self.spec.streams:
            return []
        source = self.engine.sources.get(block.stream)
        return [block] if source is None or block.watermark > source.watermark else []

    @case(TAKE, b.Received)
    def _take_received(self, block: b.Received[Parcel]) -> list[b.Block]:
        self._arrived.append(block)
        return []

    def _merged(self) -> list[b.Block]:
        """Rows by channel, merged by time; at one instant in the order of their origin."""
        found: dict[tuple[int, int], list[Delta]] = {}
        for block in self._arrived:
            if block.template in self.spec.templates:
                delta = decode(block, self._codes).delta
                found.setdefault((block.template, block.channel), []).append(delta)
        return [
            b.Received(*key, merge(deltas, len(self._codes.received(*key))))
            for key, deltas in sorted(found.items(), key=lambda item: item[0])
        ]


complete(Level2Shard.TAKE, [c for c in classes(Encoded) if c is not b.Rows], "way to take a block")
