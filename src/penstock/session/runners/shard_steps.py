"""Steps on shards: the session's own engine runs them, and the log passes them to the shards.

The session's engine is a `ControlEngine`: it has tables, Q and plans, but no rows of streams. The
shards send their results back in batches (`session/inbox.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.engine.admission import Admitted
from penstock.engine.control import ControlEngine
from penstock.queries.registry import Chosen, TemplateInfo
from penstock.roomy import roomy
from penstock.session import clock
from penstock.session.books import Books
from penstock.session.calls import LoggedCalls
from penstock.session.gate import Gate
from penstock.session.leaving import Leaving, LeavingQueries
from penstock.session.placement import Deployed, place
from penstock.session.progress import counted
from penstock.session.templates import template_block
from penstock.shards import wire
from penstock.shards.encoding import Codes, Encoded, encode
from penstock.shards.messages import Counts
from penstock.sql.catalog import StreamDef
from penstock.state.convert import to_rows

_SAMPLE_ROWS = 2_000


class ShardSteps:
    """Runs steps on the control engine and writes them to the log.

    `retired` has the templates without queries, each with the entry of its last drop: rows of
    earlier batches still go to them.
    """

    def __init__(
        self,
        books: Books,
        control: ControlEngine,
        gate: Gate,
        calls: LoggedCalls,
        leaving: LeavingQueries,
        shards: int,
    ) -> None:
        self.deployed = deployed = Deployed()
        self._codes = Codes(control.strings, control.sources, control.tables, deployed)
        self.retired: list[tuple[int, b.AddTemplate]] = []
        self.pushed: dict[int, dict[str, Counts]] = {}  # by entry, until its batch
        self._books, self._control, self._gate = books, control, gate
        self._calls, self._leaving, self._shards = calls, leaving, shards
        calls.repeat_with({"beat": self.beat, "fail": self.fail, "count_push": self._count_push})

    def apply(self, blocks: list[b.Block], defer: bool = False) -> b.Output:
        """Run a step here and append it to the log; its changes come with a batch."""
        output = self._control.apply(blocks)
        self._calls.tell([self._told(block) for block in blocks])
        return output

    @roomy
    def _told(self, block: b.Block) -> Encoded:
        """The block for the shards after the session's engine has taken a block."""
        if isinstance(block, b.AddTemplate):
            block = place(block, self._shards, self.deployed)
            self.deployed.put(block)
        elif isinstance(block, b.DropQueries) and block.template not in self._control.templates:
            self._retire(block.template)
        return encode(block, self._codes)

    def _retire(self, template: int) -> None:
        """Record that a template has no queries any more."""
        gone = self.deployed.get(template)
        if gone is not None:
            self.retired.append((self._calls.number, gone))
        self.deployed.remove(template)

    def let_retired_go(self, entry: int) -> None:
        """Remove retired templates with a last drop up to this entry, which has run."""
        self.retired = [(at, gone) for at, gone in self.retired if at > entry]

    def put_back(
        self, deployed: Mapping[int, b.AddTemplate], retired: list[tuple[int, b.AddTemplate]]
    ) -> None:
        """Restore the templates that ran on the shards of a former process."""
        for template in deployed.values():
            self.deployed.put(template)
        self.retired = retired

    # ---- rows ------------------------------------------------------------------------
    def bring(self, stream: StreamDef, admitted: Admitted) -> None:
        """Count admitted rows and send them to the shards."""
        self._gate.check_alive()
        accepted = admitted.accepted
        sample = to_rows(accepted.slice(0, _SAMPLE_ROWS), stream.schema, self._control.strings)
        data = wire.stream_batch(accepted, admitted.ts, None)
        ends = np.array([f(admitted.ts) for f in (np.min, np.max)] if len(admitted.ts) else [])
        told = replace(admitted, accepted=accepted.slice(0, 0), ts=ends)
        arguments = (stream.name, told, sample, accepted.num_rows)
        self._count_push(*arguments)
        self._calls.push("count_push", arguments, b.Rows(stream.name, data, admitted.watermark))

    def _count_push(self, stream: str, admitted: Admitted, sample: I64, rows: int) -> None:
        """Record a push in the meters of this session."""
        number = self._calls.number
        self.pushed.setdefault(number, {})[stream] = counted(admitted, rows)
        self._books.catalog.meters[stream].count(admitted, sample, clock.now_us(), rows)
        self._calls.last_rows = number
        self._control.pass_by(stream, rows, admitted.watermark)

    def take_pushed(self, entry: int) -> list[Mapping[str, Counts]]:
        """The counts of rows pushed by entries up to this one, which has run."""
        return [self.pushed.pop(n) for n in list(self.pushed) if n <= entry]

    def beat(self, blocks: list[b.Block]) -> None:
        """Apply the heartbeats of the wall clock, as a call of their own."""
        self._calls.begin("beat", blocks)
        self.apply(blocks)
        self._calls.end()

    # ---- queries ---------------------------------------------------------------------
    def choose_template(
        self, known: TemplateInfo | None, make: Callable[[], TemplateInfo]
    ) -> TemplateInfo:
        """A new template; an old one with only failed queries may still be leaving."""
        info = cast(TemplateInfo, self._calls.note(make))
        if info.views:  # raise errors of placement before anything is changed
            place(template_block(info), self._shards, self.deployed)
        return info

    def enter(self, info: TemplateInfo, rows: I64, history: bool) -> tuple[I64, I64]:
        """A new number for every query; the shards find identical queries themselves.

        A repeated call gets the same numbers as before.
        """
        places = np.arange(rows.shape[1])
        template = self._control.templates.get(info.key)
        vacant = places if template is None else template.queries.vacant(places.shape[0])
        return cast(I64, self._calls.note(lambda: vacant)), places

    def leave(self, info: TemplateInfo, qids: I64) -> I64:
        """All of them: queries do not share numbers."""
        return qids

    def publish(self, output: b.Output | None, joining: Chosen) -> None:
        """Do nothing: the changes come with a batch."""
        if output is not None:
            self._control.collect_strings()

    def retract(self, chosen: Chosen) -> None:
        """Drop queries on the shards; their last changes come once the shards have run the drop."""
        delivery, number = self._books.delivery, self._calls.number
        for group, places in chosen:
            told = delivery.subscribers_of(group, places)
            readers = delivery.readers[group.number]
            self._leaving.add(Leaving(number, readers, places, told))
        qids = np.concatenate([group.qids[places] for group, places in chosen])
        self.apply([b.DropQueries(chosen[0][0].template, qids)])

    def fail(self, template: int, qid: int, reason: str) -> None:
        """Drop a query on all shards, because one shard could not continue it."""
        registry = self._books.queries.registry
        members = registry.members(template, np.array([qid]))
        if not members:
            return  # it was dropped, or failed on another shard as well
        with self._gate.open():
            self._calls.begin("fail", template, qid, reason)
            self.retract(members)
            registry.fail(members, reason)
