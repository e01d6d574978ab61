"""Random cases for strategies, and the answer by testing every row, partner and query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.kernels.pairs.data import (
    FLOAT,
    GAP,
    LEAST,
    MOST,
    NAN,
    Entries,
    Grouping,
    Partner,
    Probes,
    Queries,
)

ENDS = np.array([LEAST, LEAST + 1, MOST, MOST - 1])
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 0.1, 0.2, 0.30000000000000004, 1e308, -1e308])


@dataclass(frozen=True)
class Kind:
    """What a template looks like, and how hard its data are."""

    is_band: bool = True
    is_float: bool = False
    has_key: bool = False
    own: int = 0
    rest: int = 0
    runs: int = 1
    windows: bool = False  # lengths and epochs by query
    ends: bool = False  # values at the ends of the domain
    rows: int = 8
    partners: int = 30
    queries: int = 25
    undefined: int = NAN
    rest_band: bool = False  # the first rest condition is a band


@dataclass(frozen=True)
class Case:
    probes: Probes
    entries: Entries
    partner: Partner
    queries: Queries


def to_words(values: np.ndarray) -> np.ndarray:
    """The ordered words of floats."""
    words = (values + 0.0).view(np.int64)
    words = np.where(np.isnan(values), NAN, words)
    return np.where(words < 0, words ^ MOST, words)


def to_floats(words: np.ndarray) -> np.ndarray:
    return np.where(words < 0, words ^ MOST, words).view(np.float64)


def some_values(rng: np.random.Generator, kind: Kind, shape: tuple[int, ...]) -> np.ndarray:
    if kind.is_float:
        values = rng.integers(-60, 60, shape) / 10
        special = SPECIAL if kind.ends else np.array([-0.0, 0.1])
        return to_words(np.where(rng.random(shape) < 0.25, rng.choice(special, shape), values))
    values = rng.integers(-12, 12, shape)
    return (
        np.where(rng.random(shape) < 0.2, rng.choice(ENDS, shape), values) if kind.ends else values
    )


def some_intervals(
    rng: np.random.Generator, kind: Kind, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Intervals with ties, nested and equal ones, a few empty, and a few without an end."""
    low, high = some_values(rng, kind, shape), some_values(rng, kind, shape)
    empty = rng.random(shape) < 0.1
    low, high = (
        np.where(empty, low, np.minimum(low, high)),
        np.where(empty, high, np.maximum(low, high)),
    )
    low = np.where(rng.random(shape) < 0.1, LEAST, low)
    return low, np.where(rng.random(shape) < 0.1, MOST, high)


def make_case(seed: int, kind: Kind) -> Case:
    rng = np.random.default_rng(seed)
    n, m, q, base = kind.rows, kind.partners, kind.queries, 1000
    low, high = some_intervals(rng, kind, (q,))
    own_low, own_high = some_intervals(rng, kind, (kind.own, q))
    rest_low, rest_high = some_intervals(rng, kind, (kind.rest, q))
    rest_columns = np.arange(kind.rest)
    own, values = some_values(rng, kind, (kind.own, n)), some_values(rng, kind, (m,))
    stored = some_values(rng, kind, (kind.rest, m))
    if kind.is_float:
        stored = to_floats(stored).view(np.int64)
    nulls = rng.integers(0, 1 << kind.rest, m) * (rng.random(m) < 0.2)
    logged = np.ascontiguousarray(np.vstack([nulls, stored]).T)
    empty = np.empty(0, np.int64)
    keys = rng.integers(-1, 2, m) if kind.has_key else empty
    part_of = np.sort(rng.integers(0, kind.runs, m))
    at = np.flatnonzero(rng.random(m) < 0.9)  # the others have a NULL on the axis
    at = at[np.lexsort((values[at], *([keys[at]] if kind.has_key else []), part_of[at]))]
    entries = Entries(
        keys[at] if kind.has_key else empty,
        values[at],
        base + at,
        np.searchsorted(part_of[at], np.arange(kind.runs + 1)),
    )
    floor = base + int(rng.integers(0, 4))
    probes = Probes(
        rng.integers(-1, 2, n) if kind.has_key else empty,
        some_values(rng, kind, (n,)) if kind.is_band else empty,
        own,
        rng.integers(50, 60, n),
        rng.integers(0, 4, n),
        base + m - rng.integers(0, 6, n),
        rng.random(n) < 0.1,
        floor,
        kind.is_float,
        kind.undefined,
        some_values(rng, kind, (n,)) if kind.rest_band else empty,
    )
    lengths = rng.integers(1, 40, q) if kind.windows else empty
    since = rng.integers(0, 3, q) if kind.windows else empty
    partner = Partner(logged, np.sort(rng.integers(20, 58, m)), rng.integers(0, 4, m), base)
    rest_kinds = np.full(kind.rest, int(kind.is_float))
    if kind.rest_band:
        rest_kinds[0] = GAP
    bounds = (low, high, own_low, own_high, rest_low, rest_high, rest_columns, rest_kinds)
    return Case(probes, entries, partner, Queries(*bounds, lengths, since))


def make_groups(queries: Queries, least: int = 1) -> Grouping:
    """Greedy stabbing groups of the intervals that are not empty; −1 for those of small groups.

    Groups are numbered from the highest point down: no order of them may be relied on.
    """
    groups, points, n = np.full(queries.low.shape[0], -1), [], 0
    order = [q for q in np.argsort(queries.low) if queries.low[q] <= queries.high[q]]
    while order:
        point = int(queries.high[order[0]])
        members = []
        for q in order:
            if queries.low[q] > point:
                break
            members.append(q)
            point = min(point, int(queries.high[q]))
        order = order[len(members) :]
        if len(members) >= least:
            groups[members], n = n, n + 1
            points.append(point)
    groups = np.where(groups < 0, -1, n - 1 - groups)
    return Grouping(groups, np.array(points[::-1], np.int64))


def gap_of(case: Case, value: int, row: int) -> int:
    probes = case.probes
    if not probes.shifts.shape[0]:
        return value
    return gap_from(case, value, int(probes.shifts[row]))


def gap_from(case: Case, value: int, shift: int) -> int:
    """The word of the gap of a band."""
    probes = case.probes
    if not probes.is_float:
        return max(LEAST, min(MOST, value - shift))
    with np.errstate(all="ignore"):
        gap = to_floats(np.array([value])) - to_floats(np.array([shift]))
    return probes.undefined if np.isnan(gap[0]) else int(to_words(gap)[0])


def is_seen(case: Case, row: int, entry: int) -> bool:
    probes, entries = case.probes, case.entries
    if entries.keys.shape[0] and entries.keys[entry] != probes.keys[row]:
        return False
    return not probes.skip[row] and probes.floor <= entries.positions[entry] < probes.limits[row]


def holds(case: Case, row: int, at: int, gap: int) -> np.ndarray:
    """The queries that take a partner, by slot."""
    probes, partner, q = case.probes, case.partner, case.queries
    hold = (q.low <= gap) & (gap <= q.high)
    for low, own, high in zip(q.own_low, probes.own, q.own_high, strict=True):
        hold &= (low <= own[row]) & (own[row] <= high)
    if q.lengths.shape[0]:
        hold &= partner.ts[at] + q.lengths > probes.instants[row]
    if q.since.shape[0]:
        hold &= (probes.epochs[row] >= q.since) & (partner.epoch[at] >= q.since)
    for c, column in enumerate(q.rest_columns):
        words = partner.rows[at, 1 + column : 2 + column]
        is_float = case.probes.is_float if q.rest_kinds[c] == GAP else q.rest_kinds[c] == FLOAT
        word = to_words(words.view(np.float64))[0] if is_float else words[0]
        if q.rest_kinds[c] == GAP:
            word = gap_from(case, int(word), int(case.probes.rest_shifts[row]))
        is_null = partner.rows[at, 0] >> column & 1
        hold &= (not is_null) & (q.rest_low[c] <= word) & (word <= q.rest_high[c])
    return hold


def expected(case: Case) -> list[tuple[int, int, int]]:
    """All triples (row, position, slot), in order."""
    found = []
    for row in range(case.probes.limits.shape[0]):
        for entry, position in enumerate(case.entries.positions.tolist()):
            if is_seen(case, row, entry):
                gap = gap_of(case, int(case.entries.values[entry]), row)
                hold = holds(case, row, position - case.partner.base, gap)
                found += [(row, position, slot) for slot in np.flatnonzero(hold).tolist()]
    return sorted(found)
