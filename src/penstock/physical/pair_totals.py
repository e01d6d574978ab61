"""Pair totals: counts and sums of the pairs of a join per query, without forming the pairs.

Each row that arrives or leaves changes the totals of the queries that take some of its partners:
by their number, and by the sums of their columns, which are differences of prefix sums. So the work
is per moving row and affected query, however many partners there are. Every change is a row that
stays; GROUP BY above adds them up. Pairs are formed for a query with intervals that are not exact.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import BEGINNING, I64, NEVER
from penstock.delta import Clock, Delta, Lineage, merge
from penstock.eddy.flow import Flow
from penstock.eddy.flows import Flows
from penstock.eddy.membership import FlowTemplate
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.indexes.pairs.crowds import Crowd, Crowds
from penstock.kernels.pairs.running_totals import PAIRS, SLOT, TS, merge_totals, run_totals
from penstock.logical.lifetime import Lifetime
from penstock.logical.stem_kind import StemKind
from penstock.physical.flow_matches import MatchedRows
from penstock.physical.formed_totals import FormedTotals
from penstock.physical.pair_moves import Source, Stay, movement
from penstock.physical.totals_specs import PairTotalsSpec
from penstock.stems.keyed_stem import KeyedStem


class PairTotals:
    """The changes of totals of all queries of a template."""

    def __init__(
        self, flow: Flow, template: FlowTemplate, _: MatchedRows, *, spec: PairTotalsSpec,
        ctx: Context, flows: Flows,
    ) -> None:  # fmt: skip
        assert spec.pairs is not None
        self._flow, self._template, self._spec = flow, template, spec
        self._ctx, self._flows = ctx, flows
        self._width = len(spec.edge.schema)
        self._crowds = Crowds(template.queries, spec.pairs, template.lifetimes, ctx)
        self._formed = FormedTotals(spec.pairs, template.queries, ctx)
        self._stems: list[KeyedStem] = []

    def close(self) -> None:
        """Release the SteMs."""
        if self._stems:
            self._flows.pairs.remove(self)
        while self._stems:
            self._flows.stems.release(self._stems.pop())

    # ---- the step --------------------------------------------------------------------
    def has_input(self) -> bool:
        """Whether the step took rows of either stream."""
        starts, ends = self._flow.before, self._flow.taken
        return ends is not None and bool((starts < ends).any())

    def arrived(self, clock: Clock) -> Delta:
        """The changes of the step; at commit all of them happen at the clock.

        New queries have not seen rows that leave in the step: what they hold is looked up.
        """
        if self._flow.taken is None or clock.now == BEGINNING:
            return Delta.empty(self._width)
        parts = []
        for crowd in self._crowds.follow(self._epochs(clock.before)):
            begin = clock.now if crowd.is_new else clock.before
            stays = self._stay(crowd, 0, begin, clock.now), self._stay(crowd, 1, begin, clock.now)
            parts += self._changes(crowd, stays, clock.now, clock.at_commit, self._ctx.hidden)
        return merge(parts, self._width)

    def _stay(self, crowd: Crowd, side: int, begin: int, now: int) -> Stay:
        starts, ends, log = self._flow.before, self._flow.taken, self._flow.logs[side]
        assert ends is not None
        window, start = crowd.windows[side], int(starts[side])
        first = min(window.first(log, begin), start)
        return Stay(first, start, window.first(log, now), int(ends[side]))

    def _changes(
        self, crowd: Crowd, stays: tuple[Stay, Stay], now: int, at_once: bool, totals: Totals
    ) -> list[Delta]:
        """The changes of a crowd's queries, of each move or `at_once`."""
        sources = self._sources()
        found = movement(crowd, sources, stays, now)
        if found is None:
            return []
        run = (found.moves, *found.sides)
        table = merge_totals(*run, now) if at_once else run_totals(*run)
        parts = [_rows(table, crowd.qids[table[:, SLOT]])]
        found = movement(crowd, sources, stays, now) if crowd.vague.shape[0] else None
        if found is not None:
            table = self._formed.changes(found, sources, crowd, totals)
            if at_once:
                table[:, TS] = now
            parts.append(_rows(table, table[:, SLOT].copy()))
        return parts

    # ---- what holds ------------------------------------------------------------------
    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """The totals at `now` of rows before `until`, for some queries or for all."""
        live = self._template.queries.live(Lineage.QUERY) if qids is None else qids
        parts = []
        for crowd in self._crowds.among(live):
            windows = zip(crowd.windows, self._flow.logs, strict=True)
            left, right = (life.first(log, now) for life, log in windows)
            stays = (
                Stay(left, left, left, max(int(until[0]), left)),
                Stay(right, max(int(until[1]), right), right, max(int(until[1]), right)),
            )
            parts += self._changes(crowd, stays, now, True, Totals())
        return merge(parts, self._width)

    def _epochs(self, before: int) -> I64:
        """The epochs of rows that are alive or arrive, if some query does not see all of them."""
        latest, ends, found = self._crowds.latest_start(), self._flow.taken, []
        assert ends is not None
        for longest, log, view, end in zip(
            self._template.longest(), self._flow.logs, self._flow.views(), ends, strict=True
        ):
            first = max(Lifetime(longest).first(log, before), view.base)
            found.append(view.epoch[first - view.base : int(end) - view.base])
        epochs = np.concatenate(found)
        if latest <= epochs.min(initial=latest):
            return np.array([latest])
        return np.unique(epochs)

    def _sources(self) -> tuple[Source, Source]:
        if not self._stems:
            self._stems = [self._acquire(side) for side in (0, 1)]
            self._flows.pairs.append(self)
        left, right = (
            Source(view, stem, np.array(self._spec.columns(side), np.int64), how)
            for side, (view, stem, how) in enumerate(
                zip(self._flow.views(), self._stems, self._crowds.sides, strict=True)
            )
        )
        return left, right

    def _acquire(self, side: int) -> KeyedStem:
        shape, log = self._spec.pairs, self._flow.logs[side]
        assert shape is not None
        value = self._crowds.sides[1 - side].value_column
        columns = (*(key[side] for key in shape.key), value)
        stream = self._spec.block.span.streams[side]
        stem = self._flows.stems.acquire(stream, log, columns, StemKind.KEYED)
        assert isinstance(stem, KeyedStem)
        return stem

    # ---- what is known ---------------------------------------------------------------
    def report(self) -> dict[str, object]:
        """For stats(): streams, queries and crowds."""
        return {
            "streams": list(self._spec.block.span.streams),
            "queries": len(self._template.queries),
            "strategy": "totals",
            "crowds": self._crowds.summary(),
        }

    def notes(self) -> list[str]:
        """For EXPLAIN: crowds and stabbing groups."""
        return [f"crowds: {self._crowds.summary()}"]

    def how(self) -> str:
        """For EXPLAIN: how totals are found."""
        return f"× {len(self._template.queries)} queries ({self._spec.means})"


def _rows(table: I64, qids: I64) -> Delta:
    """The rows of a table of changes; they stay."""
    n = table.shape[0]
    rows = np.zeros((1 + table.shape[1] - PAIRS, n), np.int64)
    rows[1:] = table[:, PAIRS:].T
    return Delta(rows, table[:, TS].copy(), np.full(n, NEVER), np.ones(n, np.int8), qids)
