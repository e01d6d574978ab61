"""Totals of pairs that are formed one by one, for queries with intervals that are not exact.

A bound that cannot be computed, or that lies at an end of the integers, is such a case. The whole
condition is evaluated on each pair in the interval, as a join does that forms pairs.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.eddy.results import Matches
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.indexes.pairs.crowds import Crowd
from penstock.indexes.pairs.shape import PairShape
from penstock.kernels.pairs.alive import amounts_of
from penstock.kernels.pairs.running_totals import (
    PAIRS,
    SLOT,
    SUMS,
    TS,
    Moves,
    list_partners,
)
from penstock.physical.pair_check import PairCheck
from penstock.physical.pair_moves import Movement, Source
from penstock.queries.query_table import QueryTable


class _Unsure:
    """The exactness of queries of which nothing is known without their condition."""

    def exact(self, qids: I64) -> Bool:
        """None of them."""
        return np.zeros(qids.shape[0], np.bool_)


class FormedTotals:
    """Changes of totals in the form of `run_totals`, one for each pair, with queries for slots."""

    def __init__(self, shape: PairShape, queries: QueryTable, ctx: Context) -> None:
        self._check = PairCheck(shape, queries, ctx)

    def changes(
        self, found: Movement, sources: tuple[Source, Source], crowd: Crowd, totals: Totals
    ) -> I64:
        """The changes of a crowd's vague queries. The trees of both sides follow the moves.

        Failures that ON ERROR hides are counted in `totals` when a row arrives.
        """
        moves = found.moves
        numbers, partners, slots = list_partners(moves, *found.sides, crowd.vague)
        row, turned = moves.row[numbers], moves.side[numbers] == 1
        own = np.empty(numbers.shape[0], np.int64)
        for side in (0, 1):
            here = turned == bool(side)
            own[here] = found.positions[side][row[here]]
        places = np.where(turned, np.vstack([partners, own]), np.vstack([own, partners]))
        views, parts = [source.view for source in sources], []
        for sign, counted in ((1, totals), (-1, Totals())):
            some = np.flatnonzero(moves.sign[numbers] == sign)
            pairs = Matches(places[:, some], numbers[some], crowd.qids[slots[some]])
            taken = self._check.passing(pairs, views, _Unsure(), counted)
            parts.append(_table(taken, moves, sources))
        table = np.concatenate(parts)
        return table[np.argsort(table[:, TS], kind="stable")]


def _table(pairs: Matches, moves: Moves, sources: tuple[Source, Source]) -> I64:
    """A change for each pair; `instants` are numbers of moves."""
    sign, parts = moves.sign[pairs.instants].astype(np.int64), []
    for source, positions in zip(sources, pairs.positions, strict=True):
        parts.append(amounts_of(source.view.rows, positions - source.view.base, source.columns, 0))
    table = np.empty((len(pairs), SUMS + sum(part.shape[1] for part in parts)), np.int64)
    table[:, TS], table[:, SLOT] = moves.ts[pairs.instants], pairs.qids
    table[:, PAIRS] = sign
    table[:, SUMS:] = np.hstack(parts) * sign[:, None]
    return table
