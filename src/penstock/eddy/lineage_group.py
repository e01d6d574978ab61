"""A pool: up to 4,096 queries of one span whose lineage shares one bitmap (CACQ §3.2).

Each query has a slot. Its conjuncts live in modules that all queries of the pool share: one
grouped filter per value, one call filter per function call. `route` sends rows through the
modules and the SteMs in the order that the eddy of their alias chooses. A query needs no mask of
what must be done before its output (CACQ §3.2.3): each module knows who uses it, a row visits
it only while one of those may still take it, and what is left in the end has passed all.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.eddy.eddy import Eddy, Routing
from penstock.eddy.filter_steps import CallStep, FilterStep, TestStep
from penstock.eddy.lineage_batch import Entrants, LineageBatch
from penstock.eddy.stem_step import StemStep
from penstock.expressions.context import Context
from penstock.expressions.hidden import Hid, Totals
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
from penstock.predicates.clauses import Conjunct, Term

MOST_SLOTS = 4096


@dataclass(frozen=True, slots=True)
class Clauses:
    """Clauses of several terms: the bit, the slot, and the modules of the terms."""

    bits: I64
    slots: I64
    modules: frozenset[int]


@dataclass(frozen=True, slots=True)
class StepReport:
    """What an eddy knows of a module."""

    module: str
    predicates: int
    tickets: float
    share: float
    visits: int
    selectivity: float
    ns_per_row: float


@dataclass(frozen=True, slots=True)
class EddyReport:
    """Rows of an alias and how they were routed."""

    alias: int
    rows: int
    visits_per_row: float
    modules: list[StepReport]


class LineageGroup:
    """Queries, modules and eddies."""

    def __init__(self, aliases: int, ctx: Context, routing: Routing) -> None:
        self._ctx = ctx
        self._aliases = aliases
        self.eddies = [Eddy(routing, seed) for seed in range(aliases)]
        self.hidden: dict[int, Totals] = {}  # by member, of rows since they were taken
        self._numbers: dict[Hashable, int] = {}  # of modules, by what they test
        self._next = 0
        self.words = 0
        self.mask: U64 = np.zeros(0, np.uint64)  # slots in use
        self.member: I64 = np.zeros(0, np.int64)  # −1: free
        self.qid: I64 = np.zeros(0, np.int64)
        self.since: I64 = np.zeros(0, np.int64)
        self.window: I64 = np.zeros((aliases, 0), np.int64)
        self._limits: tuple[int, list[int]] | None = 0, [NEVER] * aliases
        self.modules: dict[int, TestStep] = {}
        self._clauses: list[Clauses] = []
        self._clause_free = np.zeros(0, np.bool_)
        self.reserve(1)

    # ---- membership ------------------------------------------------------------------
    def __len__(self) -> int:
        return int((self.member >= 0).sum())

    def reserve(self, queries: int) -> None:
        """Make room for so many queries in all."""
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
        for module in self.modules.values():
            module.filter.widen(words)

    def add(
        self, member: int, qids: I64, params: I64, since: I64, windows: list[int | I64],
        conjuncts: tuple[Conjunct, ...],
    ) -> I64:  # fmt: skip
        """Take in queries (as many as are free at most); their slots."""
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
        if conjunct.terms is None:
            self._add_call(conjunct, slots, params)
            return
        pieces = [term.pieces(params, self._ctx) for term in conjunct.terms]
        inexact = ~np.logical_and.reduce([p.exact for p in pieces])
        if inexact.any():
            self._add_call(conjunct, slots[inexact], params[inexact])
        keys = [self._number(FilterStep.key(conjunct.alias, term)) for term in conjunct.terms]
        clauses = np.full(slots.shape[0], -1)
        if len(keys) > 1:
            clauses = self._new_clauses(slots, frozenset(keys))
        for key, term, piece in zip(keys, conjunct.terms, pieces, strict=True):
            self._filter(key, conjunct.alias, term).filter.add(slots, piece, clauses)

    def _number(self, tested: Hashable) -> int:
        """The number of the module of what is tested, also when it has to be made again."""
        number = self._numbers.get(tested)
        if number is None:
            number = self._numbers[tested] = self._next
            self._next += 1
        return number

    def _add_call(self, conjunct: Conjunct, slots: I64, params: I64) -> None:
        key = self._number(CallStep.key(conjunct.alias, conjunct.predicate))
        module = self.modules.get(key)
        if module is None:
            module = CallStep(conjunct.alias, conjunct.predicate, self.words, self._ctx, self._hide)
            self.modules[key] = module
        assert isinstance(module, CallStep)
        module.filter.add(slots, params)

    def _filter(self, key: int, alias: int, term: Term) -> FilterStep:
        module = self.modules.get(key)
        if module is None:
            module = FilterStep(alias, term, self.words, self._ctx, self._hide)
            self.modules[key] = module
        assert isinstance(module, FilterStep)
        return module

    def _new_clauses(self, slots: I64, modules: frozenset[int]) -> I64:
        free = np.flatnonzero(self._clause_free)[: slots.shape[0]]
        used = self._clause_free.shape[0]
        fresh = np.arange(used, used + slots.shape[0] - free.shape[0])
        self._clause_free = np.concatenate([self._clause_free, np.zeros(fresh.shape[0], np.bool_)])
        bits = np.concatenate([free, fresh])
        self._clause_free[bits] = False
        self._clauses.append(Clauses(bits, slots, modules))
        return bits

    def remove(self, slots: I64) -> None:
        """Let queries go."""
        leaving = full(slots, self.words)
        self.mask &= ~leaving
        self.member[slots] = self.qid[slots] = -1
        self._limits = None
        for module in self.modules.values():
            if (module.uses & leaving).any():
                module.filter.remove(slots)
        gone = {key for key, module in self.modules.items() if not module.predicates}
        for key in gone:
            del self.modules[key]
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
        return Clauses(clauses.bits[stay], clauses.slots[stay], clauses.modules)

    def _hide(self, chunk: LineageBatch, hid: Hid, rows: I64, slots: U64) -> None:
        """Rows at which a failure was hidden, once for each member that may still take them."""
        at, found = explode(chunk.bits[rows] & slots)
        pairs = np.unique(np.stack([at, self.member[found]]), axis=1)
        for member, n in zip(*np.unique(pairs[1], return_counts=True), strict=True):
            totals = self.hidden.setdefault(int(member), Totals())
            totals.add(int(n) if hid.null else 0, 0 if hid.null else int(n), hid.reason)

    # ---- routing ---------------------------------------------------------------------
    def route(self, entry: Entrants, stems: list[StemStep], mask: U64) -> LineageBatch:
        """Rows that entered and all they join with, for queries of `mask` that take them."""
        eddy = self.eddies[entry.alias]
        eddy.enter(entry.positions.shape[0])
        clause_words = (self._clause_free.shape[0] + 63) // 64
        chunk = self._admit(LineageBatch.enter(entry, mask, clause_words), entry.alias)
        done: set[int] = set()
        while len(chunk):
            ready = self._ready(chunk, stems, done)
            if not ready:
                break
            key = ready[eddy.choose(ready)]
            done.add(key)
            module = self.modules.get(key)
            chunk = (
                self._probe(chunk, stems[_stem(key)], eddy, key)
                if module is None
                else self._test(chunk, module, eddy, key, done)
            )
        return chunk

    def _ready(self, chunk: LineageBatch, stems: list[StemStep], done: set[int]) -> list[int]:
        """Modules that may be visited next, in a fixed order; those nobody needs are done."""
        left = [
            (key, module.uses)
            for key, module in self.modules.items()
            if key not in done and module.alias in chunk.positions
        ]
        wanted = wanted_by(chunk.bits) if left else self.mask
        ready = [key for key, uses in left if np.count_nonzero(wanted & uses)]
        counted = [key for key in ready if self.modules[key].hides]
        if counted:  # what counts is met by the rows that the others leave, in a fixed order
            return [key for key in ready if key not in counted] or counted[:1]
        if len(chunk.positions) < self._aliases:
            present = frozenset(chunk.positions)
            absent = (stem for stem in stems if stem.alias not in present)
            ready += [_stem(stem.alias) for stem in absent if stem.ready(present)]
        return ready

    def _test(
        self, chunk: LineageBatch, module: TestStep, eddy: Eddy, key: int, done: set[int]
    ) -> LineageBatch:
        start = time.perf_counter_ns()
        rows, before = rows_using(chunk.bits, module.uses)
        module.visit(chunk, rows)
        for clauses in self._clauses:
            if key in clauses.modules and clauses.modules <= done:
                enforce(chunk.bits, chunk.satisfied, clauses.bits, clauses.slots)
        ahead = self._ahead(chunk, module, done)
        counts = count_rejected(chunk.bits, rows, before, module.uses, ahead)
        tested, rejected, too_early = counts
        chunk = _compact(chunk)
        taken = time.perf_counter_ns() - start
        eddy.learn(key, rows.shape[0], tested, tested - rejected, too_early, taken)
        return chunk

    def _ahead(self, chunk: LineageBatch, module: TestStep, done: set[int]) -> U64:
        """Queries for which a row goes on to a module that serves some of this module's queries."""
        if len(chunk.positions) < self._aliases:  # a SteM, which serves all
            return self.mask
        ahead = np.zeros_like(self.mask)
        for key, other in self.modules.items():
            if key not in done and np.count_nonzero(other.uses & module.uses):
                ahead |= other.uses
        return ahead

    def _probe(self, chunk: LineageBatch, stem: StemStep, eddy: Eddy, key: int) -> LineageBatch:
        start = time.perf_counter_ns()
        rows, before = len(chunk), count_bits(chunk.bits, self.mask)
        chunk = self._admit(stem.probe(chunk), stem.alias)
        after = count_bits(chunk.bits, self.mask)
        eddy.learn(key, rows, before, after, 0, time.perf_counter_ns() - start)
        return chunk

    def _admit(self, chunk: LineageBatch, alias: int) -> LineageBatch:
        """Only queries that see the alias's row, within their own window (CACQ §3.3.3)."""
        if not len(chunk):
            return chunk
        view, positions = chunk.entry.views[alias], chunk.positions[alias]
        rows = (positions, view.base, view.epoch, view.ts, chunk.entry.instants, chunk.root)
        least, oldest = extremes(*rows)
        latest, shortest = self._strictest()
        too_early = least < latest
        too_old = oldest >= shortest[alias]
        if too_early:
            clear_below(chunk.bits, view.epoch[chunk.places(alias)], self.since)
        if too_old:
            ts = view.ts[chunk.places(alias)]
            clear_departed(chunk.bits, ts, chunk.instants(), self.window[alias])
        return _compact(chunk) if too_early or too_old else chunk

    def _strictest(self) -> tuple[int, list[int]]:
        """Rows that the youngest query sees, within the shortest window, are seen by all."""
        if self._limits is None:
            used = self.member >= 0
            shortest = self.window[:, used].min(axis=1, initial=NEVER)
            self._limits = int(self.since[used].max(initial=0)), shortest.tolist()
        return self._limits

    # ---- what is known ---------------------------------------------------------------
    def report(self, stems: list[StemStep]) -> list[EddyReport]:
        """What the eddy of each alias knows."""
        names = {_stem(s.alias): s.name for s in stems}
        names |= {key: module.name for key, module in self.modules.items()}
        found = []
        for alias, eddy in enumerate(self.eddies):
            shares = eddy.shares()
            modules = [
                StepReport(
                    names[key], self._served(key), round(score.tickets, 1), round(shares[key], 4),
                    score.visits, round(score.selectivity, 4), round(score.cost, 1),
                )
                for key, score in eddy.scores.items()
                if isinstance(key, int) and key in names
            ]  # fmt: skip
            found.append(EddyReport(alias, eddy.rows, round(eddy.visits_per_row, 4), modules))
        return found

    def _served(self, key: int) -> int:
        module = self.modules.get(key)
        return len(self) if module is None else module.predicates

    @property
    def nbytes(self) -> int:
        """Bytes of the filters' tables."""
        return sum(module.filter.nbytes for module in self.modules.values())


def _stem(alias: int) -> int:
    """The number of a SteM among the modules, and the alias of that number."""
    return -1 - alias


def _compact(chunk: LineageBatch) -> LineageBatch:
    """Only rows that some query may still take."""
    alive = alive_rows(chunk.bits)
    return chunk if alive.shape[0] == len(chunk) else chunk.take(alive)
