"""The rows of a join that come and go in a step, as the kernels of running totals read them.

Everything is derived from the logs and their SteMs. A row moves when it arrives in its window, and
when it leaves; at one instant, departures come before arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.crowds import Crowd
from penstock.indexes.pairs.rows import ProbingRows
from penstock.indexes.pairs.sides import PairSide
from penstock.kernels.pairs.alive import (
    Alive,
    amounts_of,
    find_entries,
    gather_entries,
    grow_tree,
)
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Partner, Probes
from penstock.kernels.pairs.running_totals import Moves, MovingRows, MovingSide
from penstock.kernels.stem_runs import merge_entries
from penstock.stems.keyed_stem import KeyedStem
from penstock.stems.log_view import LogView

_NONE: I64 = np.empty(0, np.int64)
_NO_ENTRIES = Entries(_NONE, _NONE, _NONE, np.zeros(1, np.int64))


@dataclass(frozen=True, slots=True)
class Stay:
    """The rows of one side in a step: from `first` on they are alive, from `start` on they arrive.

    Rows before `gone` leave by the end of the step; there are no rows from `end` on.
    """

    first: int
    start: int
    gone: int
    end: int

    def moving(self) -> I64:
        """The positions of rows that arrive, or leave and were there."""
        leaving = np.arange(self.first, min(self.gone, self.start))
        return np.concatenate([leaving, np.arange(self.start, self.end)])


@dataclass(frozen=True, slots=True)
class Source:
    """One side of a join: its log, its SteM, the columns that are added up, and how it probes."""

    view: LogView
    stem: KeyedStem
    columns: I64
    how: PairSide


@dataclass(frozen=True, slots=True)
class Movement:
    """The moves of a step in order, both sides, and the positions of their moving rows."""

    moves: Moves
    sides: tuple[MovingSide, MovingSide]
    positions: tuple[I64, I64]


def movement(
    crowd: Crowd, sources: tuple[Source, Source], stays: tuple[Stay, Stay], until: int
) -> Movement | None:
    """The moves of a crowd's rows up to an instant; None if no row moves."""
    moving = [_seen(s.view, stay.moving(), crowd) for s, stay in zip(sources, stays, strict=True)]
    if not any(positions.shape[0] for positions in moving):
        return None
    probes = [_probes(source, at) for source, at in zip(sources, moving, strict=True)]
    wanted = np.unique(np.concatenate([probe.keys for probe in probes]))
    sides = [
        _side(crowd, side, sources[side], stays[side], moving[side], probes[side], wanted)
        for side in (0, 1)
    ]
    moves = _moves(crowd, sources, stays, moving, until)
    return Movement(moves, (sides[0], sides[1]), (moving[0], moving[1]))


def _seen(view: LogView, positions: I64, crowd: Crowd) -> I64:
    """The positions of rows that the crowd sees."""
    if not crowd.since:
        return positions
    return positions[view.epoch[positions - view.base] >= crowd.since]


def _probes(source: Source, positions: I64) -> Probes:
    """The rows at some positions, as probes that see all partners."""
    view, n = source.view, positions.shape[0]
    there = positions - view.base
    batch = ProbingRows(
        source.how.side, view.rows[there], view.ts[there], _NONE, LEAST, np.full(n, MOST),
        _NO_ENTRIES, Partner(view.rows, view.ts, view.epoch, view.base),
    )  # fmt: skip
    return source.how.probes(batch)


def _side(
    crowd: Crowd, side: int, source: Source, stay: Stay, moving: I64, probes: Probes, wanted: I64
) -> MovingSide:
    """A side at the start of the step: its moving rows, and its partners of the wanted keys."""
    view, columns = source.view, source.columns
    entries = _sorted_entries(source.stem, wanted, stay)
    positions = entries.positions
    amounts = amounts_of(view.rows, positions - view.base, columns, 1)
    alive = (positions >= stay.first) & (positions < stay.start)
    if crowd.since:
        alive &= view.epoch[positions - view.base] >= crowd.since
    own = amounts_of(view.rows, moving - view.base, columns, 0)
    rows = MovingRows(probes, own, find_entries(positions, moving))
    return MovingSide(rows, Alive(entries, amounts, grow_tree(amounts, alive)), crowd.asked[side])


def _sorted_entries(stem: KeyedStem, wanted: I64, stay: Stay) -> Entries:
    """The entries of a SteM with wanted keys, as one run."""
    stem.build(stay.end)
    keys, values, positions, starts = gather_entries(*stem.runs(), wanted, stay.first, stay.end)
    end = values.shape[0]
    for run in range(starts.shape[0] - 3, -1, -1):
        merge_entries(keys, values, positions, starts[run], starts[run + 1], end)
    return Entries(keys, values, positions, np.array([0, end]))


def _moves(
    crowd: Crowd, sources: tuple[Source, Source], stays: tuple[Stay, Stay], moving: list[I64],
    until: int,
) -> Moves:  # fmt: skip
    """Arrivals and departures in order of time; departures first, then those of side 0."""
    gone, come = [], []
    for source, stay, positions, life in zip(sources, stays, moving, crowd.windows, strict=True):
        ts = source.view.ts[positions - source.view.base]
        leaving, arriving = life.departures(ts), np.flatnonzero(positions >= stay.start)
        leave = np.flatnonzero(leaving <= until)
        gone.append((leaving[leave], leave))
        come.append((ts[arriving], arriving))
    parts = [*gone, *come]
    counts = [rows.shape[0] for _, rows in parts]
    ts, row = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    side = np.repeat(np.array([0, 1, 0, 1], np.int8), counts)
    sign = np.repeat(np.array([-1, -1, 1, 1], np.int8), counts)
    order = np.argsort(ts, kind="stable")
    return Moves(ts[order], side[order], row[order], sign[order])
