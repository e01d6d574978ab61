"""The engine shard (DESIGN §5.5): `apply(blocks) -> output`, all state in one arena.

A step takes the blocks in order, moves every affected template to its clock (the least
watermark of its streams) and collects the changes. It never reads a wall clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.changes import Changes
from penstock.delta import Delta, Lineage
from penstock.dispatch import case, classes, complete
from penstock.eddy.flow import Flow
from penstock.eddy.flows import Flows
from penstock.eddy.settings import Settings
from penstock.engine import blocks as b
from penstock.engine.build import build
from penstock.engine.template import Template
from penstock.engine.view_readers import ViewReaders
from penstock.errors import QueryFailed
from penstock.expressions.context import Context, Failures
from penstock.kernels.changes import INSERT
from penstock.roomy import roomy
from penstock.schema import Schema
from penstock.state.arena import Arena, Scope
from penstock.state.source_log import SourceLog
from penstock.state.strings import StringTable
from penstock.state.table_store import TableStore


class Engine:
    """One shard, of level 1 or 2.

    A `standalone` engine drops a query that fails. One of several shards only reports it: all
    shards must drop the query at the same step, or they would number queries differently.
    """

    TAKE: ClassVar[dict[type, Callable[..., set[int]]]] = {}
    """The method that applies each kind of block to the state."""

    def __init__(
        self,
        arena: Arena | None = None,
        standalone: bool = True,
        settings: Settings | None = None,
        level: int = 1,
    ) -> None:
        self._standalone, self._level = standalone, level
        self.arena = arena or Arena()
        self.arena.scope("engine").array("regs", 2)
        self.strings = StringTable(self.arena.scope("strings"))
        self.ctx = Context(self.strings, {}, Failures())
        self.flows = Flows(self.arena, self.ctx, settings)
        self.sources: dict[str, SourceLog] = {}
        self.tables: dict[str, TableStore] = {}
        self.templates: dict[int, Template] = {}
        self.views = ViewReaders(self.templates)
        self._params: dict[int, Schema] = {}
        self._readers: dict[str, set[int]] = {}  # templates by stream or table
        self._unbuilt: dict[
            int, str
        ] = {}  # templates that could not be built in this step, and why
        self._moved: set[str] = set()  # streams with new rows or moved readers since the last trim

    @property
    def batch(self) -> int:
        """Number of the last step."""
        return int(self.arena.scope("engine")["regs"][0])

    @property
    def epoch(self) -> int:
        """Number of the last step with rows; a query sees rows of later epochs."""
        return int(self.arena.scope("engine")["regs"][1])

    @roomy
    def apply(self, blocks: list[b.Block]) -> b.Output:
        """Take one step."""
        regs = self.arena.scope("engine")["regs"]
        regs[0] += 1
        regs[1] += any(isinstance(block, b.Rows) for block in blocks)
        output = b.Output(self.batch)
        self.flows.begin()
        self._unbuilt.clear()
        due: set[int] = set()
        for block in blocks:
            due |= self._take(block, output)
        due = {key for key in due | self.views.all_of(due) if key in self.templates}
        self._step_flows(due)
        for key in sorted(due):
            if key in self.templates:
                self._run(self.templates[key], output)
        self._tidy(blocks)
        return output

    # ---- blocks ----------------------------------------------------------------------
    def _take(self, block: b.Block, output: b.Output) -> set[int]:
        """Apply a block to the state; returns the templates that must take a step."""
        return self.TAKE[type(block)](self, block, output)

    @case(TAKE, b.Rows)
    def _take_rows(self, block: b.Rows[b.Timed], output: b.Output) -> set[int]:
        source, rows = self.sources[block.stream], block.rows
        source.add(rows.words, rows.ts, self.epoch if block.epoch is None else block.epoch)
        source.advance(block.watermark)
        self._moved.add(block.stream)
        return self._readers.get(block.stream, set())

    @case(TAKE, b.Heartbeat)
    def _take_heartbeat(self, block: b.Heartbeat, output: b.Output) -> set[int]:
        source = self.sources[block.stream]
        if block.watermark <= source.watermark:
            return set()  # no clock moves
        source.advance(block.watermark)
        self._moved.add(block.stream)
        return self._readers.get(block.stream, set())

    @case(TAKE, b.TableChange)
    def _take_table_change(self, block: b.TableChange[I64], output: b.Output) -> set[int]:
        self.tables[block.table].replace(block.remove, block.insert)
        return self._readers.get(block.table, set())

    @case(TAKE, b.Configure)
    def _take_configure(self, block: b.Configure, output: b.Output) -> set[int]:
        self.flows.settings = block.settings
        return set()

    @case(TAKE, b.AddStream)
    def _take_add_stream(self, block: b.AddStream, output: b.Output) -> set[int]:
        scope = self.arena.scope(f"streams/{block.name}")
        self.sources[block.name] = SourceLog(scope, block.schema, block.retain)
        self._moved.add(block.name)  # the arena may already hold its rows
        return set()

    @case(TAKE, b.SetRetain)
    def _take_set_retain(self, block: b.SetRetain, output: b.Output) -> set[int]:
        self.sources[block.stream].retain = block.retain
        self._moved.add(block.stream)
        return set()

    @case(TAKE, b.AddTable)
    def _take_add_table(self, block: b.AddTable, output: b.Output) -> set[int]:
        scope = self.arena.scope(f"tables/{block.name}")
        self.tables[block.name] = TableStore(scope, block.schema)
        return set()

    @case(TAKE, b.AddUdf)
    def _take_add_udf(self, block: b.AddUdf, output: b.Output) -> set[int]:
        self.ctx.udfs[block.udf.name] = block.udf
        return set()

    @case(TAKE, b.AddTemplate)
    def _take_add_template(self, block: b.AddTemplate, output: b.Output) -> set[int]:
        try:
            template = self._build(block, self.arena.scope(f"templates/{block.key}"))
        except Exception as error:
            if self._standalone:
                raise
            self._unbuilt[block.key] = f"{type(error).__name__}: {error}"
            return set()
        self.templates[block.key] = template
        self.views.add(template)
        self._params[block.key] = block.params
        for name in (*template.streams, *template.tables):
            self._readers.setdefault(name, set()).add(block.key)
        return {block.key}

    def _build(self, block: b.AddTemplate, scope: Scope) -> Template:
        sources, tables = self.sources, self.tables
        return build(block, self._level, sources, tables, self.ctx, scope, self.flows)

    @case(TAKE, b.AddQueries)
    def _take_add_queries(self, block: b.AddQueries[I64], output: b.Output) -> set[int]:
        if block.template not in self.templates:  # it could not be built in this step
            qids, reason = block.qids.tolist(), self._unbuilt[block.template]
            output.failures += [b.Failure(block.template, qid, reason) for qid in qids]
            return set()
        since = 0 if block.history else block.since
        self.templates[block.template].queries.add(block.params, since, block.qids)
        return {block.template}

    @case(TAKE, b.DropQueries)
    def _take_drop_queries(self, block: b.DropQueries, output: b.Output) -> set[int]:
        template = self.templates.get(block.template)
        if template is not None:
            gone = template.drop(block.qids, self.clock_of(template))
            output.changes.append((block.template, gone))
            self._free_if_unused(template)
        return set()

    @case(TAKE, b.Received)
    def _take_received(self, block: b.Received[Delta], output: b.Output) -> set[int]:
        template = self.templates.get(block.template)
        if template is None:
            return set()
        template.receive(block.channel, block.delta)
        return {block.template}

    def _free_if_unused(self, template: Template) -> None:
        if len(template.queries) == 0:
            template.close()
            template.scope.free()
            self.views.remove(template)
            self._moved.update(template.streams)
            del self.templates[template.key], self._params[template.key]
            for name in (*template.streams, *template.tables):
                self._readers[name].discard(template.key)

    @case(TAKE, b.Drop)
    def _take_drop(self, block: b.Drop, output: b.Output) -> set[int]:
        self._readers.pop(block.name, None)
        for found in (self.sources.pop(block.name, None), self.tables.pop(block.name, None)):
            if found is not None:
                found.scope.free()
        return set()

    # ---- the step --------------------------------------------------------------------
    def clock_of(self, template: Template) -> int:
        """The least watermark of the streams below; for tables alone, of all streams."""
        names = template.streams or tuple(self.sources)
        return min((self.sources[s].watermark for s in names), default=BEGINNING)

    def _step_flows(self, due: set[int]) -> None:
        """Each flow that these templates read routes its rows, once for all of them."""
        clocks: dict[Flow, int] = {}
        for template in (self.templates[key] for key in sorted(due)):
            for flow in template.flows:
                if flow not in clocks:  # templates of a flow have one clock
                    clocks[flow] = max(self.clock_of(template), template.clock)
        for flow, now in clocks.items():
            flow.step(now)

    def _run(self, template: Template, output: b.Output) -> None:
        self._forget_reading()
        self._moved.update(template.streams)
        try:
            self.views.begin(template)
            step = template.step(self.clock_of(template))
        except Exception as error:  # a failing plan must not stop the others
            self._break(template, f"{type(error).__name__}: {error}", output)
            return
        output.changes.append((template.key, step.changes))
        self.views.tell(template, step.changes)
        output.sent += [(template.key, send, delta) for send, delta in step.sent if len(delta)]
        hidden = self.ctx.hidden.drain()
        if hidden:
            template.note(hidden)
        self._give_up(template, self._failures(template), output)

    def _give_up(self, template: Template, failed: list[b.Failure], output: b.Output) -> None:
        """Fail some queries, and those that read their answers."""
        if not failed:
            return
        output.failures += failed
        qids = np.array([f.qid for f in failed], np.int64)
        self._fail_readers(template.key, qids, failed[0].reason, output)
        if self._standalone:
            output.changes.append((template.key, template.drop(qids, self.clock_of(template))))
            self._free_if_unused(template)

    def _forget_reading(self) -> None:
        """Failures met while contents were read, outside a step."""
        self.ctx.failures.drain()
        self.ctx.hidden.drain()

    def _fail_readers(self, view: int, qids: I64, reason: str, output: b.Output) -> None:
        for reader, name in list(self.views.readers_of(view, qids)):
            why = f"the query reads view {name}, which failed: {reason}"
            live = reader.queries.live(Lineage.QUERY).tolist()
            self._give_up(reader, [b.Failure(reader.key, qid, why) for qid in live], output)

    def _break(self, template: Template, reason: str, output: b.Output) -> None:
        """Give up a plan after a step that raised: its state may be inconsistent."""
        self._forget_reading()
        qids = template.queries.live(Lineage.QUERY)
        output.failures += [b.Failure(template.key, int(q), reason) for q in qids]
        self._fail_readers(template.key, qids, reason, output)
        template.queries.drop(qids)
        self._free_if_unused(template)

    def _failures(self, template: Template) -> list[b.Failure]:
        reasons: dict[int, str] = {}
        for level, lin, reason in self.ctx.failures.drain():
            qids = template.queries.live(Lineage.QUERY)
            if level is Lineage.QUERY:
                qids = qids[qids == lin]
            elif level is Lineage.SET:
                assert template.sets is not None
                qids = np.intersect1d(qids, template.sets.explode(np.array([lin]))[1])
            elif level is Lineage.COHORT:
                qids = qids[template.queries.cohort()[qids] == lin]
            else:  # a row of epoch `lin`, which only some queries see
                qids = qids[template.queries.since(Lineage.QUERY)[qids] <= lin]
            for qid in qids.tolist():
                reasons.setdefault(qid, reason)
        return [b.Failure(template.key, qid, reason) for qid, reason in sorted(reasons.items())]

    def _tidy(self, blocks: list[b.Block]) -> None:
        """Trim logs to their slowest readers."""
        if any(isinstance(block, (b.Rows, b.Heartbeat)) for block in blocks):
            moved = [name for name in self._moved & self.sources.keys() if len(self.sources[name])]
            slowest = self._slowest(moved)
            for name in moved:
                self.sources[name].trim(slowest.get(name, NEVER))
            self._moved.clear()
        for table in self.tables.values():
            table.trim()

    def _slowest(self, streams: list[str]) -> dict[str, int]:
        """For each stream with readers, the position of the slowest reader."""
        found: dict[str, int] = {}
        for key in set[int]().union(*(self._readers.get(stream, ()) for stream in streams)):
            for name, place in self._positions(self.templates[key]):
                found[name] = min(place, found.get(name, place))
        return found

    def _positions(self, template: Template) -> Iterator[tuple[str, int]]:
        """The place of each of its readers in the log of a stream."""
        return template.positions()

    def is_read(self, name: str) -> bool:
        """Whether a template reads a stream or table."""
        return bool(self._readers.get(name))

    def collect_strings(self) -> None:
        """Free strings that no state holds; only between steps, when no output holds any."""
        if self.strings.should_collect():
            self.strings.collect(self._marks())

    def shrink(self) -> None:
        """Free the spare room of logs; only between steps."""
        for source in self.sources.values():
            source.shrink()

    def _marks(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which string codes some state may still hold (conservative)."""
        marks = np.zeros(self.strings.capacity, np.bool_)

        def mark(array: I64) -> None:
            codes = array[(array >= 0) & (array < marks.shape[0])]
            marks[codes] = True

        for source in self.sources.values():
            for c in source.schema.string_columns:
                mark(source.scope["rows"][:, 1 + c])  # type: ignore[arg-type]
        for table in self.tables.values():
            for c in table.schema.string_columns:
                mark(table.scope["rows"][:, 1 + c])  # type: ignore[arg-type]
        arrays = self.arena.arrays()
        for key, template in self.templates.items():
            for c in self._params[key].string_columns:
                mark(template.queries.matrix()[:, 1 + c])
            for operator in template.plan.operators:
                for place in operator.strings():
                    array = arrays[place.array]
                    mark(array[..., list(place.columns)] if place.columns else array)  # type: ignore[arg-type]
        return marks

    @roomy
    def answers(self, key: int, qids: I64, kind: int = INSERT) -> Changes:
        """The answers of queries of a template, as changes of one kind at the clock."""
        self._forget_reading()
        template = self.templates[key]
        held = template.held(qids, kind, self.clock_of(template))
        for _, _, reason in self.ctx.failures.drain():
            raise QueryFailed(f"the answer cannot be read: {reason}")
        return held


complete(Engine.TAKE, classes(b.Block), "way to take a block")
