"""Matches of two streams by an index over pairs of their rows (Agarwal et al. 2009, §3).

The rows of a step probe earlier rows of the other stream, which are in a SteM sorted by key and
value. A pair is found once, by its last row.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.eddy.flow import Flow
from penstock.eddy.flows import Flows
from penstock.eddy.membership import FlowTemplate
from penstock.eddy.results import Matches
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.indexes.factory import pair_index
from penstock.indexes.pairs.axes import Rows
from penstock.indexes.pairs.pair_index import PairQueries
from penstock.indexes.pairs.router import Policy
from penstock.indexes.pairs.rows import ProbingRows, Takers
from penstock.indexes.pairs.shape import PairShape
from penstock.indexes.pairs.sides import Names
from penstock.kernels.pairs.data import Entries, Partner
from penstock.logical.lifetime import Lifetime
from penstock.logical.stem_kind import StemKind
from penstock.optimizer.flow_block import Block
from penstock.physical.flow_matches import MatchedRows
from penstock.physical.pair_check import PairCheck
from penstock.physical.pair_sets import PairSets
from penstock.queries.query_table import QueryTable
from penstock.state.source_log import SourceLog
from penstock.stems.keyed_stem import KeyedStem
from penstock.stems.log_view import LogView

_BATCH = 4096  # most rows that probe at once


class PairMatcher:
    """The index, the SteMs that it probes, and the conditions that it leaves to check.

    All are built on first use, because few templates have so many queries.
    """

    def __init__(
        self, shape: PairShape, block: Block, queries: QueryTable, ctx: Context, flows: Flows
    ) -> None:
        policy = Policy(flows.settings.pairs)
        wanted = PairQueries(queries, shape, block.lifetimes, policy)
        self.index = pair_index(wanted).make(wanted, ctx)
        self.hidden = ctx.hidden
        self.check = PairCheck(shape, queries, ctx)
        self._shape, self._flows, self._queries = shape, flows, queries
        self.streams = block.span.streams
        self._stems: list[KeyedStem] = []

    def stem(self, side: int, logs: list[SourceLog]) -> KeyedStem:
        """The SteM of one side."""
        if not self._stems:
            self._sweep(*map(self.index.value_column, (0, 1)))
            self._stems = [self._acquire(side, log) for side, log in enumerate(logs)]
            self._flows.pairs.append(self)
        old = self._stems[side]
        if old.columns[-1] != self.index.value_column(side):
            self._stems[side] = self._acquire(side, logs[side])
            self._flows.stems.release(old)
        return self._stems[side]

    def _acquire(self, side: int, log: SourceLog) -> KeyedStem:
        columns = self._columns(side, self.index.value_column(side))
        stem = self._flows.stems.acquire(self.streams[side], log, columns, StemKind.KEYED)
        assert isinstance(stem, KeyedStem)
        return stem

    def _columns(self, side: int, value: int) -> tuple[int, ...]:
        return (*(columns[side] for columns in self._shape.key), value)

    def settle(self, views: list[LogView]) -> None:
        """Follow Q, and choose again along which columns to look, if much has changed."""
        self.index.follow()
        left, right = views
        ends = left.base + left.rows.shape[0], right.base + right.rows.shape[0]
        self.index.settle(Rows((left.rows, right.rows), ends), self._is_there)

    def _is_there(self, side: int, value: int) -> bool:
        columns = self._columns(side, value)
        return self._flows.stems.is_read(self.streams[side], columns, StemKind.KEYED)

    def close(self) -> None:
        """Release the SteMs."""
        if self._stems:
            self._flows.pairs.remove(self)
        else:
            self._sweep()
        while self._stems:
            self._flows.stems.release(self._stems.pop())

    def _sweep(self, *kept: int) -> None:
        """Free SteMs of a restored arena, except along the columns kept by side."""
        for side, stream in enumerate(self.streams):
            for value in self.index.value_columns(side):
                if value not in kept[side : side + 1]:
                    self._flows.stems.sweep(stream, self._columns(side, value), StemKind.KEYED)

    def checked(self, found: Matches, views: list[LogView], totals: Totals) -> Matches:
        """Keep the matches that satisfy the conditions which the index does not decide.

        Failures that ON ERROR hides are counted in `totals`.
        """
        return self.check.passing(found, views, self.index, totals)

    def report(self) -> dict[str, object]:
        """For stats(): what the index holds, and by stream how its rows find partners."""
        self.index.follow()
        return {
            "streams": list(self.streams),
            "queries": len(self._queries),
            **self.index.report(self.names([stem.log for stem in self._stems])),
        }

    def names(self, logs: list[SourceLog]) -> Names:
        """The columns of both sides, each with its stream."""
        left, right = (
            tuple(f"{stream}.{name}" for name in log.schema.names)
            for stream, log in zip(self.streams, logs, strict=True)
        )
        return left, right


class PairMatches:
    """Matches of the template's own index over pairs of rows of two streams."""

    def __init__(
        self, flow: Flow, template: FlowTemplate, made: MatchedRows, *, matcher: PairMatcher
    ) -> None:
        self._flow, self._template, self._made, self._matcher = flow, template, made, matcher
        self._sets = None if made.sets is None else PairSets(made.sets)

    def close(self) -> None:
        """Release the SteMs."""
        self._matcher.close()

    def has_input(self) -> bool:
        """Whether the step took rows of either stream."""
        starts, ends = self._flow.before, self._flow.taken
        return ends is not None and bool((starts < ends).any())

    def arrived(self, clock: Clock) -> Delta:
        """The pairs found in the step; at commit only those alive at the clock."""
        starts, ends = self._flow.before, self._flow.taken
        assert ends is not None
        index, views, parts = self._matcher.index, self._flow.views(), list[Matches]()
        self._matcher.settle(views)
        totals, sets = self._matcher.hidden, self._coding()
        for side in (0, 1):
            view, other = views[side], views[1 - side]
            for at in range(int(starts[side]), int(ends[side]), _BATCH):
                end = min(at + _BATCH, int(ends[side]))
                instants = view.ts[at - view.base : end - view.base]
                limits = other.positions(instants, int(starts[1 - side]), after=side == 1)
                rows = self._rows(views, side, at, instants, limits)
                if sets is None:
                    parts.append(self._found(index.match(rows), rows, at, views, totals))
                else:
                    parts.append(self._found_sets(sets, rows, at, views, totals))
        made = self._made.delta if sets is None else self._made.delta_of_pairs
        delta = made(_in_order(parts))
        return delta.alive(clock.now) if clock.at_commit else delta

    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """The pairs live at `now`, of rows before `until`, for some queries or for all."""
        index, views, parts = self._matcher.index, self._flow.views(), list[Matches]()
        self._matcher.settle(views)
        if qids is not None:
            index = index.among(qids)
        for at in range(self._floor(0, now), int(until[0]), _BATCH):
            n = min(at + _BATCH, int(until[0])) - at
            limits, instants = np.full(n, int(until[1])), np.full(n, now)
            again = Totals()  # pairs that are looked up again do not count
            rows = self._rows(views, 0, at, instants, limits)
            parts.append(self._found(index.match(rows), rows, at, views, again))
        return self._made.delta(_in_order(parts))

    def _coding(self) -> PairSets | None:
        """Where set codes are made, if pairs have the same expiry for all queries."""
        can = self._template.is_uniform and not self._matcher.check.reads_queries
        return self._sets if can else None

    def _rows(
        self, views: list[LogView], side: int, start: int, instants: I64, limits: I64
    ) -> ProbingRows:
        """One side's rows from a position on, and what they probe."""
        view, other = views[side], views[1 - side]
        stem = self._matcher.stem(1 - side, self._flow.logs)
        stem.build(int(limits.max(initial=0)))
        floor = max(self._floor(1 - side, int(instants[0])), other.base)
        there = slice(start - view.base, start - view.base + instants.shape[0])
        return ProbingRows(
            side, view.rows[there], instants, view.epoch[there], floor, limits,
            Entries(*stem.runs()), Partner(other.rows, other.ts, other.epoch, other.base),
        )  # fmt: skip

    def _found(
        self, found: Takers, rows: ProbingRows, start: int, views: list[LogView], totals: Totals
    ) -> Matches:
        """The matches of one side's rows from a position on, query by query."""
        matches = _matches(rows, start, found.rows, found.positions, found.qids)
        if not self._all_live(rows, start):
            matches = self._made.living(matches)
        return self._matcher.checked(matches, views, totals)

    def _found_sets(
        self, sets: PairSets, rows: ProbingRows, start: int, views: list[LogView], totals: Totals
    ) -> Matches:
        """The matches of one side's rows from a position on, pair by pair, with sets' codes."""
        found, coded = self._matcher.index.match_coded(rows)
        sets.follow(coded)
        parts = [sets.of_queries(self._found(found, rows, start, views, totals))]
        for some in coded:
            pairs = _matches(rows, start, some.rows, some.positions, sets.codes(some))
            if not self._all_live(rows, start):
                pairs = self._made.living_pairs(pairs)
            parts.append(self._matcher.check.of_one_key(pairs, views))
        return sets.united(parts)

    def _all_live(self, rows: ProbingRows, start: int) -> bool:
        """Whether all rows that the probing rows can meet live at that instant, and they too."""
        side, last = rows.side, int(rows.instants[-1])
        known = self._template.is_uniform and self._floor(1 - side, last) <= rows.floor
        return known and self._floor(side, last) <= start

    def _floor(self, side: int, instant: int) -> int:
        """The first position that the longest window of a side may hold at an instant."""
        longest = Lifetime(self._template.longest()[side])
        return longest.first(self._flow.logs[side], instant)

    def notes(self) -> list[str]:
        """For EXPLAIN: groups, strategies and their costs."""
        matcher = self._matcher
        return matcher.index.notes(matcher.streams, matcher.names(self._flow.logs))

    def how(self) -> str:
        """For EXPLAIN: how queries are matched."""
        index = self._matcher.index
        index.follow()
        return f"× {len(self._template.queries)} queries ({index.explain()})"


def _matches(rows: ProbingRows, start: int, found: I64, positions: I64, lin: I64) -> Matches:
    """Pairs of probing rows, by number, and partners, by position."""
    places = [start + found, positions]
    both = np.vstack(places if rows.side == 0 else places[::-1])
    return Matches(both, rows.instants[found], lin)


def _in_order(parts: list[Matches]) -> Matches:
    some = [part for part in parts if len(part)]
    return Matches.in_order(some) if some else Matches.none(2)
