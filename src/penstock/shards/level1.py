"""Level 1: rows of streams by route, views of plans that need one level, sends of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.arrays import I8, I64, Bool
from penstock.delta import Delta
from penstock.dispatch import case, classes, complete
from penstock.engine import blocks as b
from penstock.optimizer.distribution import Route, Spread
from penstock.patterns.edge import Edge
from penstock.shards import wire
from penstock.shards.encoding import Arrow, Encoded, decode, encode, unpacked
from penstock.shards.entries import steps
from penstock.shards.messages import Counts, CrossMessage, LogMessage, SourceMessage
from penstock.shards.routing import anywhere, arrow_shards, row_shards, split
from penstock.shards.shard import Shard
from penstock.shards.spec import route_stream


class Level1Shard(Shard):
    """A shard of level 1."""

    level = 1
    TAKE = {**Shard.TAKE}  # noqa: RUF012

    def apply(self, messages: Iterable[LogMessage | SourceMessage]) -> list[CrossMessage]:
        """Process the messages of a batch; returns one message for every shard of level 2."""
        messages = list(messages)
        self._steps: list[list[tuple[Encoded, ...]]] = [[] for _ in range(self.count)]
        for message in messages:
            if isinstance(message, LogMessage):
                self._take_log(message)
        sources = [m for m in messages if isinstance(m, SourceMessage)]
        if sources:
            self._take_sources(sources)
        self._answer_reads()
        if self.index == 0:
            self._add_result("status", 0, wire.dumps(self._status(sources)))
        through = self._take_results()
        return [
            CrossMessage(self.index, tuple(steps), through if to == self.index else ())
            for to, steps in enumerate(self._steps)
        ]

    def _status(self, sources: list[SourceMessage]) -> dict[str, object]:
        counts: dict[str, Counts] = {}
        for message in sources:
            counts[message.stream] = counts.get(message.stream, Counts()) + message.counts
        return {"watermarks": dict(self._watermarks()), "counts": counts}

    # ---- input -----------------------------------------------------------------------
    def _take_log(self, message: LogMessage) -> None:
        waiting: list[b.Block] = []
        for blocks in steps(wire.loads(data) for data in message.entries):
            if isinstance(blocks[0], b.Rows | b.Heartbeat):
                waiting += self._take(blocks[0])
                continue
            if waiting:  # rows before a control block are a separate step
                self._run(waiting)
            waiting = []
            self._run([made for block in blocks for made in self._take(block)], blocks)
        if waiting:
            self._run(waiting)

    @case(TAKE, b.Rows)
    def _take_rows(self, block: b.Rows[Arrow]) -> list[b.Block]:
        return [*self._spread(block), *self._take(b.Heartbeat(block.stream, block.watermark))]

    def _spread(self, block: b.Rows[Arrow]) -> list[b.Block]:
        """Unrouted rows: this shard's rows on every route, and all rows for RETAIN."""
        stream = self.spec.streams[block.stream]
        (batch,) = unpacked(block.rows)
        parts = {block.stream: batch} if stream.retain else {}
        for name, route in self.spec.routes.items():
            if route.stream != block.stream or not self._gets(route):
                continue
            mine = batch
            if route.spread.kind in ("hash", "any") and self.count > 1:
                shards = arrow_shards(batch, stream.schema, route.spread, self.count)
                mine = batch.filter(pa.array(shards == self.index))
            if mine.num_rows:
                parts[name] = mine
        return [
            decode(b.Rows(name, [part], block.watermark, block.epoch), self._codes)
            for name, part in parts.items()
        ]

    def _gets(self, route: Route) -> bool:
        return route.spread.kind != "one" or route.spread.shard == self.index

    @case(TAKE, b.Heartbeat)
    def _take_heartbeat(self, block: b.Heartbeat) -> list[b.Block]:
        """The watermark of the stream and of all its routes."""
        routes = [n for n, r in self.spec.routes.items() if r.stream == block.stream]
        known = [n for n in (block.stream, *routes) if n in self.engine.sources]
        return [b.Heartbeat(name, block.watermark) for name in known]

    def _take_sources(self, messages: list[SourceMessage]) -> None:
        """Rows of external sources in the order of their places, independent of the task."""
        known = [m for m in messages if m.stream in self.spec.streams]
        reached: dict[str, int] = {}
        for m in known:
            reached[m.stream] = max(reached.get(m.stream, m.reached), m.reached)
        pieces = [(m, piece) for m in known for piece in m.pieces]
        routed: dict[tuple[str, str, int], list[pa.RecordBatch]] = {}
        blocks: list[b.Block] = []
        for m, piece in sorted(pieces, key=lambda found: (found[0].stream, found[1].place)):
            if piece.whole is not None:
                blocks += self._spread(b.Rows(m.stream, piece.whole, reached[m.stream], m.epoch))
            for name, data in piece.routed:
                if name in self.engine.sources:
                    found = routed.setdefault((name, m.stream, m.epoch), [])
                    found.append(wire.unpack_batch(data))
        for (name, stream, epoch), batches in routed.items():
            blocks.append(decode(b.Rows(name, batches, reached[stream], epoch), self._codes))
        for stream, watermark in sorted(reached.items()):
            blocks += self._take(b.Heartbeat(stream, watermark))
        if blocks:
            self._run(blocks)

    # ---- control ---------------------------------------------------------------------
    @case(TAKE, b.AddTemplate)
    def _take_add_template(self, block: b.AddTemplate) -> list[b.Block]:
        for route in block.plan.routes:
            if route.name not in self.spec.routes:
                self._open_route(route)
        return super()._take_add_template(block)

    def _open_route(self, route: Route) -> None:
        """A new route starts at its stream's watermark, with the retained rows."""
        self.spec.routes[route.name] = route
        base = self.engine.sources[route.stream]
        made = route_stream(route.name, self.spec.streams[route.stream])
        self.engine.apply([made, b.Heartbeat(route.name, base.watermark)])
        kept, ts, epoch = base.read(base.discarded, base.discarded + len(base))
        if ts.shape[0] and self._gets(route):
            rows = np.ascontiguousarray(kept.T)
            mine = np.flatnonzero(self._mine(route, rows))
            source = self.engine.sources[route.name]
            source.add(np.ascontiguousarray(rows[:, mine]), ts[mine], epoch[mine])

    def _mine(self, route: Route, rows: I64) -> Bool:
        n = rows.shape[1]
        spread = route.spread
        if spread.kind == "any":
            return np.asarray(anywhere(n, self.count) == self.index)
        if spread.kind != "hash":
            return np.ones(n, np.bool_)
        schema = self.spec.streams[route.stream].schema
        shards = row_shards(rows, schema, spread.columns, self.engine.strings, self.count)
        return np.asarray(shards == self.index)

    @case(TAKE, b.Drop)
    def _take_drop(self, block: b.Drop) -> list[b.Block]:
        gone = [n for n, r in self.spec.routes.items() if r.stream == block.name]
        for name in gone:
            del self.spec.routes[name]
        return [*super()._take_drop(block), *(b.Drop(n) for n in gone)]

    def _tidy(self) -> None:
        super()._tidy()
        gone = sorted(name for name in self.spec.routes if not self.engine.is_read(name))
        if gone:
            for name in gone:
                del self.spec.routes[name]
            self.engine.apply([b.Drop(name) for name in gone])

    # ---- the step --------------------------------------------------------------------
    def _watermarks(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.engine.sources[name].watermark) for name in self.spec.streams)

    def _run(self, blocks: list[b.Block], told: Sequence[Encoded] = ()) -> None:
        """Take a step; level 2 gets the rows sent to it, and what the log `told` this level."""
        output = self.engine.apply(blocks)
        self._publish(output)
        crossing: list[list[Encoded]] = [[] for _ in range(self.count)]
        crossing[self.index] += [block for block in told if self._is_for_level_2(block)]
        crossing[self.index] += [b.Heartbeat(*mark) for mark in self._watermarks()]
        for template, send, delta in output.sent:
            for to, part in self._parts(send.spread, delta, self._edge(template, send.channel)):
                crossing[to].append(encode(b.Received(template, send.channel, part), self._codes))
        for steps_to, step in zip(self._steps, crossing, strict=True):
            steps_to.append(tuple(step))
        self._step += 1
        self._tidy()

    def _is_for_level_2(self, block: Encoded) -> bool:
        """Whether level 2 may need a block of the log, also for a template that failed here."""
        match block:
            case b.AddTemplate():
                return block.plan.upper
            case b.AddQueries() | b.DropQueries() | b.Read():
                template = self.spec.templates.get(block.template)
                return template is None or bool(template.plan.sends)
        return True

    def _edge(self, template: int, channel: int) -> Edge:
        plan = self.engine.templates[template].plan
        return next(op.edge for send, op in plan.sends if send.channel == channel)

    def _parts(self, spread: Spread, delta: Delta, edge: Edge) -> Iterator[tuple[int, Delta]]:
        """The rows for each shard; a replacement split over two shards becomes two changes."""
        if spread.kind == "one":
            yield spread.shard, delta
        elif spread.kind == "all" or self.count == 1:
            yield from ((to, delta) for to in range(self.count))
        else:
            strings = self.engine.strings
            shards = row_shards(delta.rows, edge.schema, spread.columns, strings, self.count)
            if edge.keyed:
                delta = delta.with_(sign=_part_pairs(delta.sign, shards))
            for to, index in enumerate(split(shards, self.count)):
                if index.shape[0]:
                    yield to, delta.take(index)


def _part_pairs(sign: I8, shards: I64) -> I8:
    """Signs, with ±1 for (−2, +2) pairs that go to two shards."""
    first = np.flatnonzero(sign == -2)
    broken = first[shards[first] != shards[first + 1]]
    if broken.shape[0]:
        sign = sign.copy()
        sign[broken], sign[broken + 1] = -1, 1
    return sign


complete(
    Level1Shard.TAKE, [c for c in classes(Encoded) if c is not b.Received], "way to take a block"
)
