"""Matches of two streams by an index over pairs of their rows (Agarwal et al. 2009, §3).

Rows of either stream that a step takes probe what came before them in the other, which lies in a
SteM in order of key and value. A pair is found by its last row, so it is found once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta, Lineage
from penstock.eddy.flow import Flow
from penstock.eddy.membership import FlowTemplate
from penstock.eddy.results import Matches
from penstock.indexes.pairs.pair_index import PairIndex
from penstock.indexes.pairs.rows import ProbingRows, Takers
from penstock.kernels.pairs.data import Entries, Partner
from penstock.physical.flow_matches import MatchedRows
from penstock.physical.pair_check import PairCheck
from penstock.stems.log_view import LogView
from penstock.stems.stem import KeyedStem

_BATCH = 4096  # rows that probe at once

MakePairIndex = Callable[[], "tuple[PairIndex, PairCheck, tuple[KeyedStem, KeyedStem]]"]


class PairMatches:
    """Matches of the template's own index over pairs of rows of two streams."""

    def __init__(
        self, flow: Flow, template: FlowTemplate, made: MatchedRows, make_index: MakePairIndex
    ) -> None:
        self._flow, self._template, self._made = flow, template, made
        self._make_index = make_index

    @cached_property
    def _index(self) -> tuple[PairIndex, PairCheck, tuple[KeyedStem, KeyedStem]]:
        """Made when it is first asked: most templates never have so many queries."""
        return self._make_index()

    def has_input(self) -> bool:
        """Whether the step took rows of either stream."""
        starts, ends = self._flow.before, self._flow.taken
        return ends is not None and bool((starts < ends).any())

    def arrived(self, clock: Clock) -> Delta:
        """The pairs that the step brings; at commit only those that are alive then."""
        starts, ends = self._flow.before, self._flow.taken
        assert ends is not None
        index, _, _ = self._index
        index.follow()
        views, parts = self._flow.views(), list[Matches]()
        for side in (0, 1):
            for at in range(int(starts[side]), int(ends[side]), _BATCH):
                end = min(at + _BATCH, int(ends[side]))
                limits = self._limits(views, side, at, end, int(starts[1 - side]))
                instants = views[side].ts[at - views[side].base : end - views[side].base]
                parts.append(self._found(index, views, side, at, instants, limits))
        delta = self._made.delta(self._sorted(parts))
        return delta.alive(clock.now) if clock.at_commit else delta

    def _limits(self, views: list[LogView], side: int, at: int, end: int, old: int) -> I64:
        """Up to which position of the other stream each row finds what came before it."""
        view, other = views[side], views[1 - side]
        instants = view.ts[at - view.base : end - view.base]
        return other.positions(instants, old, after=side == 1)

    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """The pairs at `now` of rows before `until`, for some queries or for all."""
        index, _, _ = self._index
        index.follow()
        if qids is not None:
            index = index.among(qids)
        views, parts = self._flow.views(), list[Matches]()
        first = self._first(0, now)
        for at in range(first, int(until[0]), _BATCH):
            end = min(at + _BATCH, int(until[0]))
            limits, instants = np.full(end - at, int(until[1])), np.full(end - at, now)
            parts.append(self._found(index, views, 0, at, instants, limits))
        return self._made.delta(self._sorted(parts))

    def _first(self, side: int, instant: int) -> int:
        """The first position that a window may hold at an instant."""
        return self._flow.floors(instant)[side]

    def _found(
        self, index: PairIndex, views: list[LogView], side: int, start: int, instants: I64,
        limits: I64,
    ) -> Matches:  # fmt: skip
        """The matches of some rows of one side."""
        other, end = 1 - side, start + instants.shape[0]
        _, check, stems = self._index
        stems[other].build(int(limits.max(initial=0)))
        floor = max(self._first(other, int(instants[0])), views[other].base)
        view, there = views[side], slice(start - views[side].base, end - views[side].base)
        partner = Partner(views[other].rows, views[other].ts, views[other].epoch, views[other].base)
        batch = ProbingRows(
            side, view.rows[there], instants, view.epoch[there], floor, limits,
            Entries(*stems[other].runs()), partner,
        )  # fmt: skip
        return self._verified(index.match(batch), check, views, side, start, instants)

    def _verified(
        self, found: Takers, check: PairCheck, views: list[LogView], side: int, start: int,
        instants: I64,
    ) -> Matches:  # fmt: skip
        """The pairs as matches, without those that conditions beside the index reject."""
        places = [start + found.rows, found.positions]
        if side == 1:
            places.reverse()
        matches = Matches(np.vstack(places), instants[found.rows], found.qids)
        return check.passing(self._made.living(matches), views)

    def _sorted(self, parts: list[Matches]) -> Matches:
        some = [part for part in parts if len(part)]
        return Matches.in_order(some) if some else Matches.none(2)

    def how(self) -> str:
        """How queries are matched, for EXPLAIN."""
        index, _, _ = self._index
        index.follow()
        count = self._template.queries.live(Lineage.QUERY).shape[0]
        return f"× {count} queries ({index.explain()})"

