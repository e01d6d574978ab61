"""The cases of Figures 4 and 5 of Agarwal et al. 2009, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.indexes.pairs.ssi import Ssi
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.kernels.pairs.data import Entries, Grouping, Partner, Probes, Queries
from penstock.kernels.pairs.ssi import Lists, Prefixes
from penstock.kernels.pairs.ssi_own import AffectedSlots

NONE = np.empty(0, np.int64)
NO_LOG = Partner(np.empty((0, 1), np.int64), NONE, NONE, 0)


def asking(ranges: list[tuple[int, int]], own: list[tuple[int, int]] | None = None) -> Queries:
    low, high = np.array(ranges).T.copy()
    rest = np.empty((0, len(ranges)), np.int64)
    if own is None:
        return Queries(low, high, rest, rest, rest, rest, NONE, NONE, NONE, NONE)
    own_low, own_high = np.array(own).T.copy()
    return Queries(low, high, own_low[None], own_high[None], rest, rest, NONE, NONE, NONE, NONE)


# Figure 4: ranges of one group around p = 0, and r.B = 100. Next to p + b, S has 95 and 104.
BAND = asking([(-8, 3), (-6, 7), (-4, 1), (-3, 9), (-1, 2)])
GROUP = Grouping(np.zeros(5, np.int64), np.array([0]))


def band_case(values: list[int]) -> tuple[Probes, Entries]:
    n = len(values)
    probes = Probes(
        NONE, np.array([100]), np.empty((0, 1), np.int64), NONE, NONE, np.array([n]), NONE > 0, 0
    )
    return probes, Entries(NONE, np.array(values), np.arange(n), np.array([0, n]))


def test_figure_4_step_1_scans_both_lists_from_the_front() -> None:
    ssi = Ssi.build(BAND, GROUP)
    assert isinstance(ssi.members, Lists)
    assert ssi.members.slots.tolist() == [[0, 1, 2, 3, 4], [3, 1, 0, 4, 2]]
    affected = ssi.affected(*band_case([80, 93, 95, 104, 106, 108, 120]))
    assert isinstance(affected, Prefixes)
    # lows up to s1 − b = −5: two; highs from s2 − b = 4: two; ranges 2 and 4 fall in the gap
    assert [column.tolist() for column in affected] == [[0], [0], [2], [2]]


def test_figure_4_a_partner_at_the_point_affects_all() -> None:
    affected = Ssi.build(BAND, GROUP).affected(*band_case([93, 100, 108]))
    assert isinstance(affected, Prefixes)
    assert affected.left.tolist() == [5]


@pytest.mark.parametrize("name", STRATEGIES)
def test_figure_4_step_2_walks_outward(name: str) -> None:
    probes, entries = band_case([80, 93, 95, 104, 106, 108, 120])
    triples = STRATEGIES[name].build(BAND, GROUP).probe(probes, entries, NO_LOG, BAND)
    assert list(zip(triples.positions.tolist(), triples.slots.tolist(), strict=True)) == [
        (1, 0), (2, 0), (2, 1), (3, 1), (3, 3), (4, 1), (4, 3), (5, 3),
    ]  # fmt: skip


# Figure 5: rectangles rangeC × rangeA of one group around C = 50. The row r has A = 10 and B = 7.
# Of the partners with B = 7, the ones next to the point have C = 42 and C = 57.
SELECT = asking(
    [(40, 60), (30, 52), (45, 55), (48, 70), (41, 51), (20, 90)],
    [(5, 15), (0, 10), (8, 12), (10, 10), (11, 20), (0, 9)],
)
SELECT_GROUP = Grouping(np.zeros(6, np.int64), np.array([50]))


def select_case() -> tuple[Probes, Entries]:
    keys = np.array([6, 7, 7, 7, 7, 7, 8])
    values = np.array([50, 31, 42, 57, 66, 95, 51])
    probes = Probes(np.array([7]), NONE, np.array([[10]]), NONE, NONE, np.array([7]), NONE > 0, 0)
    return probes, Entries(keys, values, np.arange(7), np.array([0, 7]))


def test_figure_5_the_nearest_join_results_decide() -> None:
    """Query 2 falls between them; queries 4 and 5 do not meet the line A = 10."""
    affected = Ssi.build(SELECT, SELECT_GROUP).affected(*select_case())
    assert isinstance(affected, AffectedSlots)
    assert sorted(affected.slots.tolist()) == [0, 1, 3]


@pytest.mark.parametrize("name", STRATEGIES)
def test_figure_5_each_rectangle_covers_neighbours(name: str) -> None:
    strategy = STRATEGIES[name].build(SELECT, SELECT_GROUP)
    triples = strategy.probe(*select_case(), NO_LOG, SELECT)
    assert list(zip(triples.positions.tolist(), triples.slots.tolist(), strict=True)) == [
        (1, 1), (2, 0), (2, 1), (3, 0), (3, 3), (4, 3),
    ]  # fmt: skip
