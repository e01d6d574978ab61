"""Blocks: the only input of an engine shard, and its output.

Applying the same blocks to the same state gives the same output, so a log of blocks is a log
of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.delta import Delta, Emission
from penstock.eddy.eddy import Routing
from penstock.frozen import record
from penstock.logical.nodes import Node
from penstock.logical.udf import Udf
from penstock.optimizer.distribution import Send
from penstock.patterns.edge import Edge, Emit
from penstock.schema import Schema


@record
class Rows:
    """Admitted rows of a stream (column-major, NULL word first) and its new watermark.

    `epoch` is given if several shards must agree on it; otherwise the engine counts.
    """

    stream: str
    rows: I64
    ts: I64
    watermark: int
    epoch: int | None = None


@record
class Heartbeat:
    """Event time of a stream has reached `watermark`."""

    stream: str
    watermark: int


@record
class TableChange:
    """Rows to delete (by position) and to insert (column-major)."""

    table: str
    remove: I64
    insert: I64


@record
class SetRouting:
    """The routing policy of flows created from now on."""

    routing: Routing


@record
class AddStream:
    """A new stream."""

    name: str
    schema: Schema
    retain: int


@record
class SetRetain:
    """How much history a stream keeps from now on."""

    stream: str
    retain: int


@record
class AddTable:
    """A new table."""

    name: str
    schema: Schema


@record
class AddUdf:
    """A new function."""

    udf: Udf


@record
class AddTemplate:
    """A new template: a lowered, optimised plan over parameters, or this shard's part of one.

    A part may have no view (`node` is None) but `sends`; it may read rows `received` from
    level 1 (channel and edge), and then names the `streams` that set its clock.
    """

    key: int
    node: Node | None
    params: Schema
    emission: Emission
    emits: tuple[tuple[Node, Emit], ...] = ()
    sends: tuple[Send, ...] = ()
    received: tuple[tuple[int, Edge], ...] = ()
    streams: tuple[str, ...] | None = None


@record
class AddQueries:
    """Parameter rows (column-major, NULL word first); the output has their qids.

    If several shards must agree, the block gives the rows' qids, the first epoch they see, and
    whether later identical queries get rows of their own.
    """

    template: int
    params: I64
    history: bool
    qids: I64 | None = None
    since: int | None = None
    unshared: bool = False


@record
class DropQueries:
    """Queries to retract and forget; a template without queries goes with them."""

    template: int
    qids: I64


@record
class Received:
    """Rows of a step from level 1, in time order, on a channel of a template."""

    template: int
    channel: int
    delta: Delta


@record
class Drop:
    """A stream or table to remove; no plan reads it."""

    name: str


Block = (
    Rows | Heartbeat | TableChange | SetRouting | AddStream | SetRetain | AddTable | AddUdf
    | AddTemplate | AddQueries | DropQueries | Received | Drop
)  # fmt: skip


@record
class Failure:
    """A query that failed, and the reason."""

    template: int
    qid: int
    reason: str


@dataclass(slots=True)
class Output:
    """The output of one `apply`."""

    batch: int
    changes: list[tuple[int, Changes]] = field(default_factory=list)
    sent: list[tuple[int, Send, Delta]] = field(default_factory=list)
    added: list[I64] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
