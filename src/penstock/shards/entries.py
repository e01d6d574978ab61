"""Entries of the session log: one call of the session each, as blocks that every shard takes.

Like the engine's blocks, but portable: rows and parameters are Arrow, and a plan is complete;
each shard takes its own part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from penstock.arrays import I64
from penstock.delta import Emission
from penstock.engine import blocks as b
from penstock.frozen import record, shared
from penstock.logical.nodes import Node
from penstock.optimizer.distribution import Distributed
from penstock.patterns.edge import Edge, Emit
from penstock.schema import Schema
from penstock.shards import wire


@record
class Push:
    """Admitted rows of a stream (`wire.stream_batch`) and its new watermark."""

    stream: str
    rows: bytes
    watermark: int


@record
class ChangeTable:
    """Rows of a table to delete (by position) and to insert (Arrow)."""

    table: str
    remove: I64
    insert: bytes


@shared
class Deploy:
    """A new distributed template; the shards of a process share one plan object."""

    key: int
    plan: Distributed
    params: Schema
    emission: Emission
    emits: tuple[tuple[Node, Emit], ...]
    received: tuple[tuple[int, Edge], ...]
    streams: tuple[str, ...]


@record
class AddQueries:
    """Parameter rows (`wire.pack_params`) with their qids and the first epoch they see."""

    template: int
    qids: I64
    params: wire.Params
    history: bool
    since: int
    unshared: bool = False  # no later query shares their rows of Q

    def seeing(self, since: int) -> AddQueries:
        """The same from another epoch on."""
        if since == self.since:
            return self
        return replace(self, since=since)


@record
class Read:
    """Read the answers of queries; each shard sends its part."""

    request: int
    template: int
    qids: I64


Control = (
    b.SetRouting | b.AddStream | b.SetRetain | b.AddTable | b.AddUdf | ChangeTable | Deploy
    | AddQueries | b.DropQueries | b.Drop | Read
)  # fmt: skip
EntryBlock = Push | b.Heartbeat | Control


@record
class LogEntry:
    """One numbered entry."""

    number: int
    blocks: tuple[EntryBlock, ...]


def steps(entries: Iterable[LogEntry]) -> Iterator[tuple[int, list[EntryBlock]]]:
    """The blocks that a step takes together, and the number of their last entry.

    Consecutive new templates and queries are one step, also across entries. So are consecutive
    drops; the drops of one template are one block, so that its answers are scanned once. Every
    other block is a separate step.

    If no row can have arrived between queries, they all see rows from the epoch of the first one,
    also across entries. So they are one cohort, and identical ones share a row of Q.
    """
    adding: list[EntryBlock] = []
    dropping: dict[int, b.DropQueries] = {}
    number = 0
    for number, block in _blocks(entries):
        if adding and not isinstance(block, AddQueries | Deploy):
            yield number, adding
            adding = []
        if dropping and not isinstance(block, b.DropQueries):
            yield number, list(dropping.values())
            dropping = {}
        if isinstance(block, AddQueries | Deploy):
            adding.append(block)
        elif isinstance(block, b.DropQueries):
            dropping[block.template] = _joined(dropping.get(block.template), block)
        else:
            yield number, [block]
    if adding or dropping:
        yield number, [*adding, *dropping.values()]


def _joined(first: b.DropQueries | None, second: b.DropQueries) -> b.DropQueries:
    """Both as one, of one template."""
    if first is None:
        return second
    return b.DropQueries(first.template, np.union1d(first.qids, second.qids))


def _blocks(entries: Iterable[LogEntry]) -> Iterator[tuple[int, EntryBlock]]:
    """The blocks of all entries; queries since the last rows get the epoch of the first one."""
    since = 0
    for entry in entries:
        for block in entry.blocks:
            if isinstance(block, Push):
                since = 0
            elif isinstance(block, AddQueries):
                since = since or block.since
                block = block.seeing(since)
            yield entry.number, block
