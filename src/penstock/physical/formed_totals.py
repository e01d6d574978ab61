"""Totals of pairs that are formed one by one, for queries with intervals that are not exact.

A bound that cannot be computed, or that lies at an end of the integers, is such a case. The whole
condition is evaluated on each pair of a moving row and a partner, as a join does that forms pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from penstock.arrays import I64, Bool
from penstock.eddy.results import Matches
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.indexes.pairs.shape import PairShape
from penstock.kernels.pairs.running_totals import (
    PAIRS,
    SLOT,
    SUMS,
    TS,
    Moves,
    MovingSide,
    amounts_of,
    list_partners,
)
from penstock.physical.pair_check import PairCheck
from penstock.physical.pair_moves import Source
from penstock.queries.query_table import QueryTable

_MOST_PAIRS = 1 << 20  # most pairs of rows and queries at once


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
        self, moves: Moves, sides: tuple[MovingSide, MovingSide], moving: tuple[I64, I64],
        sources: tuple[Source, Source], qids: I64, totals: Totals,
    ) -> I64:  # fmt: skip
        """The changes of these queries. The trees of the sides follow the moves.

        `moving` has the positions of each side's rows. Failures that ON ERROR hides are counted in
        `totals` when a row arrives.
        """
        numbers, partners = list_partners(moves, *sides)
        row, turned = moves.row[numbers], moves.side[numbers] == 1
        own = np.empty(numbers.shape[0], np.int64)
        for side in (0, 1):
            here = turned == bool(side)
            own[here] = moving[side][row[here]]
        places = np.where(turned, np.vstack([partners, own]), np.vstack([own, partners]))
        found = list(self._passing(numbers, places, moves, sources, qids, totals))
        words = SUMS + sum(source.columns.shape[0] for source in sources) * 3
        return np.concatenate([np.empty((0, words), np.int64), *found])

    def _passing(
        self, numbers: I64, places: I64, moves: Moves, sources: tuple[Source, Source], qids: I64,
        totals: Totals,
    ) -> Iterator[I64]:  # fmt: skip
        """The changes of pairs that satisfy the condition, part by part."""
        views = [source.view for source in sources]
        for sign in (1, -1):
            chosen = np.flatnonzero(moves.sign[numbers] == sign)
            counted = totals if sign > 0 else Totals()
            step = max(_MOST_PAIRS // qids.shape[0], 1)
            for at in range(0, chosen.shape[0], step):
                some = np.repeat(chosen[at : at + step], qids.shape[0])
                asked = np.tile(qids, some.shape[0] // qids.shape[0])
                pairs = Matches(np.take(places, some, axis=1), numbers[some], asked)
                taken = self._check.passing(pairs, views, _Unsure(), counted)
                yield _table(taken, moves, sources)


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
