"""A shard of the job: the engine behind the wire (DESIGN §5.5, docs/design/0004-spark.md).

`Level1Shard` takes the messages of pack tasks and sends rows to level 2; `Level2Shard` takes
those and produces results. Both are deterministic: the same state and messages give the same
output. The state is the engine's arena and the `spec`, which rebuilds the operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from penstock.arrays import I64
from penstock.changes import Changes, concat_changes
from penstock.dispatch import case
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.errors import QueryFailed
from penstock.kernels.changes import DELETE, INSERT
from penstock.queries.subscribers import Subscribers
from penstock.schema import Schema
from penstock.shards import wire
from penstock.shards.encoding import Codes, Encoded, Params, decode
from penstock.shards.spec import Spec
from penstock.state.arena import Arena

MOST_SHARDS = 1 << 11


class Shard:
    """The common part of the shards of both levels."""

    level = 0
    TAKE: ClassVar[dict[type, Callable[..., list[b.Block]]]] = {}
    """The function that translates each kind of block for the shard's engine."""

    def __init__(self, index: int, count: int, arena: Arena, spec: Spec | None = None) -> None:
        """Build the operators of `spec` in an empty arena; its contents may be replaced later."""
        self.index = index
        self.count = count
        self.spec = spec or Spec()
        self.engine = engine = Engine(arena, standalone=False, level=self.level)
        tables, templates = self.spec.tables, self.spec.templates
        self._codes = Codes(engine.strings, engine.sources, tables, templates)
        self.engine.apply(list(self.spec.blocks()))
        self._subscribers = {key: self._open(made) for key, made in self.spec.templates.items()}
        self.engine.views.row_of = self._row_of
        self._coming_or_going: set[int] = (
            set()
        )  # templates with queries that are added or dropped in this step
        self.changes_out = 0  # rows of changes since this object was made
        self._results: list[wire.Result] = []
        self._reads: list[b.Read] = []  # of this batch
        self._step = 0

    def report(self) -> dict[str, Any]:
        """Which shard it is, the bytes it holds, and what its queries share.

        Identical queries are one of the `rows` of its parameter relations.
        """
        return {
            "level": self.level,
            "shard": self.index,
            "state_bytes": self.engine.arena.nbytes,
            "queries": sum(map(len, self._subscribers.values())),
            "rows": sum(one.rows for one in self._subscribers.values()),
            **self.engine.flows.report(),
        }

    # ---- blocks ----------------------------------------------------------------------
    def _take(self, block: Encoded) -> list[b.Block]:
        """Translate a block for the engine, and update the spec."""
        return self.TAKE[type(block)](self, block)

    @case(TAKE, b.Configure)
    def _take_configure(self, block: b.Configure) -> list[b.Block]:
        self.spec.settings = block.settings
        return [block]

    @case(TAKE, b.AddStream)
    def _take_add_stream(self, block: b.AddStream) -> list[b.Block]:
        self.spec.streams[block.name] = block
        return [block]

    @case(TAKE, b.SetRetain)
    def _take_set_retain(self, block: b.SetRetain) -> list[b.Block]:
        """The stream's log and those of its routes keep as much."""
        made = self.spec.streams[block.stream]
        self.spec.streams[block.stream] = replace(made, retain=block.retain)
        routes = [n for n, route in self.spec.routes.items() if route.stream == block.stream]
        return [b.SetRetain(name, block.retain) for name in (block.stream, *routes)]

    @case(TAKE, b.AddTable)
    def _take_add_table(self, block: b.AddTable) -> list[b.Block]:
        self.spec.tables[block.name] = block
        return [block]

    @case(TAKE, b.AddUdf)
    def _take_add_udf(self, block: b.AddUdf) -> list[b.Block]:
        self.spec.udfs[block.udf.name] = block
        return [block]

    @case(TAKE, b.TableChange)
    def _take_table_change(self, block: b.TableChange[bytes]) -> list[b.Block]:
        return [decode(block, self._codes)]

    @case(TAKE, b.AddTemplate)
    def _take_add_template(self, block: b.AddTemplate) -> list[b.Block]:
        if not block.plan.runs_on(self.level, self.index):
            return []
        self.spec.templates[block.key] = block
        self._subscribers[block.key] = self._open(block)
        return [block]

    @case(TAKE, b.AddQueries)
    def _take_add_queries(self, block: b.AddQueries[Params]) -> list[b.Block]:
        key = block.template
        if key not in self.spec.templates:
            if key in self.spec.broken:  # the driver does not know of the failure yet
                self._fail(key, block.qids.tolist(), "its plan has failed")
            return []
        rows = decode(block, self._codes).params
        since = -1 - block.qids if block.unshared else 0 if block.history else block.since
        self._coming_or_going.add(key)
        new, first = self._subscribers[key].add(block.qids, rows, since)
        if not new.shape[0]:
            return []
        params = np.ascontiguousarray(rows[:, first])
        return [b.AddQueries(key, params, block.history, new, block.since)]

    @case(TAKE, b.DropQueries)
    def _take_drop_queries(self, block: b.DropQueries) -> list[b.Block]:
        subscribers = self._subscribers.get(block.template)
        if subscribers is None:
            return []
        self._coming_or_going.add(block.template)
        rows = subscribers.drop(block.qids)
        return [b.DropQueries(block.template, rows)] if rows.shape[0] else []

    @case(TAKE, b.Drop)
    def _take_drop(self, block: b.Drop) -> list[b.Block]:
        self.spec.streams.pop(block.name, None)
        self.spec.tables.pop(block.name, None)
        return [block]

    @case(TAKE, b.Read)
    def _take_read(self, block: b.Read) -> list[b.Block]:
        self._reads.append(block)
        return []

    def _open(self, template: b.AddTemplate) -> Subscribers:
        scope = self.engine.arena.scope(f"subscribers/{template.key}")
        return Subscribers(scope, len(template.params))

    def _row_of(self, template: int, query: int) -> int | None:
        subscribers = self._subscribers.get(template)
        return None if subscribers is None else subscribers.row_of(query)

    def _tidy(self) -> None:
        """Forget what the engine has freed, and collect unused strings."""
        if len(self.spec.templates) > len(self.engine.templates):
            for key in self.spec.templates.keys() - self.engine.templates.keys():
                del self.spec.templates[key]
                self._subscribers.pop(key).scope.free()
        self.engine.collect_strings()

    # ---- results ---------------------------------------------------------------------
    def _add_result(self, kind: str, template: int, data: bytes) -> None:
        order = (2 * self._step + self.level - 1) * MOST_SHARDS + self.index
        self._results.append(wire.Result(kind, template, order, data))

    def _publish(self, output: b.Output) -> None:
        """The changes and failures of a step as results, by query."""
        found: dict[int, list[Changes]] = {}
        for key, changes in output.changes:
            if len(changes):
                found.setdefault(key, []).append(self._subscribers[key].shown(changes))
        for failure in output.failures:
            if failure.template not in self.engine.templates:
                self.spec.broken.add(failure.template)
            queries = self._subscribers[failure.template].fail(failure.qid)
            self._fail(failure.template, queries, failure.reason)
        for key in sorted(self._coming_or_going):
            found.setdefault(key, []).extend(self._settle(key))
        self._coming_or_going.clear()
        for key, parts in found.items():
            self._publish_changes(key, [part for part in parts if len(part)])

    def _publish_changes(self, key: int, parts: list[Changes]) -> None:
        if parts:
            changes = concat_changes(parts)
            self.changes_out += len(changes)
            data = wire.pack_changes(changes, self._schema(key), self.engine.strings)
            self._add_result("changes", key, data)

    def _fail(self, template: int, queries: list[int], reason: str) -> None:
        for query in queries:
            self._add_result("failure", template, wire.dumps((query, reason)))

    def _settle(self, key: int) -> list[Changes]:
        """Changes for queries that leave or join an existing shared row of Q."""
        subscribers = self._subscribers[key]
        left, rows = subscribers.staying()
        taken_back = self._held(key, rows, DELETE, left)
        self._fail(key, subscribers.failing(), "an identical query has failed")
        joined, rows = subscribers.joining
        subscribers.settle()
        return [*taken_back, *self._held(key, rows, INSERT, joined)]

    def _held(self, key: int, rows: I64, kind: int, queries: I64) -> list[Changes]:
        """The answers of rows of Q as changes of one kind, of some of their queries."""
        if not rows.shape[0] or key not in self.engine.templates:
            return []
        try:
            held = self.engine.answers(key, np.unique(rows), kind)
        except QueryFailed as error:
            self._fail(key, queries.tolist(), error.message)
            return []
        return [self._subscribers[key].shown(held, queries)]

    def _schema(self, key: int) -> Schema:
        return self.spec.templates[key].plan.view.schema

    def _answer_reads(self) -> None:
        """Answer the reads of the batch at its end, so that an answer has all its changes."""
        reads, self._reads = self._reads, []
        for block in reads:
            template = self.engine.templates.get(block.template)
            if template is not None and template.plan.view is not None:
                data = wire.dumps((block.request, self._answer(block)))
                self._add_result("read", block.template, data)

    def _answer(self, block: b.Read) -> bytes | str:
        """The part of the answers on this shard, or the reason why it cannot be read."""
        subscribers = self._subscribers[block.template]
        try:
            held = self.engine.answers(block.template, subscribers.rows_of(block.qids))
        except QueryFailed as error:
            return error.message
        held = subscribers.shown(held, block.qids)
        return wire.pack_changes(held, self._schema(block.template), self.engine.strings)

    def _tell_hidden(self) -> None:
        """Totals of what ON ERROR has hidden here; totals survive a missed batch."""
        found = {
            key: (hidden.nulls, hidden.rows, hidden.reason)
            for key, template in self.engine.templates.items()
            if (hidden := template.hidden)
        }
        if found:
            place = (self.level - 1) * self.count + self.index
            self._add_result("hidden", 0, wire.dumps((place, found)))

    def _take_results(self) -> tuple[wire.Result, ...]:
        self._tell_hidden()
        results, self._results, self._step = tuple(self._results), [], 0
        return results
