"""Entries of the session log: one call of the session each, as blocks that every shard takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from penstock.engine import blocks as b
from penstock.frozen import record
from penstock.shards.encoding import Encoded


@record
class LogEntry:
    """One numbered entry."""

    number: int
    blocks: tuple[Encoded, ...]


def steps(entries: Iterable[LogEntry]) -> Iterator[list[Encoded]]:
    """Group the blocks of entries into those that one step takes together.

    Consecutive new templates and queries are one step, also across entries. So are consecutive
    drops; the drops of one template are one block, so that its answers are scanned once. Every
    other block is a separate step.
    """
    adding: list[Encoded] = []
    dropping: dict[int, b.DropQueries] = {}
    for block in _blocks(entries):
        if adding and not isinstance(block, b.AddQueries | b.AddTemplate):
            yield adding
            adding = []
        if dropping and not isinstance(block, b.DropQueries):
            yield list(dropping.values())
            dropping = {}
        if isinstance(block, b.AddQueries | b.AddTemplate):
            adding.append(block)
        elif isinstance(block, b.DropQueries):
            dropping[block.template] = _joined(dropping.get(block.template), block)
        else:
            yield [block]
    if adding or dropping:
        yield [*adding, *dropping.values()]


def _joined(first: b.DropQueries | None, second: b.DropQueries) -> b.DropQueries:
    """Join two drops of one template into one."""
    if first is None:
        return second
    return b.DropQueries(first.template, np.union1d(first.qids, second.qids))


def _blocks(entries: Iterable[LogEntry]) -> Iterator[Encoded]:
    """The blocks of all entries, with the epochs on which all shards agree.

    The epoch of rows is the number of their entry. Queries without rows between them all see rows
    from the epoch of the first one, also across entries. So they are one cohort, and identical ones
    share a row of Q.
    """
    since = 0
    for entry in entries:
        for block in entry.blocks:
            if isinstance(block, b.Rows):
                since = 0
                block = replace(block, epoch=entry.number)
            elif isinstance(block, b.AddQueries):
                since = since or block.since
                if block.since != since:
                    block = replace(block, since=since)
            yield block
