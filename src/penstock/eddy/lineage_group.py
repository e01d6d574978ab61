"""A lineage group: up to 4,096 queries of one span; one bitmap per row serves all (CACQ §3.2).

Each query has a slot. Its conjuncts are in predicate indexes that all queries of the group share;
the factory of indexes picks them. Each index and each SteM is a routing step. `route` sends rows
through the steps in the order that the eddy of their alias chooses. A query needs no mask of the
steps that must precede its output (CACQ §3.2.3): each step has a bitmap of the slots that use it,
and a row visits the step only while one of these slots may still take the row. So the slots that
remain at the end have passed all their steps.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.eddy.eddy import Eddy, Routing
from penstock.eddy.filter_steps import FilterStep
from penstock.eddy.lineage_batch import Entrants, LineageBatch
from penstock.eddy.stem_step import StemStep
from penstock.expressions.context import Context
from penstock.expressions.hidden import Hid, Totals
from penstock.indexes.contract import QueryRows
from penstock.indexes.factory import SlotChoice, slot_indexes, verifying_index
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import (
    alive_rows,
    clear_below,
    clear_departed,
    count_bits,
    count_rejected,
    enforce,
    explode,
    extremes,
    full,
    rows_using,
    wanted_by,
)
from penstock.predicates.clauses import Conjunct

MOST_SLOTS = 4096
_MOST_WORDS = 1 << 22  # of lineage that one visit of a SteM makes, about
_UNKNOWN_FAN_OUT = 64
_FORGET = 0.9


@dataclass(frozen=True, slots=True)
class Clauses:
    """Clauses of several terms: the clause's bit, its slot, and the steps of its terms."""

    bits: I64
    slots: I64
    steps: frozenset[int]


@dataclass(frozen=True, slots=True)
class StepReport:
    """Statistics of one routing step for `stats()`."""

    module: str
    predicates: int
    tickets: float
    share: float
    visits: int
    selectivity: float
    ns_per_row: float


@dataclass(frozen=True, slots=True)
class EddyReport:
    """Statistics of an alias: its rows and how they were routed."""

    alias: int
    rows: int
    visits_per_row: float
    modules: list[StepReport]


class LineageGroup:
    """Queries in slots, routing steps and eddies."""

    def __init__(self, aliases: int, ctx: Context, routing: Routing) -> None:
        self._ctx = ctx
        self._aliases = aliases
        self.eddies = [Eddy(routing, seed) for seed in range(aliases)]
        self.hidden: dict[int, Totals] = {}  # by member; reset when taken
        self._numbers: dict[Hashable, int] = {}  # of steps, by kind of index and key
        self._next = 0
        self.words = 0
        self.mask: U64 = np.zeros(0, np.uint64)  # slots in use
        self.member: I64 = np.zeros(0, np.int64)  # −1: free
        self.qid: I64 = np.zeros(0, np.int64)
        self.since: I64 = np.zeros(0, np.int64)
        self.window: I64 = np.zeros((aliases, 0), np.int64)
        self._limits: tuple[int, list[int]] | None = 0, [NEVER] * aliases
        self.steps: dict[int, FilterStep] = {}
        self._fan_out: dict[int, float] = {}  # rows that a row finds, by SteM, lately
        self._clauses: list[Clauses] = []
        self._clause_free = np.zeros(0, np.bool_)
        self.reserve(1)

    # ---- membership ------------------------------------------------------------------
    def __len__(self) -> int:
        return int((self.member >= 0).sum())

    def reserve(self, queries: int) -> None:
        """Make room for this many queries in total."""
        words = max(self.words, 1)
        while 64 * words < queries:
            words *= 2
        more = words - self.words
        if not more:
            return
        self.words = words
        self.mask = np.append(self.mask, np.zeros(more, np.uint64))
        self.member = np.append(self.member, np.full(64 * more, -1))
        self.qid = np.append(self.qid, np.full(64 * more, -1))
        self.since = np.append(self.since, np.zeros(64 * more, np.int64))
        none = np.zeros((self._aliases, 64 * more), np.int64)
        self.window = np.hstack([self.window, none])
        for step in self.steps.values():
            step.index.widen(words)

    def add(
        self, member: int, qids: I64, params: I64, since: I64, windows: list[int | I64],
        conjuncts: tuple[Conjunct, ...],
    ) -> I64:  # fmt: skip
        """Add queries, as many as there are free slots; return the slots."""
        slots = np.flatnonzero(self.member < 0)[: qids.shape[0]]
        latest, shortest = self._strictest()
        self.member[slots], self.qid[slots] = member, qids
        for alias, length in enumerate(windows):
            self.window[alias, slots] = length
        self._limits = (
            max(latest, int(since.max(initial=0))),
            np.minimum(shortest, self.window[:, slots].min(axis=1, initial=NEVER)).tolist(),
        )
        self.since[slots] = since
        self.mask |= full(slots, self.words)
        for conjunct in conjuncts:
            self._add_conjunct(conjunct, slots, params)
        return slots

    def _add_conjunct(self, conjunct: Conjunct, slots: I64, params: I64) -> None:
        chosen = slot_indexes(conjunct)
        numbers = [self._number(choice.key) for choice in chosen]
        made = {n: self._step(n, choice) for n, choice in zip(numbers, chosen, strict=True)}
        added = [
            (made[n].index, QueryRows(slots, params, choice.predicate))
            for n, choice in zip(numbers, chosen, strict=True)
        ]
        exact = np.logical_and.reduce([index.exact(rows) for index, rows in added])
        if not exact.all():
            self._verify(conjunct, slots[~exact], params[~exact])
        if len(added) > 1:
            clauses = self._new_clauses(slots, frozenset(made))
            added = [(index, rows.with_clauses(clauses)) for index, rows in added]
        self.steps |= made
        for index, rows in added:
            index.add(rows)

    def _verify(self, conjunct: Conjunct, slots: I64, params: I64) -> None:
        """Add an exact index for queries for which the other indexes accept too many rows."""
        choice = verifying_index(conjunct)
        number = self._number(choice.key)
        self.steps[number] = self._step(number, choice)
        self.steps[number].index.add(QueryRows(slots, params, choice.predicate))

    def _number(self, key: Hashable) -> int:
        """The number of an index; an index that was dropped and made again gets a new one."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next
            self._next += 1
        return number

    def _step(self, number: int, choice: SlotChoice) -> FilterStep:
        """The step with this number, created if necessary."""
        step = self.steps.get(number)
        if step is not None:
            return step
        index = choice.kind.make(choice.predicate, self._ctx)
        if self.words > 1:
            index.widen(self.words)
        return FilterStep(index, self._count_hidden)

    def _new_clauses(self, slots: I64, steps: frozenset[int]) -> I64:
        free = np.flatnonzero(self._clause_free)[: slots.shape[0]]
        used = self._clause_free.shape[0]
        fresh = np.arange(used, used + slots.shape[0] - free.shape[0])
        self._clause_free = np.concatenate([self._clause_free, np.zeros(fresh.shape[0], np.bool_)])
        bits = np.concatenate([free, fresh])
        self._clause_free[bits] = False
        self._clauses.append(Clauses(bits, slots, steps))
        return bits

    def remove(self, slots: I64) -> None:
        """Remove queries."""
        leaving = full(slots, self.words)
        self.mask &= ~leaving
        self.member[slots] = self.qid[slots] = -1
        self._limits = None
        for step in self.steps.values():
            if (step.uses & leaving).any():
                step.index.remove(slots)
        gone = {key for key, step in self.steps.items() if not step.index.predicates}
        for key in gone:
            del self.steps[key]
        if gone:
            self._numbers = {what: n for what, n in self._numbers.items() if n not in gone}
        for eddy in self.eddies:
            eddy.forget(set(gone))
        self._clauses = [kept for c in self._clauses if (kept := self._without(c, slots))]

    def _without(self, clauses: Clauses, slots: I64) -> Clauses | None:
        stay = ~np.isin(clauses.slots, slots)
        self._clause_free[clauses.bits[~stay]] = True
        if not stay.any():
            return None
        return Clauses(clauses.bits[stay], clauses.slots[stay], clauses.steps)

    def _count_hidden(self, batch: LineageBatch, hid: Hid, rows: I64, slots: U64) -> None:
        """Count rows with a hidden failure, once for each member that may still take the row."""
        at, found = explode(batch.bits[rows] & slots)
        pairs = np.unique(np.stack([at, self.member[found]]), axis=1)
        for member, n in zip(*np.unique(pairs[1], return_counts=True), strict=True):
            totals = self.hidden.setdefault(int(member), Totals())
            totals.add(int(n) if hid.null else 0, 0 if hid.null else int(n), hid.reason)

    # ---- routing ---------------------------------------------------------------------
    def route(self, entry: Entrants, stems: list[StemStep], mask: U64) -> Iterator[LineageBatch]:
        """Route entering rows and their joins; yields rows that queries of `mask` take.

        A batch probes a SteM in pieces, so that the lineage of what it finds has a bounded size.
        """
        eddy = self.eddies[entry.alias]
        eddy.enter(entry.positions.shape[0])
        clause_words = (self._clause_free.shape[0] + 63) // 64
        batch = self._admit(LineageBatch.enter(entry, mask, clause_words), entry.alias)
        waiting: list[tuple[LineageBatch, set[int]]] = [(batch, set())]
        while waiting:
            batch, done = waiting.pop()
            while len(batch) and (ready := self._ready(batch, stems, done)):
                key = ready[eddy.choose(ready)]
                step = self.steps.get(key)
                if step is None and len(batch) > (size := self._piece(key)):
                    waiting.append((batch.part(size, len(batch)), set(done)))
                    batch = batch.part(0, size)
                done.add(key)
                batch = (
                    self._probe(batch, stems[_stem(key)], eddy, key)
                    if step is None
                    else self._test(batch, step, eddy, key, done)
                )
            if len(batch):
                yield batch

    def _piece(self, key: int) -> int:
        """The number of rows that may probe a SteM at once."""
        return max(1, _MOST_WORDS // int(self.words * self._fan_out.get(key, _UNKNOWN_FAN_OUT)))

    def _ready(self, batch: LineageBatch, stems: list[StemStep], done: set[int]) -> list[int]:
        """The steps that may be visited next, in a fixed order; only steps that a query needs."""
        left = [
            (key, step.uses)
            for key, step in self.steps.items()
            if key not in done and step.ready(batch)
        ]
        wanted = wanted_by(batch.bits) if left else self.mask
        ready = [key for key, uses in left if np.count_nonzero(wanted & uses)]
        counted = [key for key in ready if self.steps[key].index.hides]
        if counted:  # such steps get the rows that the others leave, in a fixed order
            return [key for key in ready if key not in counted] or counted[:1]
        if len(batch.positions) < self._aliases:
            present = frozenset(batch.positions)
            absent = (stem for stem in stems if stem.alias not in present)
            ready += [_stem(stem.alias) for stem in absent if stem.ready(present)]
        return ready

    def _test(
        self, batch: LineageBatch, step: FilterStep, eddy: Eddy, key: int, done: set[int]
    ) -> LineageBatch:
        start = time.perf_counter_ns()
        rows, before = rows_using(batch.bits, step.uses)
        step.visit(batch, rows)
        for clauses in self._clauses:
            if key in clauses.steps and clauses.steps <= done:
                enforce(batch.bits, batch.satisfied, clauses.bits, clauses.slots)
        ahead = self._ahead(batch, step, done)
        counts = count_rejected(batch.bits, rows, before, step.uses, ahead)
        tested, rejected, too_early = counts
        batch = _compact(batch)
        taken = time.perf_counter_ns() - start
        eddy.learn(key, rows.shape[0], tested, tested - rejected, too_early, taken)
        return batch

    def _ahead(self, batch: LineageBatch, step: FilterStep, done: set[int]) -> U64:
        """Queries for which a row still visits another step that shares queries with this one."""
        if len(batch.positions) < self._aliases:  # a SteM, which all queries use
            return self.mask
        ahead = np.zeros_like(self.mask)
        for key, other in self.steps.items():
            if key not in done and np.count_nonzero(other.uses & step.uses):
                ahead |= other.uses
        return ahead

    def _probe(self, batch: LineageBatch, stem: StemStep, eddy: Eddy, key: int) -> LineageBatch:
        start = time.perf_counter_ns()
        rows, before = len(batch), count_bits(batch.bits, self.mask)
        found = stem.probe(batch)
        self._fan_out[key] = max(1.0, len(found) / rows, _FORGET * self._fan_out.get(key, 1.0))
        batch = self._admit(found, stem.alias)
        after = count_bits(batch.bits, self.mask)
        eddy.learn(key, rows, before, after, 0, time.perf_counter_ns() - start)
        return batch

    def _admit(self, batch: LineageBatch, alias: int) -> LineageBatch:
        """Keep only queries that see the alias's row, within their own window (CACQ §3.3.3)."""
        if not len(batch):
            return batch
        view, positions = batch.entry.views[alias], batch.positions[alias]
        rows = (positions, view.base, view.epoch, view.ts, batch.entry.instants, batch.root)
        least, oldest = extremes(*rows)
        latest, shortest = self._strictest()
        too_early = least < latest
        too_old = oldest >= shortest[alias]
        if too_early:
            clear_below(batch.bits, view.epoch[batch.places(alias)], self.since)
        if too_old:
            ts = view.ts[batch.places(alias)]
            clear_departed(batch.bits, ts, batch.instants(), self.window[alias])
        return _compact(batch) if too_early or too_old else batch

    def _strictest(self) -> tuple[int, list[int]]:
        """The latest `since` and the shortest windows: rows within both concern every query."""
        if self._limits is None:
            used = self.member >= 0
            shortest = self.window[:, used].min(axis=1, initial=NEVER)
            self._limits = int(self.since[used].max(initial=0)), shortest.tolist()
        return self._limits

    # ---- what is known ---------------------------------------------------------------
    def report(self, stems: list[StemStep]) -> list[EddyReport]:
        """The statistics of each alias's eddy."""
        names = {_stem(s.alias): s.name for s in stems}
        names |= {key: step.index.explain() for key, step in self.steps.items()}
        found = []
        for alias, eddy in enumerate(self.eddies):
            shares = eddy.shares()
            steps = [
                StepReport(
                    names[key], self._served(key), round(score.tickets, 1), round(shares[key], 4),
                    score.visits, round(score.selectivity, 4), round(score.cost, 1),
                )
                for key, score in eddy.scores.items()
                if isinstance(key, int) and key in names
            ]  # fmt: skip
            found.append(EddyReport(alias, eddy.rows, round(eddy.visits_per_row, 4), steps))
        return found

    def _served(self, key: int) -> int:
        step = self.steps.get(key)
        return len(self) if step is None else step.index.predicates

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes."""
        return sum(step.index.nbytes for step in self.steps.values())


def _stem(alias: int) -> int:
    """Converts between an alias and the step number of its SteM."""
    return -1 - alias


def _compact(batch: LineageBatch) -> LineageBatch:
    """Drop the rows that no query may take any more."""
    alive = alive_rows(batch.bits)
    return batch if alive.shape[0] == len(batch) else batch.take(alive)
