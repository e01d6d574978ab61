"""The index over pairs: which queries take a row of one stream with a row of another.

It follows Q: queries that came since are a part of their own, parts of like size are merged, and
queries that are gone are passed over until their part is built again. So a change of Q costs
amortised O(log n) of building an index once, and a million queries wait for none of it. Stabbing
groups are kept for all queries, and follow each change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.indexes.contract import IndexKind, PairQueryIndex, QueryRows
from penstock.indexes.pairs.axes import LOOK, AxisChoice, IsThere, Rows
from penstock.indexes.pairs.boxes import Boxes
from penstock.indexes.pairs.groups import PairGroups
from penstock.indexes.pairs.part import Part
from penstock.indexes.pairs.report import SideReport
from penstock.indexes.pairs.router import Policy, Router, Tally
from penstock.indexes.pairs.rows import Prefixes, ProbingRows, Takers, merged
from penstock.indexes.pairs.shape import PairShape
from penstock.indexes.pairs.sides import Names
from penstock.kernels.pairs.data import Queries
from penstock.logical.lifetime import Lifetime
from penstock.queries.query_table import QueryTable

_GROWTH = 8  # a part is at least so many times as large as the next
_LARGE = 1 << 18
"""A part with so many queries takes no others in: rows would wait too long for it."""
_MOST_DEAD = 0.5  # share of queries that are gone, in a part that is kept


@dataclass(frozen=True, slots=True)
class PairQueries:
    """The input of an index: a template's queries, their conditions, and lifetimes by side."""

    queries: QueryTable
    shape: PairShape
    lifetimes: tuple[Lifetime, ...]
    policy: Policy = field(default_factory=Policy)


class PairIndex:
    """Queries by their conditions on a row of either stream and its partners in the other."""

    inputs = (0, 1)

    def __init__(
        self, wanted: PairQueries, ctx: Context, axes: tuple[AxisChoice, AxisChoice] | None = None
    ) -> None:
        self._wanted, self._ctx = wanted, ctx
        self._tallies = Tally(), Tally()
        self._axes = axes or (AxisChoice(wanted.shape, 0), AxisChoice(wanted.shape, 1))
        self._version, self._identity = 0, wanted.queries.identity
        self._clear()

    def _clear(self) -> None:
        self._parts: list[Part] = []
        self._alive: Bool = np.zeros(0, np.bool_)  # by qid
        self._groups = [PairGroups(partial(self._asked, side)) for side in (0, 1)]

    # ---- following Q -----------------------------------------------------------------
    def follow(self) -> None:
        """Take in what has changed in Q."""
        table = self._wanted.queries
        if self._identity is not table.identity:
            self._version, self._identity = 0, table.identity
            self._clear()
        if self._version == table.version:
            return
        touched = table.touched_since(self._version)
        if touched is None:
            self._compare_all()
        else:
            known = touched[touched < self._alive.shape[0]]
            self.remove(known[self._alive[known]])
            self._add(table.alive(Lineage.QUERY, touched))
        self._version = table.version

    def _compare_all(self) -> None:
        """Look at every row of Q for what has changed."""
        table, since = self._wanted.queries, self._version
        live = table.live(Lineage.QUERY)
        new = live[table.born()[live] > since]  # or a number that is used once more
        kept = np.zeros(table.born().shape[0], np.bool_)
        kept[live] = True
        kept[new] = False
        known = np.flatnonzero(self._alive)
        self.remove(known[~kept[known]])
        self._alive = kept
        self._add(new)

    def remove(self, ids: I64) -> None:
        """Remove queries."""
        if not ids.shape[0]:
            return
        self._alive[ids] = False
        self._count(ids.shape[0])
        kept = []
        for part in self._parts:
            slots = part.slots_of(ids)
            if not slots.shape[0]:
                kept.append(part)
                continue
            gone = part.gone.copy()
            gone[slots] = True
            left, n = np.count_nonzero(gone), part.qids.shape[0]
            for groups in self._groups:
                groups.remove(part.qids[slots])
            if n - left > _MOST_DEAD * n:
                kept.append(part.without(gone))
            elif left < n:
                kept.append(self._made(part.qids[~gone]))
        self._parts = kept

    def add(self, queries: QueryRows) -> None:
        """Add queries (ascending) of Q."""
        self._add(queries.ids)

    def _add(self, new: I64) -> None:
        """Make queries a part of their own, together with smaller parts."""
        qids = new
        if not new.shape[0]:
            return
        room = self._alive.shape[0]
        if room <= new[-1]:
            more = max(int(new[-1]) + 1, room + room // 4) - room
            self._alive = np.append(self._alive, np.zeros(more, np.bool_))
        self._alive[new] = True
        self._count(new.shape[0])
        while self._parts and self._parts[-1].qids.shape[0] < min(_GROWTH * qids.shape[0], _LARGE):
            last = self._parts.pop()
            qids = np.sort(np.concatenate((last.live(), qids)), kind="stable")  # two runs: a merge
        made = self._made(qids)
        self._parts.append(made)
        slots = np.searchsorted(qids, new)
        for groups, asked in zip(self._groups, made.queries, strict=True):
            groups.add(new, asked.low[slots], asked.high[slots])

    def _made(self, qids: I64) -> Part:
        """Build a part of queries; their numbers ascend."""
        wanted, table = self._wanted, self._wanted.queries
        boxes = Boxes.of_rows(wanted.shape, table.matrix(), qids, self._ctx)
        since = table.since(Lineage.QUERY)[qids]
        asked, routers = [], []
        for side, axis in enumerate(self._axes):
            lengths = wanted.lifetimes[1 - side].lengths(table.matrix(), qids)
            queries = axis.chosen.queries(boxes, lengths, since)
            asked.append(queries)
            routers.append(self._router(side, qids, queries))
        gone = np.zeros(qids.shape[0], np.bool_)
        return Part(qids, gone, boxes, (asked[0], asked[1]), (routers[0], routers[1]))

    def _router(self, side: int, qids: I64, queries: Queries) -> Router:
        grouping = partial(self._groups[side].of, qids, queries)
        return Router(queries, grouping, self._wanted.policy, self._tallies[side])

    def _count(self, queries: int) -> None:
        for axis in self._axes:
            axis.count(queries)

    def _asked(self, side: int) -> Iterator[tuple[I64, I64, I64]]:
        """The intervals of all queries on the axis of a side, part by part."""
        for part in self._parts:
            kept, queries = np.flatnonzero(~part.gone), part.queries[side]
            yield part.qids[kept], queries.low[kept], queries.high[kept]

    def among(self, qids: I64) -> PairIndex:
        """An index of some of the queries alone."""
        left, right = self._axes
        few = PairIndex(self._wanted, self._ctx, (left.fixed(), right.fixed()))
        chosen = np.sort(qids)
        few.add(QueryRows(chosen, self._wanted.queries.matrix()[chosen]))
        return few

    # ---- axes ------------------------------------------------------------------------
    def settle(self, rows: Rows, is_there: IsThere) -> None:
        """Choose the axes again where queries or rows have changed much."""
        for side, axis in enumerate(self._axes):
            if self._parts and axis.is_due(rows):
                n = len(self._wanted.queries)
                if axis.look(self._some_boxes(), n, rows, is_there):
                    self._turn(side)

    def _some_boxes(self) -> Boxes:
        table = self._wanted.queries
        live = table.live(Lineage.QUERY)
        some = live[:: -(-live.shape[0] // LOOK)]
        return Boxes.of_rows(self._wanted.shape, table.matrix(), some, self._ctx)

    def _turn(self, side: int) -> None:
        """Look along another axis from now on; structures are built when they pay."""
        groups, parts = PairGroups(partial(self._asked, side)), []
        self._groups[side] = groups
        for part in self._parts:
            old = part.queries[side]
            queries = self._axes[side].chosen.queries(part.boxes, old.lengths, old.since)
            kept = np.flatnonzero(~part.gone)
            groups.add(part.qids[kept], queries.low[kept], queries.high[kept])
            parts.append(part.turned(side, queries, self._router(side, part.qids, queries)))
        self._parts = parts

    # ---- matching --------------------------------------------------------------------
    def value_column(self, side: int) -> int:
        """The column of a side by which its rows are sorted, below the key."""
        return self._axes[1 - side].chosen.value_column

    def value_columns(self, side: int) -> tuple[int, ...]:
        """All columns that `value_column` may come to be."""
        return tuple(way.value_column for way in self._axes[1 - side].ways)

    def match(self, batch: ProbingRows) -> Takers:
        """The queries that take each pair, by row, position and query."""
        found, probes = Takers.none(), self._axes[batch.side].chosen.probes(batch)
        for part in reversed(self._parts):  # the smallest first
            found = merged(found, part.match(batch.side, probes, batch.entries, batch.partner))
        return found

    def match_coded(self, batch: ProbingRows) -> tuple[Takers, list[Prefixes]]:
        """Like `match`; queries of a pair are coded where that costs less."""
        found, codes = Takers.none(), list[Prefixes]()
        probes = self._axes[batch.side].chosen.probes(batch)
        for part in reversed(self._parts):
            some, coded = part.match_coded(batch.side, probes, batch.entries, batch.partner)
            found = merged(found, some)
            codes += [] if coded is None else [coded]
        return found, codes

    def exact(self, qids: I64) -> Bool:
        """Which of these queries take every pair that `match` says."""
        known = np.ones(int(qids.max(initial=-1)) + 1, np.bool_)
        for part in self._parts:
            if not part.exact.all():
                vague = part.qids[~part.exact & ~part.gone]
                known[vague[vague < known.shape[0]]] = False
        return known[qids]

    # ---- what is known ---------------------------------------------------------------
    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, Q aside."""
        sizes = [part.nbytes for part in self._parts] + [made.nbytes for made in self._groups]
        return self._alive.nbytes + sum(sizes)

    def report(self, names: Names) -> dict[str, object]:
        """For stats(): the strategy, where costs come from, bytes, and both sides."""
        policy = self._wanted.policy
        return {
            "strategy": policy.strategy,
            "costs": policy.constants.origin,
            "bytes": self.nbytes,
            "sides": [asdict(self._side(side, names)) for side in (0, 1)],
        }

    def _side(self, side: int, names: Names) -> SideReport:
        axis, known = self._axes[side], self._groups[side].summary()
        built = {name for part in self._parts for name in part.routers[side].built}
        return SideReport(
            known.groups, known.hotspots, known.coverage, self._tallies[side].shares(),
            tuple(sorted(built)), axis.chosen.text(names), axis.changes,
        )  # fmt: skip

    def notes(self, streams: tuple[str, ...], names: Names) -> list[str]:
        """For EXPLAIN: groups, strategies and axis by stream, and the costs of strategies."""
        sides = [self._side(side, names).text() for side in (0, 1)]
        lines = [f"rows of {name}: {text}" for name, text in zip(streams, sides, strict=True)]
        return [*lines, *self._costs()]

    def _costs(self) -> list[str]:
        policy, found = self._wanted.policy, dict[str, str]()
        if policy.strategy != "auto":
            return []
        for part in self._parts:
            for router, tally in zip(part.routers, self._tallies, strict=True):
                for name, formula in router.formulas.items():
                    if name in tally:
                        text = f"{formula.text(policy.constants)} ns a row"
                        found[formula.name] = f"{name} ({formula.name}) costs {text}"
        lines = list(found.values())
        return [*lines, f"constants of costs: {policy.constants.origin}"] if lines else []

    def explain(self) -> str:
        """For EXPLAIN: how many parts there are."""
        n = len(self._parts)
        return f"index over pairs, {n} part{'' if n == 1 else 's'}"


PAIRS: IndexKind[PairQueries, PairQueryIndex] = IndexKind("pairs", lambda wanted: 1.0, PairIndex)
"""The kind of index for joins of two streams with constants of each query's own."""
