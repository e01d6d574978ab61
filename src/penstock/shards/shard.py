"""A shard of the job: the engine behind the wire (DESIGN §5.5, docs/design/0004-spark.md).

`Level1Shard` takes the messages of pack tasks and sends rows to level 2; `Level2Shard` takes
those and produces results. Both are deterministic: the same state and messages give the same
output. The state is the engine's arena and the `spec`, which rebuilds the operators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from penstock.arrays import I64
from penstock.changes import Changes, concat_changes
from penstock.engine import blocks as b
from penstock.engine.engine import Engine
from penstock.errors import QueryFailed
from penstock.kernels.changes import DELETE, INSERT
from penstock.queries.subscribers import Subscribers
from penstock.schema import Schema
from penstock.shards import entries as e
from penstock.shards import wire
from penstock.shards.spec import Spec
from penstock.state.arena import Arena
from penstock.state.convert import to_rows

MOST_SHARDS = 1 << 11


class Shard(ABC):
    """The common part of the shards of both levels."""

    level = 0

    def __init__(self, index: int, count: int, arena: Arena, spec: Spec | None = None) -> None:
        """Build the operators of `spec` in an empty arena; its contents may be replaced later."""
        self.index = index
        self.count = count
        self.spec = spec or Spec()
        self.engine = Engine(arena, standalone=False)
        self.engine.apply(list(self.spec.blocks()))
        self._subscribers = {key: self._open(made) for key, made in self.spec.templates.items()}
        self.engine.views.row_of = self._row_of
        self._coming_or_going: set[int] = (
            set()
        )  # templates with queries that are added or dropped in this step
        self.changes_out = 0  # rows of changes since this object was made
        self._results: list[wire.Result] = []
        self._reads: list[e.Read] = []  # of this batch
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

    # ---- control ---------------------------------------------------------------------
    def _take(self, block: e.Control) -> list[b.Block]:
        """Translate a portable block into blocks of this shard's engine, and update the spec."""
        match block:
            case b.SetRouting():
                self.spec.routing = block.routing
            case b.AddStream():
                self.spec.streams[block.name] = block
            case b.SetRetain():
                return self._set_retain(block)
            case b.AddTable():
                self.spec.tables[block.name] = block
            case b.AddUdf():
                self.spec.udfs[block.udf.name] = block
            case e.ChangeTable():
                schema = self.spec.tables[block.table].schema
                rows = to_rows(wire.unpack_batch(block.insert), schema, self.engine.strings)
                return [b.TableChange(block.table, block.remove, rows)]
            case e.AddQueries():
                return self._add_queries(block)
            case b.DropQueries():
                return self._drop_queries(block)
            case e.Deploy():
                return self._deploy(block)
            case b.Drop():
                return self._drop(block)
            case e.Read():
                self._reads.append(block)
                return []
        return [block]

    def _set_retain(self, block: b.SetRetain) -> list[b.Block]:
        """The stream's log and those of its routes keep as much."""
        made = self.spec.streams[block.stream]
        self.spec.streams[block.stream] = replace(made, retain=block.retain)
        routes = [n for n, route in self.spec.routes.items() if route.stream == block.stream]
        return [b.SetRetain(name, block.retain) for name in (block.stream, *routes)]

    def _add_queries(self, block: e.AddQueries) -> list[b.Block]:
        template = self.spec.templates.get(block.template)
        if template is None:
            if block.template in self.spec.broken:  # the driver does not know of the failure yet
                self._fail(block.template, block.qids.tolist(), "its plan has failed")
            return []
        rows = wire.unpack_params(block.params, template.params, self.engine.strings)
        since = -1 - block.qids if block.unshared else 0 if block.history else block.since
        self._coming_or_going.add(block.template)
        new, first = self._subscribers[block.template].add(block.qids, rows, since)
        if not new.shape[0]:
            return []
        params = np.ascontiguousarray(rows[:, first])
        return [b.AddQueries(block.template, params, block.history, new, block.since)]

    def _drop_queries(self, block: b.DropQueries) -> list[b.Block]:
        subscribers = self._subscribers.get(block.template)
        if subscribers is None:
            return []
        self._coming_or_going.add(block.template)
        rows = subscribers.drop(block.qids)
        return [b.DropQueries(block.template, rows)] if rows.shape[0] else []

    @abstractmethod
    def _deploy(self, block: e.Deploy) -> list[b.Block]:
        """The shard's part of a new template."""

    def _add_template(self, block: e.Deploy, made: b.AddTemplate) -> b.AddTemplate:
        self.spec.templates[block.key] = made
        self._subscribers[block.key] = self._open(made)
        return made

    def _open(self, template: b.AddTemplate) -> Subscribers:
        scope = self.engine.arena.scope(f"subscribers/{template.key}")
        return Subscribers(scope, len(template.params))

    def _row_of(self, template: int, query: int) -> int | None:
        subscribers = self._subscribers.get(template)
        return None if subscribers is None else subscribers.row_of(query)

    def _is_home(self, block: e.Deploy) -> bool:
        return block.plan.home is None or block.plan.home == self.index

    def _drop(self, block: b.Drop) -> list[b.Block]:
        self.spec.streams.pop(block.name, None)
        self.spec.tables.pop(block.name, None)
        return [block]

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
        node = self.spec.templates[key].node
        assert node is not None
        return node.schema

    def _answer_reads(self) -> None:
        """Answer the reads of the batch at its end, so that an answer has all its changes."""
        reads, self._reads = self._reads, []
        for block in reads:
            template = self.engine.templates.get(block.template)
            if template is not None and template.plan.view is not None:
                data = wire.dumps((block.request, self._answer(block)))
                self._add_result("read", block.template, data)

    def _answer(self, block: e.Read) -> bytes | str:
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
