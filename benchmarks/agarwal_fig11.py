"""agarwal_fig11: keeping groups while queries come and go (Agarwal §5.3, figure 11).

100,000 band joins stand; 100,000 updates, half of them deletions, change them. They come in calls
of 500, which every structure takes one by one. Beside a stabbing partition (ε = 3) and hotspots
are the sorted list that BJ-MJ keeps, and all updates as one call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numba
import numpy as np

from benchmarks.agarwal_workloads import QUERIES, band_joins
from benchmarks.chart import chart
from benchmarks.pipeline import Cost, Result, at_least, at_most, plain, take_turns, timed
from penstock.arrays import I64
from penstock.indexes.pairs.hotspots import Hotspots
from penstock.indexes.pairs.stabbing_partition import StabbingPartition
from penstock.kernels.pairs import sorted_blocks

CALL, EPSILON = 500, 3.0
TIMES_LIST = 1.2
PER_SECOND = 100_000
Kept = StabbingPartition | Hotspots
Call = tuple[I64, bool]  # ids, and whether they are inserted


class SortedList:
    """The queries of BJ-MJ: intervals in order of their lows, inserted and removed one by one."""

    def __init__(self) -> None:
        self._blocks = sorted_blocks.new_blocks(4 * QUERIES)
        self._lows = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(sorted_blocks.length(self._blocks))

    def add(self, ids: I64, lows: I64, highs: I64) -> None:
        """Insert intervals."""
        if most := max(int(ids.max(initial=-1)) + 1 - self._lows.shape[0], 0):
            self._lows = np.append(self._lows, np.zeros(2 * most, np.int64))
        self._lows[ids] = lows
        _insert(self._blocks, ids, lows, highs)

    def remove(self, ids: I64) -> None:
        """Remove intervals."""
        _remove(self._blocks, ids, self._lows)


@numba.njit(nogil=True, _nrt=False)
def _insert(blocks: sorted_blocks.Blocks, ids: I64, lows: I64, highs: I64) -> None:
    for i in range(ids.shape[0]):
        sorted_blocks.insert(blocks, lows[i], highs[i], ids[i])


@numba.njit(nogil=True, _nrt=False)
def _remove(blocks: sorted_blocks.Blocks, ids: I64, lows: I64) -> None:
    for i in range(ids.shape[0]):
        rank, at = sorted_blocks.seek_entry(blocks, lows[ids[i]], ids[i])
        sorted_blocks.remove(blocks, rank, at)


def calls_of(queries: int, updates: int, call: int) -> list[Call]:
    """Calls that insert new queries or delete any that are there, each as likely."""
    rng = np.random.default_rng(1)
    there, new, out = list(range(queries)), queries, []
    for _ in range(updates // call):
        if rng.random() < 0.5:
            out.append((np.arange(new, new + call), True))
            there.extend(range(new, new + call))
            new += call
        else:
            chosen = rng.choice(len(there), call, replace=False)
            out.append((np.array([there[i] for i in chosen]), False))
            gone = set(chosen.tolist())
            there = [qid for at, qid in enumerate(there) if at not in gone]
    return out


def run(scale: float = 1.0) -> Result:
    queries, call = int(QUERIES * scale), max(int(CALL * scale), 1)
    calls = calls_of(queries, queries, call)
    asked = band_joins(2 * queries + call, s_rows=1, rows=1).queries
    ends = asked.low, asked.high
    makers: dict[str, Callable[[], Kept | SortedList]] = {
        "sorted list (BJ-MJ)": SortedList,
        "stabbing partition (BJ-SSI)": partial(StabbingPartition, EPSILON),
        "hotspots (BJ-Hotspot)": Hotspots,
    }
    turns = {name: partial(_update, make, queries, calls, *ends) for name, make in makers.items()}
    turns["at once"] = partial(_update, Hotspots, queries, _together(calls), *ends)
    runs = take_turns(turns)
    updates = sum(ids.shape[0] for ids, _ in calls)
    out: Result = {"queries": queries, "updates": updates}
    each = {}
    for name in makers:
        cost = runs[name][1]
        each[name] = cost.cpu / updates * 1e6
        out[name] = plain(each[name], cost.wall / updates * 1e6, "µs/update")
    listed, *ours = makers
    for name in ours:
        cost, beside = runs[name][1], runs[listed][1]
        out[f"{name} : {listed}"] = at_most(
            cost.cpu / beside.cpu, cost.wall / beside.wall, TIMES_LIST
        )
    bulk = runs["at once"][1]
    out["hotspots, all at once"] = at_least(
        updates / bulk.cpu, updates / bulk.wall, PER_SECOND, "updates/s"
    )
    bars = {name: [value] for name, value in each.items()}
    return out | {"figure 11": chart("Maintenance", "queries", "µs/update", [queries], bars)}


def _together(calls: list[Call]) -> list[Call]:
    """All that come as one call, and all that go as another."""
    added, removed = (
        np.concatenate([ids for ids, new in calls if new is way] or [np.empty(0, np.int64)])
        for way in (True, False)
    )
    return [(added, True), (removed, False)]


def _update(
    make: Callable[[], Kept | SortedList], queries: int, calls: list[Call], lows: I64, highs: I64
) -> tuple[int, Cost]:
    """How many are left, and the cost of the updates."""
    kept, first = make(), np.arange(queries)
    kept.add(first, lows[first], highs[first])
    with timed() as cost:
        for ids, new in calls:
            if new:
                kept.add(ids, lows[ids], highs[ids])
            else:
                kept.remove(ids)
    return len(kept), cost
