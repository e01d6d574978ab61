"""Admit rows of an external source and spread them over the shards (DESIGN §5.6, pack).

The rows of a task become one message for every shard, also if it has no rows for it, so that all
shards know the same event time. Rows that are kept out are results.

A source that can read single columns reads only those that some query uses. If a row is kept
out, it reads all columns again, so that users see the whole row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine.admission import MALFORMED, Admitted, admit
from penstock.optimizer.distribution import Route
from penstock.schema import Schema
from penstock.shards import wire
from penstock.shards.messages import Counts, Piece, SourceMessage, SourcePart
from penstock.shards.prefilter import Prefilter, wanted
from penstock.shards.routing import arrow_shards, runs, split


@dataclass(frozen=True, slots=True)
class Intake:
    """The properties of a stream that `pack` needs to admit its rows.

    `routes` are the current routes, each with its columns. With `whole`, every shard gets all rows
    (RETAIN) and applies the routes itself.
    """

    schema: Schema
    time: str
    delay: int
    max_ahead: int | None
    whole: bool = False
    routes: tuple[tuple[Route, tuple[str, ...] | None], ...] = ()
    prefilters: tuple[Prefilter | None, ...] = ()  # by route; None: every row is wanted


@dataclass(frozen=True, slots=True)
class Moment:
    """The constants of a batch: watermark at its start, wall time, epoch."""

    watermark: int
    wall: int
    epoch: int


class Part(Protocol):
    """Rows from one place of a source."""

    @property
    def place(self) -> SourcePart:
        """Rows of one time come in the order of their places."""

    def read(self, columns: frozenset[str] | None) -> pa.Table:
        """All rows, with the given columns and those that admission may refuse."""


@dataclass(frozen=True, slots=True)
class Given:
    """A part with rows in memory."""

    place: SourcePart
    rows: pa.Table

    def read(self, columns: frozenset[str] | None) -> pa.Table:
        """The rows in memory."""
        return self.rows


def take_in(
    parts: Iterable[Part], stream: str, intake: Intake, at: Moment, count: int
) -> tuple[list[SourceMessage], tuple[wire.Result, ...]]:
    """A message for each shard, and what was kept out."""
    pieces: list[list[Piece]] = [[] for _ in range(count)]
    counts, reached = Counts(), at.watermark
    kept_out: list[wire.Result] = []
    for part in parts:
        made = _admitted(part, intake, at)
        whole = wire.stream_batch(made.accepted, made.ts, None) if intake.whole else None
        for shard, routed in enumerate(_routed(made, intake, count)):
            if routed or whole is not None:
                pieces[shard].append(Piece(part.place, tuple(routed), whole))
        counts += _counts(made)
        reached = max(reached, made.watermark)
        kept_out += _kept_out(made, stream)
    messages = [
        SourceMessage(
            stream, at.epoch, reached, tuple(pieces[shard]), Counts() if shard else counts
        )
        for shard in range(count)
    ]
    return messages, tuple(kept_out)


def _admitted(part: Part, intake: Intake, at: Moment) -> Admitted:
    """The rows of a part after admission, with all columns if a row is kept out."""
    columns = _read_columns(intake)
    made = _judge(part.read(columns), intake, at)
    if columns is not None and made.accepted.num_rows < made.received:
        made = _judge(part.read(None), intake, at)
    return made


def _judge(rows: pa.Table, intake: Intake, at: Moment) -> Admitted:
    known = [n for n in rows.column_names if n in intake.schema.names or n == MALFORMED]
    return admit(
        rows.select(known), intake.schema, intake.time, intake.delay, intake.max_ahead,
        at.watermark, at.wall,
    )  # fmt: skip


def _read_columns(intake: Intake) -> frozenset[str] | None:
    """The columns that routing or some query reads; None: all."""
    found = {intake.time}
    for (route, columns), prefilter in zip_longest(intake.routes, intake.prefilters):
        if columns is None:
            return None
        looked_at = {*route.spread.columns, *(c for p in prefilter or () for c in p.columns)}
        found |= {*columns, *(intake.schema.names[c] for c in looked_at)}
    return None if intake.whole else frozenset(found)


def _routed(made: Admitted, intake: Intake, count: int) -> list[list[tuple[str, bytes]]]:
    """The rows of every route by shard; a shard without rows of a route gets none."""
    found: list[list[tuple[str, bytes]]] = [[] for _ in range(count)]
    if intake.whole or not made.accepted.num_rows:
        return found
    for (route, columns), prefilter in zip_longest(intake.routes, intake.prefilters):
        kept = _keep(made, intake.schema, prefilter)
        for shard, batch, ts in _parts(kept, intake.schema, route, columns, count):
            data = wire.stream_batch(batch, ts, columns)
            for to in range(count) if shard is None else (shard,):
                found[to].append((route.name, data))
    return found


def _keep(made: Admitted, schema: Schema, prefilter: Prefilter | None) -> Admitted:
    """The rows that some query behind a route may need."""
    if prefilter is None:
        return made
    keep = wanted(made.accepted, schema, prefilter)
    return replace(made, accepted=made.accepted.filter(pa.array(keep)), ts=made.ts[keep])


def _parts(
    made: Admitted, schema: Schema, route: Route, columns: tuple[str, ...] | None, count: int
) -> list[tuple[int | None, pa.RecordBatch, I64]]:
    """Rows and times by shard; None stands for all shards."""
    spread, batch = route.spread, made.accepted
    if spread.kind == "one":
        return [(spread.shard, batch, made.ts)]
    if spread.kind == "all" or count == 1:
        return [(None, batch, made.ts)]
    if spread.kind == "any":
        return [
            (shard, batch.slice(start, stop - start), made.ts[start:stop])
            for shard, (start, stop) in enumerate(runs(batch.num_rows, count))
            if stop > start
        ]
    shards = arrow_shards(batch, schema, spread, count)
    shipped = batch if columns is None else batch.select(list(columns))
    return [
        (shard, shipped.take(pa.array(index)), np.ascontiguousarray(made.ts[index]))
        for shard, index in enumerate(split(shards, count))
        if index.shape[0]
    ]


def _counts(made: Admitted) -> Counts:
    late, quarantined = made.late.num_rows, made.quarantined.num_rows
    return Counts(made.received, made.accepted.num_rows, late, quarantined)


def _kept_out(made: Admitted, stream: str) -> tuple[wire.Result, ...]:
    return tuple(
        wire.Result("kept_out", 0, 0, wire.dumps((stream, kind, wire.pack_batch(table))))
        for kind, table in (("late", made.late), ("quarantine", made.quarantined))
        if table.num_rows
    )
