"""A flow: all select-project-join blocks of one span, run together (CACQ §3; DESIGN §5.7).

Members are the blocks of templates; they differ in filters, window lengths and output columns.
In a step the rows that the clock has reached enter alias by alias and are routed through filters
and SteMs once for all members' queries. A result is found by its last row in the order of (time,
alias, position), which probes only what comes before it, so it is found once; rows that an
earlier step took come before all others. The reader's positions are the only state of a flow;
the SteMs' rows are those of the source logs. All else is a cache that follows the members' Q.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.delta import Lineage
from penstock.eddy.eddy import Routing
from penstock.eddy.lineage_batch import Entrants, LineageBatch
from penstock.eddy.lineage_group import MOST_SLOTS, LineageGroup
from penstock.eddy.stem_step import StemStep
from penstock.eddy.verdict import settle
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import explode, full, is_sorted, order_rows
from penstock.logical.expr import Param
from penstock.logical.windows import Length
from penstock.optimizer.span import Span
from penstock.predicates.clauses import Conjunct
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.source_log import SourceLog
from penstock.stems.log_view import LogView
from penstock.stems.stems import StemInfo, Stems

_CHUNK = 4096  # rows that enter at once
_MOST_IN_POOLS = 1024  # queries of a template that has another index
_MOST_WAITING = 1 << 20  # rows that a SteM is behind
_NOWHERE = -1


@dataclass(slots=True)
class FlowTemplate:
    """A template's block in the flow, and which of its queries are in the pools."""

    queries: QueryTable
    conjuncts: tuple[Conjunct, ...]
    windows: tuple[Length, ...]  # by alias
    has_own_index: bool = False  # whether its template has an index for very many queries
    place: I64 = field(default_factory=lambda: np.full(0, _NOWHERE))  # by qid: pool and slot
    version: int = 0
    identity: I64 | None = None
    _longest: tuple[I64, int, list[int]] | None = None  # of which Q

    @property
    def uses_own_index(self) -> bool:
        """Whether it has so many queries that it uses that index."""
        return self.has_own_index and len(self.queries) > _MOST_IN_POOLS

    def lengths(self, qids: I64) -> list[int | I64]:
        """By alias, the length of the windows of these queries: all have it, or each its own."""
        params = self.queries.matrix()
        return [
            params[qids, 1 + window.index] if isinstance(window, Param) else window
            for window in self.windows
        ]

    def longest(self) -> list[int]:
        """By alias, the length of the longest window; found again only once Q is another."""
        regs, version = self.queries.identity, self.queries.version
        if self._longest is None or self._longest[0] is not regs or self._longest[1] != version:
            lengths = self.lengths(self.queries.live(Lineage.QUERY))
            found = [n if isinstance(n, int) else int(n.max(initial=0)) for n in lengths]
            self._longest = regs, version, found
        return self._longest[2]


@dataclass(frozen=True, slots=True)
class Matches:
    """Results for one member, in time order: positions by alias, instants, queries."""

    positions: I64
    instants: I64
    qids: I64

    @staticmethod
    def none(aliases: int) -> Matches:
        """No results."""
        empty = np.empty(0, np.int64)
        return Matches(np.empty((aliases, 0), np.int64), empty, empty)

    def __len__(self) -> int:
        return int(self.qids.shape[0])

    def heads(self, exp: I64) -> I64:
        """Where each result begins that follows for one query after another until it expires."""
        before = (self.positions[:, 1:] == self.positions[:, :-1]).all(axis=0)
        before &= exp[1:] == exp[:-1]
        same = np.append(False, before & (self.instants[1:] == self.instants[:-1]))
        return np.flatnonzero(~same[: len(self)])

    def take(self, index: I64) -> Matches:
        """The results at these positions."""
        positions = np.take(self.positions, index, axis=1)
        return Matches(positions, self.instants[index], self.qids[index])


class Flow:
    """One span, its members, pools and SteMs."""

    def __init__(
        self, span: Span, logs: list[SourceLog], stems: Stems, ctx: Context, scope: Scope,
        routing: Routing = "tickets",
    ) -> None:  # fmt: skip
        self.span, self.logs, self.scope = span, logs, scope
        self.members: dict[int, FlowTemplate] = {}
        self._arriving: set[int] = set()  # members whose queries have no place yet
        self.pools: list[LineageGroup] = []
        self._ctx, self._routing, self._registry = ctx, routing, stems
        self._stems = [self._acquire(alias) for alias in range(len(span))]
        self._longest: list[int] | None = None  # by alias, of all members, in this step
        self._needs: tuple[int, dict[str, int]] | None = None  # at an instant, in this step
        self._stepped = self._first = False
        self._found: dict[int, Matches] = {}
        self._faults: dict[int, dict[int, str]] = {}
        self._hidden: dict[int, Totals] = {}
        self._before: I64 = np.empty(0, np.int64)
        scope.array("position", len(span), fill=_NOWHERE)

    def _acquire(self, alias: int) -> StemStep:
        stream, log = self.span.streams[alias], self.logs[alias]
        keys = self.span.keys(alias)
        stems = {key: self._registry.acquire(stream, log, *key) for key in keys}
        return StemStep(self.span, alias, stems)

    # ---- members ---------------------------------------------------------------------
    def add(self, key: int, member: FlowTemplate) -> None:
        """A template joins."""
        self.members[key] = member
        self._longest = self._needs = None
        self._arriving.add(key)

    def remove(self, key: int) -> None:
        """A template leaves."""
        member = self.members.pop(key)
        self._longest = self._needs = None
        self._arriving.discard(key)
        self._let_go(member, np.flatnonzero(member.place >= 0))
        if not self.members:
            for module in self._stems:
                for stem in module.stems.values():
                    self._registry.release(stem)
            self.scope.free()

    def _follow(self) -> None:
        """Bring the pools up to date with the members' Q."""
        for key, member in self.members.items():
            self._follow_member(key, member)
        self._arriving.clear()

    def _welcome(self) -> None:
        """The first queries of a template get their place when they come; rows do not wait."""
        for key in sorted(self._arriving):
            self._follow_member(key, self.members[key])
        self._arriving.clear()

    def _follow_member(self, key: int, member: FlowTemplate) -> None:
        table = member.queries
        if member.identity is not table.identity:
            self._let_go(member, np.flatnonzero(member.place >= 0))
            member.identity, member.version = table.identity, 0
        if member.version != table.version:
            self._longest = self._needs = None
            self._replace(key, member)
            member.version = table.version

    def _replace(self, key: int, member: FlowTemplate) -> None:
        """Queries that are gone leave, new ones get a place."""
        table = member.queries
        known = np.flatnonzero(member.place >= 0)
        if member.uses_own_index:
            self._let_go(member, known)
            return
        live = table.live(Lineage.QUERY)
        self._make_room(member, live)
        if known.shape[0]:
            dead = np.ones(member.place.shape[0], np.bool_)
            dead[live] = False
            self._let_go(member, known[dead[known] | (table.born()[known] > member.version)])
        self._enter(key, member, live[member.place[live] < 0])

    @staticmethod
    def _make_room(member: FlowTemplate, qids: I64) -> None:
        more = int(qids.max(initial=-1)) + 1 - member.place.shape[0]
        if more > 0:
            member.place = np.concatenate([member.place, np.full(more, _NOWHERE)])

    def _let_go(self, member: FlowTemplate, qids: I64) -> None:
        places = member.place[qids]
        for at, pool in enumerate(self.pools if qids.shape[0] else ()):
            slots = places[places // MOST_SLOTS == at] % MOST_SLOTS
            if slots.shape[0]:
                pool.remove(slots)
        member.place[qids] = _NOWHERE

    def _enter(self, key: int, member: FlowTemplate, qids: I64) -> None:
        """Give queries a place."""
        at = 0
        while qids.shape[0]:
            if at == len(self.pools):
                self.pools.append(LineageGroup(len(self.span), self._ctx, self._routing))
            used = len(self.pools[at])
            some, qids = qids[: MOST_SLOTS - used], qids[MOST_SLOTS - used :]
            if some.shape[0]:
                self.pools[at].reserve(used + some.shape[0])
                self._place(key, member, at, some)
            at += 1

    def _place(self, key: int, member: FlowTemplate, at: int, qids: I64) -> None:
        table = member.queries
        slots = self.pools[at].add(
            key, qids, table.matrix()[qids], table.since(Lineage.QUERY)[qids],
            member.lengths(qids), member.conjuncts,
        )  # fmt: skip
        member.place[qids] = at * MOST_SLOTS + slots

    # ---- the step --------------------------------------------------------------------
    def views(self) -> list[LogView]:
        """The rows of the logs; those of one stream alone only pass by."""
        if len(self.logs) == 1:
            return [LogView.passing(self.logs[0])]
        return [LogView.of(log) for log in self.logs]

    def _positions(self) -> I64:
        return cast(I64, self.scope["position"])

    def _ends(self, now: int) -> I64:
        return np.array([log.position(now, after=True) for log in self.logs])

    def begin(self) -> None:
        """The engine takes a step."""
        self._stepped = False
        self._longest = self._needs = None

    def has_input(self, key: int, now: int) -> bool:
        """Whether a step at `now` has something for this member."""
        if self._stepped:
            start, end = self.arrived()
            unrouted = self.members[key].uses_own_index and start < end
            return unrouted or key in self._found or key in self._faults
        if now == BEGINNING:
            return False
        return bool(np.count_nonzero(self._ends(now) > self._positions()))

    def take(self, key: int, now: int) -> Matches:
        """A member's results of this step; the first member that asks makes the step for all."""
        if not self._stepped:
            self._stepped = True
            self._step(now)
        return self._found.pop(key, Matches.none(len(self.span)))

    def arrived(self) -> tuple[int, int]:
        """The positions of the first alias's rows that this step took."""
        return int(self._before[0]), int(self._positions()[0])

    def faults(self, key: int) -> dict[int, str]:
        """Queries of the member that failed in this step, and why."""
        return self._faults.pop(key, {})

    def hidden(self, key: int) -> Totals:
        """The failures that this step hid from the member's queries."""
        return self._hidden.pop(key, Totals())

    def _step(self, now: int) -> None:
        self._found, self._faults, self._hidden, self._needs = {}, {}, {}, None
        positions = self._positions()
        self._welcome()
        self._first = bool(positions[0] == _NOWHERE)
        if now == BEGINNING:
            if self._first:
                positions[:] = [log.discarded for log in self.logs]
            self._before = positions.copy()
            return
        ends = self._ends(now)
        if not self._first and not np.count_nonzero(ends > positions):
            self._before = positions.copy()
            return
        self._follow()
        # what is there in the first step is looked up, not routed
        starts = self._before = ends if self._first else positions.copy()
        views = self.views()
        routed: dict[int, list[Matches]] = {}
        chunk = self._chunk_rows()
        for alias in range(len(self.span)):
            for at in range(int(starts[alias]), int(ends[alias]), chunk):
                until = min(at + chunk, int(ends[alias]))
                entry = self._arrivals(alias, at, until, starts, views)
                if entry is not None:
                    self._build(ends, alias)
                    self._route(entry, None, routed)
        self._catch_up(ends)
        positions[:] = ends
        self._count_hidden()
        self._found = {key: self._in_order(parts) for key, parts in routed.items()}

    def _count_hidden(self) -> None:
        for pool in self.pools:
            for key, hid in pool.hidden.items():
                self._hidden.setdefault(key, Totals()).add(hid.nulls, hid.rows, hid.reason)
            pool.hidden.clear()

    def _chunk_rows(self) -> int:
        """Rows that enter at once: many where there is nothing to choose or to learn."""
        simple = len(self.span) == 1 and all(len(p.modules) < 2 for p in self.pools)
        return 16 * _CHUNK if simple else _CHUNK

    def _build(self, ends: I64, entering: int) -> None:
        """Build the SteMs that rows of an alias may probe."""
        for module in self._stems:
            if module.alias != entering:
                for stem in module.stems.values():
                    stem.build(int(ends[module.alias]))

    def _catch_up(self, ends: I64) -> None:
        """SteMs that nobody has probed for long do not leave too much to who does."""
        for module in self._stems:
            for stem in module.stems.values():
                if stem.waiting(int(ends[module.alias])) > _MOST_WAITING:
                    stem.build(int(ends[module.alias]))

    def _arrivals(
        self, alias: int, start: int, end: int, old: I64, views: list[LogView]
    ) -> Entrants | None:
        """Rows that enter; None if no row that came earlier on some other alias matters."""
        base = views[alias].base
        instants, positions = views[alias].ts[start - base : end - base], np.arange(start, end)
        if len(views) == 1:
            return Entrants(alias, positions, instants, [positions], [start], views)
        floors, limits = self._floors(int(instants[0])), [positions] * len(views)
        for other, view in enumerate(views):
            if other == alias:
                continue
            after, least = other < alias, int(old[other])
            if max(view.position(int(instants[-1]), after=after), least) <= floors[other]:
                return None
            limits[other] = view.positions(instants, least, after=after)
        return Entrants(alias, positions, instants, limits, floors, views)

    def _floors(self, instant: int) -> list[int]:
        """By alias, the first position that a window may hold at an instant."""
        return [
            log.discarded if length == NEVER else log.position(instant - length, after=True)
            for log, length in zip(self.logs, self._longest_windows(), strict=True)
        ]

    def _longest_windows(self) -> list[int]:
        if self._longest is None:
            windows = [member.longest() for member in self.members.values()]
            self._longest = [max(lengths) for lengths in zip(*windows, strict=True)]
        return self._longest

    def _route(
        self, entry: Entrants, masks: list[U64] | None, routed: dict[int, list[Matches]]
    ) -> None:
        """Send rows through every pool and sort what comes out by member."""
        for at, pool in enumerate(self.pools):
            mask = pool.mask if masks is None else masks[at]
            if not np.count_nonzero(mask):
                continue
            chunk = pool.route(entry, self._stems, mask)
            if not len(chunk):
                continue
            settle(pool, chunk, self.members, self._ctx, self._faults)
            instants, places, bits = self._in_place(chunk)
            rows, slots = explode(bits)
            found = Matches(np.take(places, rows, axis=1), instants[rows], pool.qid[slots])
            self._deal(found, pool.member[slots], routed)

    def _in_place(self, chunk: LineageBatch) -> tuple[I64, I64, U64]:
        """Instants, positions and lineage of the rows, in the order of time and positions.

        That is cheaper now than once there is a row for each query.
        """
        places = np.vstack([chunk.positions[alias] for alias in range(len(self.span))])
        instants, bits = chunk.instants(), chunk.bits
        if len(self.span) > 1:
            moved, order = order_rows(instants, places)
            if moved:
                return instants[order], np.take(places, order, axis=1), bits[order]
        return instants, places, bits

    def _deal(self, found: Matches, members: I64, routed: dict[int, list[Matches]]) -> None:
        if not len(found):
            return
        first = int(members[0])
        if len(self.members) == 1 or (members == first).all():
            routed.setdefault(first, []).append(found)
            return
        order = np.argsort(members, kind="stable")
        keys, starts = np.unique(members[order], return_index=True)
        for key, part in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
            routed.setdefault(key, []).append(found.take(part))

    @staticmethod
    def _in_order(parts: list[Matches]) -> Matches:
        """By time, then positions and query: however the rows were routed."""
        one = len(parts) == 1
        positions = parts[0].positions if one else np.concatenate([p.positions for p in parts], 1)
        instants = parts[0].instants if one else np.concatenate([p.instants for p in parts])
        qids = parts[0].qids if one else np.concatenate([p.qids for p in parts])
        if is_sorted(instants, positions, qids):
            return Matches(positions, instants, qids)
        found = Matches(positions, instants, qids)
        return found.take(np.lexsort((qids, *positions[::-1], instants)))

    # ---- what holds at the clock -----------------------------------------------------
    def newcomers(self, key: int, now: int, qids: I64) -> Matches:
        """What new queries find: rows of earlier steps, as far as they see them."""
        if not self._first:  # without history nobody sees rows of earlier steps
            qids = qids[self.members[key].queries.since(Lineage.QUERY)[qids] == 0]
        if not qids.shape[0]:
            return Matches.none(len(self.span))
        return self.contents(key, now, qids, self._before)

    def contents(self, key: int, now: int, qids: I64, until: I64 | None = None) -> Matches:
        """The results of some queries of a member that live at `now`."""
        positions = self._positions()
        if now == BEGINNING or positions[0] == _NOWHERE:
            return Matches.none(len(self.span))
        until = positions if until is None else until
        self._follow()
        self._build(positions, entering=0)
        places = self.members[key].place[qids]
        masks = [
            full(places[places // MOST_SLOTS == at] % MOST_SLOTS, pool.words)
            for at, pool in enumerate(self.pools)
        ]
        views = self.views()
        floors = self._floors(now)
        routed: dict[int, list[Matches]] = {}
        for at in range(floors[0], int(until[0]), _CHUNK):
            entering = np.arange(at, min(at + _CHUNK, int(until[0])))
            n = entering.shape[0]
            limits = [np.full(n, int(end)) for end in until]
            entry = Entrants(0, entering, np.full(n, now), limits, floors, views)
            self._route(entry, masks, routed)
        for pool in self.pools:
            pool.hidden.clear()  # rows that are looked up again do not count
        parts = routed.get(key)
        return self._in_order(parts) if parts else Matches.none(len(self.span))

    # ---- what is needed and known ----------------------------------------------------
    def stems(self) -> list[StemInfo]:
        """The SteMs that are probed."""
        return [
            self._registry.info(stem) for module in self._stems for stem in module.stems.values()
        ]

    def learnt(self) -> list[str]:
        """What the eddies know, a line per alias that has seen rows."""
        lines = []
        for pool in self.pools:
            for alias, eddy in enumerate(pool.report(self._stems)):
                if not eddy.rows:
                    continue
                modules = ", ".join(
                    f"{m.module} ({m.share:.0%} of tickets, selectivity {m.selectivity:.2f})"
                    for m in eddy.modules
                )
                visits = f"{eddy.rows:,} rows, {eddy.visits_per_row:.2f} visits each"
                lines.append(f"eddy {self.span.streams[alias]}: {visits}: {modules}")
        return lines

    def report(self) -> dict[str, object]:
        """Streams, queries, bytes of filters, and what the eddies have learnt."""
        return {
            "streams": list(self.span.streams),
            "templates": len(self.members),
            "queries": sum(len(member.queries) for member in self.members.values()),
            "pooled": sum(len(pool) for pool in self.pools),
            "bytes": sum(pool.nbytes for pool in self.pools),
            "routing": self._routing,
            "eddies": [asdict(e) for pool in self.pools for e in pool.report(self._stems)],
        }

    def needs(self, now: int) -> dict[str, int]:
        """By stream, the first position that must stay in its log; all members ask."""
        if self._needs is None or self._needs[0] != now:
            self._needs = now, self._needed(now)
        return self._needs[1]

    def _needed(self, now: int) -> dict[str, int]:
        positions = self._positions().tolist()
        held = len(self.span) > 1 and now != BEGINNING
        floors = self._floors(now) if held else positions
        found: dict[str, int] = {}
        for stream, position, floor in zip(self.span.streams, positions, floors, strict=True):
            least = min(position, floor)
            found[stream] = min(found.get(stream, least), least)
        return found
