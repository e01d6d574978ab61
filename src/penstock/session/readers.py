"""Readers: queries registered together, and how far each has read their template's changelog.

Each change is returned once: to its query alone, or to all readers together. A query that is gone
may read up to the point where it left. Changes that are not in the changelog are kept aside: the
rows that a new query found in a shared row of Q, and what a query that is gone has left to read
when the changelog drops it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrays import BEGINNING, I64, NEVER, Bool
from penstock.delta import Sets, start_offsets
from penstock.errors import DataError
from penstock.queries.names import Names
from penstock.queries.registry import Group
from penstock.session.changelog import (
    ChangeBatch,
    Changelog,
    concat_batches,
    label,
    label_all,
)
from penstock.state.prefixes import plain


@dataclass(slots=True)
class Aside:
    """Changes by reader, and a mark for each reader that has not read them."""

    batch: ChangeBatch
    unread: Bool


@dataclass(slots=True, eq=False, weakref_slot=True)
class Readers:
    """Queries registered together, by place; `read` is the next batch of each."""

    group: Group
    log: Changelog
    read: I64
    until: I64  # the batch at which a query left; NEVER while it runs
    there: int  # the number of queries that are not gone
    aside: list[Aside] = field(default_factory=list)
    _names: pa.Array | None = None
    _everyone: Sets | None = None

    @classmethod
    def of(cls, group: Group, log: Changelog) -> Readers:
        """New readers that see changes from now on."""
        until = np.where(group.gone, log.end, NEVER)
        made = cls(group, log, np.full(len(group), log.end), until, group.left)
        log.readers[made] = None
        return made

    def __len__(self) -> int:
        return len(self.group)

    @property
    def template(self) -> int:
        """The key of their template."""
        return self.group.template

    @property
    def names(self) -> Names:
        """Their names."""
        return self.group.names

    @property
    def qids(self) -> I64:
        """Their rows of Q."""
        return self.group.qids

    @property
    def gone(self) -> Bool:
        """Marks the queries that are dropped or failed."""
        return self.until < NEVER

    @property
    def slowest(self) -> int:
        """The first batch that some reader has not read."""
        return int(self.read[self.read < self.until].min(initial=self.log.end))

    def running(self) -> I64:
        """The readers that are neither dropped nor failed."""
        return np.flatnonzero(~self.gone)

    def _waiting(self) -> I64:
        """The readers that may have unread changes in the changelog."""
        return np.flatnonzero(self.read < np.minimum(self.until, self.log.end))

    def owners(self, members: I64) -> Sets:
        """The places of these readers, grouped by query."""
        if members.shape[0] < len(self):
            return self._owners(members)
        if self._everyone is None:
            self._everyone = self._owners(members)
        return self._everyone

    def _owners(self, members: I64) -> Sets:
        count = int(self.qids[members].max(initial=-1)) + 2  # the last set is empty
        return Sets.group(self.qids[members], members, count)

    # ---- reading ---------------------------------------------------------------------
    def take(self, at: int) -> pa.Table:
        """The unread changes of one reader."""
        self._check(np.array([at]), self.names[at])
        parts = [(a.batch.number, a.batch.of(at)) for a in self.aside if a.unread[at]]
        aside, qid = bool(parts), int(self.qids[at])
        held = self.log.holding(qid, int(self.read[at]), int(self.until[at]))
        parts += [(b.number, b.of(qid)) for b in held]
        if aside:
            parts.sort(key=lambda part: part[0])
        self._have_read(np.array([at]), self.log.end)
        for a in self.aside:
            a.unread[at] = False
        self._tidy()
        return label([table for _, table in parts], self.names[at], self.log.columns(many=False))

    def take_all(self) -> pa.Table:
        """The unread changes of all readers, in order."""
        self._check(np.arange(len(self)), f"{len(self.running())} queries")
        parts = [a.batch.of_all(_themselves(a.unread)) for a in self.aside]
        mixed, waiting = bool(parts), self._waiting()
        parts += self._unread(waiting, self.log.end)
        self._have_read(waiting, self.log.end)
        self.aside = []
        parts = [part for part in parts if part.table.num_rows]
        return self.label([in_order(concat_batches(parts))] if mixed and parts else parts)

    def _have_read(self, members: I64, end: int) -> None:
        """Advance these readers to batch `end`."""
        self.read[members] = np.minimum(self.until[members], end)
        gone = self.gone[members].any()
        if gone and not bool((self.gone & (self.read < self.until)).any()):
            self.log.left.discard(self)

    def of_batch(self, number: int) -> pa.Table:
        """The changes of all readers in the last batch."""
        owners = self.owners(self.running())
        return self.label([b.of_all(owners) for b in self.log.of_number(number)])

    def label(self, parts: list[ChangeBatch]) -> pa.Table:
        """Batches tagged by reader as one table with query names."""
        return self._label(parts, self.log.columns(many=True))

    def label_rows(self, parts: list[ChangeBatch]) -> pa.Table:
        """Answer rows tagged by reader as one table with query names."""
        name = pa.field("_query", self.log.query_type(many=True))
        return self._label(parts, pa.schema([name, *self.log.schema.arrow()]))

    def _label(self, parts: list[ChangeBatch], schema: pa.Schema) -> pa.Table:
        return label_all(parts, self.labels(), schema)

    def labels(self) -> pa.Array:
        """The names as an Arrow array."""
        if self._names is None:
            self._names = self.names.arrow()
        return self._names

    def _unread(self, members: I64, end: int) -> list[ChangeBatch]:
        """The changes before batch `end` that these readers have not read, tagged by reader."""
        ends = np.minimum(self.until[members], end)
        if members.shape[0] == 1:
            one = int(members[0])
            held = self.log.holding(int(self.qids[one]), int(self.read[one]), int(ends[0]))
            return [self._own(b, one) for b in held]
        starts = np.maximum(self.read[members], self.log.first)
        found: list[ChangeBatch] = []
        for start, stop in pairwise(_distinct(np.concatenate([starts, ends]))):
            owners = self.owners(members[(starts <= start) & (ends >= stop)])
            found += [b.of_all(owners) for b in self.log.since(start)[: stop - start]]
        return found

    def _own(self, batch: ChangeBatch, at: int) -> ChangeBatch:
        table = batch.of(int(self.qids[at]))
        one = Sets(np.array([0, 1]), np.array([at])) if self.log.per_row else None
        return ChangeBatch(batch.number, np.full(table.num_rows, 0 if one else at), table, one)

    def _check(self, members: I64, who: str) -> None:
        """Raise an error, once, if unread changes of these readers were dropped."""
        members = members[~self.gone[members]]
        if bool((self.read[members] < self.log.first).any()):
            self.read[members] = np.maximum(self.read[members], self.log.first)
            raise DataError(
                f"changes of {who} were dropped: more than {self.log.limit:,} rows were waiting",
                code="PS-DATA-004",
                remedy="call changes() more often, subscribe(), or raise keep_changes in connect()",
            )

    # ---- what is not in the changelog ------------------------------------------------
    def put_aside(self, batch: ChangeBatch) -> None:
        """Keep changes by reader that are not in the changelog."""
        if batch.sets is not None:
            batch.sets = plain(batch.sets)
        unread = np.zeros(len(self), np.bool_)
        unread[batch.owners] = True
        self.aside.append(Aside(batch, unread))

    def leave(self, members: I64) -> None:
        """Mark readers as gone: changes from now on are not theirs."""
        members = members[self.until[members] == NEVER]
        self.read[members] = np.maximum(self.read[members], self.log.first)
        self.until[members] = self.log.end
        self.there -= members.shape[0]
        self.log.left.add(self)
        if not self.there:
            self.log.readers.pop(self, None)

    def save(self, end: int) -> None:
        """Keep aside what readers of gone queries have not read before batch `end`.

        The changelog calls this before it drops those batches.
        """
        members = np.flatnonzero(self.gone & (self.read < np.minimum(self.until, end)))
        left = [batch for batch in self._unread(members, end) if batch.table.num_rows]
        if left:
            self.put_aside(concat_batches(left))
        self._have_read(members, end)

    def _tidy(self) -> None:
        self.aside = [a for a in self.aside if a.unread.any()]


def all_of_batch(log: Changelog, number: int) -> pa.Table:
    """The changes of all queries of a template in the last batch."""
    running = [(readers, readers.running()) for readers in log.readers]
    names = pa.concat_arrays([r.labels().take(places) for r, places in running])
    qids = np.concatenate([r.qids[places] for r, places in running])
    owners = Sets.group(qids, np.arange(len(names)), int(qids.max(initial=-1)) + 2)
    parts = [b.of_all(owners) for b in log.of_number(number)]
    return label_all(parts, names, log.columns(many=True))


def _distinct(batches: I64) -> list[int]:
    """The different numbers of batches, ascending: few, however many readers there are."""
    least = int(batches.min(initial=NEVER))
    counts = np.bincount(batches - least)
    return (least + np.flatnonzero(counts)).tolist()


def _themselves(members: Bool) -> Sets:
    """Each chosen member as its own owner."""
    chosen = np.flatnonzero(members)
    return Sets.group(chosen, chosen, members.shape[0] + 1)


def in_order(batch: ChangeBatch) -> ChangeBatch:
    """Sort changes by batch, time and place; merge the parts of one row's set of queries."""
    time = pc.fill_null(batch.table["_time"].cast(pa.int64()), BEGINNING).to_numpy()
    number, seq = (batch.table[name].to_numpy() for name in ("_batch", "_seq"))
    order = np.lexsort((seq, time, number))
    if batch.sets is None:
        return ChangeBatch(batch.number, batch.who[order], batch.table.take(pa.array(order)))
    fresh = np.append(True, np.diff(number[order]) | np.diff(seq[order]))[: order.shape[0]] != 0
    row = np.cumsum(fresh) - 1
    sets = plain(batch.sets.take(batch.who[order]))
    owner = row[sets.owners]
    members = sets.items[np.lexsort((sets.items, owner))]
    count = int(fresh.sum())
    whole = Sets(start_offsets(np.bincount(owner, minlength=count)), members)
    table = batch.table.take(pa.array(order[fresh]))
    return ChangeBatch(batch.number, np.arange(count), table, whole)
