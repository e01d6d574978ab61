"""The kernels of running totals against a plain twin that forms every pair."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.indexes.pairs import crowds
from penstock.indexes.pairs.crowds import asked_of
from penstock.kernels.pairs.alive import (
    Alive,
    amounts_of,
    find_entries,
    gather_entries,
    grow_tree,
)
from penstock.kernels.pairs.data import LEAST, MOST, Entries, Probes, Queries
from penstock.kernels.pairs.running_totals import (
    PAIRS,
    SLOT,
    SUMS,
    TS,
    Moves,
    MovingRows,
    MovingSide,
    list_partners,
    merge_totals,
    run_totals,
)
from penstock.predicates.terms import ordered

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -1.5, 1.5, 1e308)


class Rows:
    """Rows of a side: a key, a value, and a number to add up that may be NULL."""

    def __init__(self, rng: Random, n: int, is_float: bool) -> None:
        self.keys = [rng.randrange(2) for _ in range(n)]
        self.values = [
            rng.choice(SPECIAL) if is_float else rng.choice((rng.randint(-9, 9), 2**62, -(2**62)))
            for _ in range(n)
        ]
        self.numbers = [
            rng.choice((None, -(2**63), 2**63 - 1, rng.randint(-5, 5))) for _ in self.keys
        ]
        self.there = [rng.random() < 0.5 for _ in range(n)]
        self.is_float = is_float

    @property
    def words(self) -> np.ndarray:
        """The values as ordered words."""
        if self.is_float:
            return ordered((np.array(self.values) + 0.0).view(np.int64))
        return np.array(self.values, np.int64)

    @property
    def stored(self) -> np.ndarray:
        """The rows of a log: the word of NULLs, then the number."""
        return np.array([[n is None, n or 0] for n in self.numbers], np.int64).reshape(-1, 2)


def queries_of(rng: Random, n: int, is_float: bool) -> list[tuple[float, float]]:
    def bound() -> float:
        return rng.choice((*SPECIAL[1:], 3.0, -3.0)) if is_float else rng.randint(-12, 12)

    found = [(bound(), bound()) for _ in range(n)]
    return [(low, high) if rng.random() < 0.9 else (high, low) for low, high in found]


def intervals(rng: Random, chosen: list[tuple[float, float]], is_float: bool) -> Queries:
    """The intervals of queries, without own conditions."""
    ends = np.array(chosen).T.copy()
    low, high = (
        [ordered((end + 0.0).view(np.int64)) for end in ends] if is_float else ends.astype(np.int64)
    )
    none = np.empty((0, len(chosen)), np.int64)
    flat = np.empty(0, np.int64)
    return Queries(low, high, none, none, none, none, flat, flat, flat, flat)


def side_of(rows: Rows, keyed: bool, asked: Queries) -> MovingSide:
    """A side of which all rows move."""
    n = len(rows.keys)
    order = np.lexsort((np.arange(n), rows.words, rows.keys if keyed else np.zeros(n)))
    keys = np.array(rows.keys, np.int64)
    flat = np.empty(0, np.int64)
    entries = Entries(
        keys[order] if keyed else flat, rows.words[order], order.astype(np.int64), np.array([0, n])
    )
    columns = np.array([0])
    amounts = amounts_of(rows.stored, order, columns, 1)
    tree = grow_tree(amounts, np.array(rows.there, np.bool_)[order])
    probes = Probes(
        keys if keyed else flat, rows.words, np.empty((0, n), np.int64), flat, flat,
        np.full(n, MOST), np.zeros(n, np.bool_), LEAST, rows.is_float,
    )  # fmt: skip
    own = amounts_of(rows.stored, np.arange(n), columns, 0)
    found = find_entries(order.astype(np.int64), np.arange(n))
    exact = np.ones(asked.low.shape[0], np.bool_)
    return MovingSide(
        MovingRows(probes, own, found), Alive(entries, amounts, tree), asked_of(asked, exact)
    )


def sides_of(rows: list[Rows], keyed: bool, asked: list[Queries]) -> list[MovingSide]:
    """Both sides as they are before the moves."""
    return [side_of(mine, keyed, own) for mine, own in zip(rows, asked, strict=True)]


def moves_of(rng: Random, sides: list[Rows]) -> Moves:
    """Rows that are there leave, others arrive, some of them leave too."""
    every = [(s, i) for s, rows in enumerate(sides) for i in range(len(rows.keys))]
    rng.shuffle(every)
    there, found = [list(rows.there) for rows in sides], []
    for s, i in every * 2:
        if rng.random() < 0.7:
            found.append((len(found) // 3, s, i, -1 if there[s][i] else 1))
            there[s][i] = not there[s][i]
    ts, side, row, sign = np.array(found, np.int64).reshape(-1, 4).T
    return Moves(ts.copy(), side.astype(np.int8), row.copy(), sign.astype(np.int8))


def gap(later: float, probing: float, is_float: bool) -> float:
    """A difference as the kernels compute it; None stands for NaN."""
    with np.errstate(all="ignore"):
        return float(later - probing) if is_float else later - probing


def twin(
    moves: Moves, sides: list[Rows], keyed: bool, asked: list[list[tuple[float, float]]]
) -> list[tuple[int, ...]]:
    """(ts, query, pairs, and count and sum of both sides), one change per move and query."""
    there, out = [list(rows.there) for rows in sides], []
    for ts, side, row, sign in zip(*(array.tolist() for array in moves), strict=True):
        mine, other = sides[side], sides[1 - side]
        for slot, (low, high) in enumerate(asked[side]):
            totals = [0, [0, 0], [0, 0]]
            for i in range(len(other.keys)):
                if not there[1 - side][i] or (keyed and other.keys[i] != mine.keys[row]):
                    continue
                found = gap(other.values[i], mine.values[row], mine.is_float)
                if not _holds(low, found, high):
                    continue
                totals[0] += sign
                for s, number in ((side, mine.numbers[row]), (1 - side, other.numbers[i])):
                    totals[1 + s][0] += sign * (number is not None)
                    totals[1 + s][1] += sign * (number or 0)
            if totals[0]:
                out.append((ts, slot, totals[0], *totals[1], *totals[2]))
        there[side][row] = sign > 0
    return out


def _holds(low: float, found: float, high: float) -> bool:
    if found != found:  # NaN is the largest of all: no high end of these tests reaches it
        return False
    return low <= found <= high


def read(table: np.ndarray) -> list[tuple[int, ...]]:
    """The changes of a kernel, with each sum as one number."""
    found = []
    for line in table.tolist():
        sums = [(line[at], (line[at + 1] << 32) + line[at + 2]) for at in range(SUMS, len(line), 3)]
        found.append((line[TS], line[SLOT], line[PAIRS], *(n for pair in sums for n in pair)))
    return found


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("few", [0, 32])
def test_changes_are_those_of_all_pairs(
    is_float: bool, keyed: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "_FEW", few)
    monkeypatch.setattr(crowds, "_SMALL", 2)
    for seed in range(40):
        rng = Random(seed)
        rows = [Rows(rng, rng.randint(0, 14), is_float) for _ in range(2)]
        chosen = [queries_of(rng, 12, is_float) for _ in range(2)]
        moves = moves_of(rng, rows)
        asked = [intervals(rng, some, is_float) for some in chosen]

        wanted = twin(moves, rows, keyed, chosen)
        found = read(run_totals(moves, *sides_of(rows, keyed, asked)))
        assert sorted(found) == sorted(wanted)
        assert [change[0] for change in found] == [change[0] for change in wanted]
        assert read(merge_totals(moves, *sides_of(rows, keyed, asked), 99)) == merged(wanted, 99)
        vague = np.array([1, 4, 7])
        triples = list_partners(moves, *sides_of(rows, keyed, asked), vague)
        assert listed(triples, moves, rows) == [c for c in wanted if c[1] in vague]


def merged(changes: list[tuple[int, ...]], ts: int) -> list[tuple[int, ...]]:
    """The net changes by query, in order, without those that are 0."""
    found: dict[int, list[int]] = {}
    for _, slot, *words in changes:
        found[slot] = [a + b for a, b in zip(found.get(slot, [0] * 5), words, strict=True)]
    return [(ts, slot, *words) for slot, words in sorted(found.items()) if any(words)]


def listed(
    triples: tuple[np.ndarray, ...], moves: Moves, rows: list[Rows]
) -> list[tuple[int, ...]]:
    """Changes like those of the twin, from triples of a move, a partner and a query."""
    found: dict[tuple[int, int], list[int]] = {}
    for number, partner, slot in zip(*(array.tolist() for array in triples), strict=True):
        side, row, sign = (int(a[number]) for a in (moves.side, moves.row, moves.sign))
        change = found.setdefault((number, slot), [0] * 5)
        change[0] += sign
        for s, value in (
            (side, rows[side].numbers[row]),
            (1 - side, rows[1 - side].numbers[partner]),
        ):
            change[1 + 2 * s] += sign * (value is not None)
            change[2 + 2 * s] += sign * (value or 0)
    return [(int(moves.ts[number]), slot, *words) for (number, slot), words in found.items()]


def test_sums_of_many_pairs_do_not_overflow() -> None:
    """Largest numbers, added once for each of nine million pairs."""
    n = 3_000
    keys = np.zeros(n, np.int64)
    rng = Random(1)
    rows = [Rows(rng, n, False) for _ in range(2)]
    for side in rows:
        side.keys, side.values, side.numbers = keys.tolist(), [0] * n, [2**63 - 1] * n
        side.there = [False] * n
    asked = intervals(rng, [(-1, 1)], False)
    sides = [side_of(side, False, asked) for side in rows]
    side = np.repeat(np.array([0, 1], np.int8), n)
    moves = Moves(
        np.zeros(2 * n, np.int64), side, np.tile(np.arange(n), 2), np.ones(2 * n, np.int8)
    )
    ((_, _, pairs, *sums),) = merged(read(merge_totals(moves, *sides, 0)), 0)
    assert pairs == n * n
    assert sums == [n * n, n * n * (2**63 - 1)] * 2


def test_entries_are_gathered_by_key_and_position() -> None:
    keys = np.array([1, 1, 2, 3, 1, 2, 2])
    values = np.array([5, 6, 1, 0, 4, 0, 9])
    positions = np.array([0, 2, 1, 3, 4, 5, 6])
    found = gather_entries(keys, values, positions, np.array([0, 4, 7]), np.array([1, 2]), 1, 6)
    assert [array.tolist() for array in found] == [
        [1, 2, 1, 2],
        [6, 1, 4, 0],
        [2, 1, 4, 5],
        [0, 2, 4],
    ]
    none = np.empty(0, np.int64)
    found = gather_entries(none, values, positions, np.array([0, 4, 7]), none, 1, 6)
    assert found[1].tolist() == [6, 1, 0, 4, 0]
