"""Level 1: rows of streams by route, views of plans that need one level, sends of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np
import pyarrow as pa

from penstock.arrays import I8, I64, Bool
from penstock.delta import Delta
from penstock.engine import blocks as b
from penstock.optimizer.distribution import Route, Spread
from penstock.patterns.edge import Edge
from penstock.schema import Schema
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.shards.messages import (
    Counts,
    CrossMessage,
    LogMessage,
    SourceMessage,
    StepMessage,
)
from penstock.shards.routing import anywhere, arrow_shards, row_shards, split
from penstock.shards.shard import Shard
from penstock.shards.spec import route_stream
from penstock.state.convert import fill_column


class Level1Shard(Shard):
    """A shard of level 1."""

    level = 1

    def apply(self, messages: Iterable[LogMessage | SourceMessage]) -> list[CrossMessage]:
        """Process the messages of a batch; returns one message for every shard of level 2."""
        messages = list(messages)
        self._steps: list[list[StepMessage]] = [[] for _ in range(self.count)]
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
        for number, blocks in e.steps(wire.loads(data) for data in message.entries):
            first = blocks[0]
            if isinstance(first, e.Push):
                waiting += self._push(first, number)
            elif isinstance(first, b.Heartbeat):
                waiting += self._beat(first.stream, first.watermark)
            else:
                self._run(waiting, ())  # rows before a control block are a separate step
                waiting = []
                self._control(cast(list[e.Control], blocks))
        self._run(waiting, ())

    def _control(self, blocks: list[e.Control]) -> None:
        made = [part for block in blocks for part in self._take(block)]
        self._run(made, tuple(blocks), always=True)

    def _push(self, push: e.Push, epoch: int) -> list[b.Block]:
        batch = wire.unpack_batch(push.rows)
        return [
            *self._spread(push.stream, batch, epoch, push.watermark),
            *self._beat(push.stream, push.watermark),
        ]

    def _spread(
        self, stream: str, batch: pa.RecordBatch, epoch: int, watermark: int
    ) -> list[b.Block]:
        """Unrouted rows: this shard's rows on every route, and all rows for RETAIN."""
        schema = self.spec.streams[stream].schema
        found: list[b.Block] = []
        if self.spec.streams[stream].retain:
            found.append(self._rows(stream, [batch], epoch, watermark))
        for name, route in self.spec.routes.items():
            if route.stream != stream or not self._gets(route):
                continue
            mine = batch
            if route.spread.kind in ("hash", "any") and self.count > 1:
                shards = arrow_shards(batch, schema, route.spread, self.count)
                mine = batch.filter(pa.array(shards == self.index))
            if mine.num_rows:
                found.append(self._rows(name, [mine], epoch, watermark))
        return found

    def _gets(self, route: Route) -> bool:
        return route.spread.kind != "one" or route.spread.shard == self.index

    def _rows(self, name: str, batches: list[pa.RecordBatch], epoch: int, watermark: int) -> b.Rows:
        """Rows in the engine's form; columns that were not shipped are 0 and never read."""
        schema = self.engine.sources[name].schema
        count = sum(batch.num_rows for batch in batches)
        rows, ts = np.zeros((1 + len(schema), count), np.int64), np.empty(count, np.int64)
        end = 0
        for batch in batches:
            start, end = end, end + batch.num_rows
            self._fill(batch, schema, rows[:, start:end])
            ts[start:end] = batch.column(wire.TIME).to_numpy()
        return b.Rows(name, rows, ts, watermark, epoch)

    def _fill(self, batch: pa.RecordBatch, schema: Schema, rows: I64) -> None:
        for j, column in enumerate(schema):
            at = batch.schema.get_field_index(column.name)
            if at < 0:
                continue
            null = fill_column(batch.column(at), column.type, self.engine.strings, rows[1 + j])
            if null is not None:
                rows[0] |= null.astype(np.int64) << j

    def _beat(self, stream: str, watermark: int) -> list[b.Block]:
        """A stream's watermark, for the stream and all its routes."""
        names = [stream, *(n for n, r in self.spec.routes.items() if r.stream == stream)]
        return [b.Heartbeat(n, watermark) for n in names if n in self.engine.sources]

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
                batch = wire.unpack_batch(piece.whole)
                blocks += self._spread(m.stream, batch, m.epoch, reached[m.stream])
            for name, data in piece.routed:
                if name in self.engine.sources:
                    found = routed.setdefault((name, m.stream, m.epoch), [])
                    found.append(wire.unpack_batch(data))
        for (name, stream, epoch), batches in routed.items():
            blocks.append(self._rows(name, batches, epoch, reached[stream]))
        for stream, watermark in sorted(reached.items()):
            blocks += self._beat(stream, watermark)
        self._run(blocks, ())

    # ---- control ---------------------------------------------------------------------
    def _deploy(self, block: e.Deploy) -> list[b.Block]:
        blocks: list[b.Block] = []
        for route in block.plan.routes:
            if route.name not in self.spec.routes:
                blocks += self._open_route(route)
        if block.plan.sends or (not block.plan.upper and self._is_home(block)):
            node = None if block.plan.sends else block.plan.view
            made = b.AddTemplate(
                block.key, node, block.params, block.emission, block.emits, block.plan.sends
            )
            blocks.append(self._add_template(block, made))
        return blocks

    def _open_route(self, route: Route) -> list[b.Block]:
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
        return []

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

    def _drop(self, block: b.Drop) -> list[b.Block]:
        gone = [n for n, r in self.spec.routes.items() if r.stream == block.name]
        for name in gone:
            del self.spec.routes[name]
        return [*super()._drop(block), *(b.Drop(n) for n in gone)]

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

    def _run(
        self, blocks: list[b.Block], control: tuple[e.Control, ...], always: bool = False
    ) -> None:
        if not blocks and not always:
            return
        control = tuple(block for block in control if self._is_for_level_2(block))
        output = self.engine.apply(blocks)
        self._publish(output)
        parcels: list[list[wire.Parcel]] = [[] for _ in range(self.count)]
        for template, send, delta in output.sent:
            edge = self._sent_edge(template, send.channel)
            for to, part in self._parts(send.spread, delta, edge):
                parcel = wire.pack_delta(
                    template, send.channel, part, edge.schema, self.engine.strings
                )
                parcels[to].append(parcel)
        marks = self._watermarks()
        for to in range(self.count):
            mine = to == self.index
            step = StepMessage(control if mine else (), marks if mine else (), tuple(parcels[to]))
            self._steps[to].append(step)
        self._step += 1
        self._tidy()

    def _is_for_level_2(self, block: e.Control) -> bool:
        """Whether level 2 may need a control block, also for a template that failed here."""
        match block:
            case e.Deploy():
                return block.plan.upper
            case e.AddQueries() | b.DropQueries() | e.Read():
                template = self.spec.templates.get(block.template)
                return template is None or bool(template.sends)
        return True

    def _sent_edge(self, template: int, channel: int) -> Edge:
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
