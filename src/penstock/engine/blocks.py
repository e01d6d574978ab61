"""Blocks: the only input of a shard and of its engine, and the engine's output.

Applying the same blocks to the same state gives the same output, so a log of blocks is a log of the
shard.

A block is the same class everywhere. Its type parameter names one of two forms of its rows: words
of one engine, in which a string is a code of that engine, or a form that any engine can decode
(`shards/encoding.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.arrays import I64
from penstock.changes import Changes
from penstock.delta import Delta, Emission
from penstock.eddy.settings import Settings
from penstock.frozen import record, shared
from penstock.logical.nodes import Node
from penstock.logical.strategy import UPA, Strategy
from penstock.logical.udf import Udf
from penstock.optimizer.distribution import Distributed, Send
from penstock.patterns.edge import Edge, Emit
from penstock.schema import Schema

R = TypeVar("R")
"""The form of a block's rows. Words are column-major, the NULL word first."""


@record
class Timed:
    """Words of rows of a stream, and the time of each row."""

    words: I64
    ts: I64


@record
class Rows(Generic[R]):
    """Admitted rows of a stream and its new watermark.

    `epoch` is given if several shards must agree on it; otherwise the engine counts.
    """

    stream: str
    rows: R
    watermark: int
    epoch: int | None = None


@record
class Heartbeat:
    """The event time of a stream has reached `watermark`."""

    stream: str
    watermark: int


@record
class TableChange(Generic[R]):
    """Rows to delete (by position) and to insert."""

    table: str
    remove: I64
    insert: R


@record
class Configure:
    """The settings of flows and templates created from now on."""

    settings: Settings


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


@shared
class AddTemplate:
    """A new template: a lowered, optimised plan over parameters.

    Every shard takes its part of the plan; one engine alone runs a plan that is not divided.
    Level 2 reads rows `received` from level 1 (channel and edge), and `streams` set its clock.
    """

    key: int
    plan: Distributed
    params: Schema
    emission: Emission
    emits: tuple[tuple[Node, Emit], ...] = ()
    received: tuple[tuple[int, Edge], ...] = ()
    streams: tuple[str, ...] = ()
    strategy: Strategy = UPA


@record
class AddQueries(Generic[R]):
    """Parameter rows with their qids and the first epoch they see.

    With `history`, they also see earlier rows. With `unshared`, no later query on shards shares
    their rows of Q.
    """

    template: int
    params: R
    history: bool
    qids: I64
    since: int
    unshared: bool = False


@record
class DropQueries:
    """Queries to retract and forget; a template without queries goes with them."""

    template: int
    qids: I64


@record
class Received(Generic[R]):
    """Rows of a step from level 1, in time order, on a channel of a template."""

    template: int
    channel: int
    delta: R


@record
class Drop:
    """A stream or table to remove; no plan reads it."""

    name: str


Block = (
    Rows[Timed] | Heartbeat | TableChange[I64] | Configure | AddStream | SetRetain | AddTable
    | AddUdf | AddTemplate | AddQueries[I64] | DropQueries | Received[Delta] | Drop
)  # fmt: skip
"""The blocks that an engine takes."""


@record
class Read:
    """Read the answers of queries: a shard answers at the end of the batch, beside its engine."""

    request: int
    template: int
    qids: I64


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
    failures: list[Failure] = field(default_factory=list)
