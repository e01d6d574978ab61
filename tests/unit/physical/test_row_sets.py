"""Changes row by row against plain twins: gathered, netted, taken apart and put together."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock.changes import Changes, concat_changes
from penstock.delta import Clock, Delta, Lineage, Sets, start_offsets
from penstock.kernels.changes import (
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    mend_pairs,
    net_changes,
)
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.explode import ExplodeOp, with_sets
from penstock.physical.operator import Operator
from penstock.physical.row_sets import decode, gather, net_sets
from penstock.physical.specs import ExplodeSpec, Spec
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.sets import SetTable
from penstock.types import BIGINT

Seen = Counter[tuple[int, int, int, tuple[int, ...]]]
"""Query, time, kind, row; a pair is one kind of its own, with both rows."""
PAIR = 9


def seen(changes: Changes) -> Seen:
    """Changes query by query, replacements as one."""
    found: Seen = Counter()
    i = 0
    while i < len(changes):
        pair = changes.kind[i] == PREIMAGE
        row = tuple(changes.rows[:, i : i + (2 if pair else 1)].ravel().tolist())
        if pair:
            assert changes.kind[i + 1] == POSTIMAGE
            assert changes.time[i + 1] == changes.time[i]
        else:
            assert changes.kind[i] in (INSERT, DELETE)
        who = [int(changes.qid[i])]
        if changes.sets is not None:
            sets, at = changes.sets, who[0]
            who = sets.items[sets.offsets[at] : sets.offsets[at + 1]].tolist()
            assert who == sorted(set(who)) != []
        kind = PAIR if pair else int(changes.kind[i])
        found.update((q, int(changes.time[i]), kind, row) for q in who)
        i += 2 if pair else 1
    return found


def random_changes(rng: np.random.Generator, n: int, queries: int, pairs: bool) -> Changes:
    """Changes in time order with many alike; values of both NULL words."""
    rows = np.vstack([rng.integers(0, 2, n), rng.integers(0, 3, n)])
    kind = rng.choice([INSERT, DELETE], n).astype(np.int8)
    qid = rng.integers(0, queries, n)
    time = np.sort(rng.integers(0, 3, n))
    if pairs:
        for i in range(0, n - 1, 2):
            if rng.random() < 0.5:
                kind[i], kind[i + 1] = PREIMAGE, POSTIMAGE
                qid[i + 1], time[i + 1] = qid[i], time[i]
        time = np.maximum.accumulate(time)
    return Changes(rows, time, kind, qid)


@pytest.mark.parametrize("seed", range(60))
def test_gathered_changes_are_those_of_each_query(seed: int) -> None:
    rng = np.random.default_rng(seed)
    changes = random_changes(rng, int(rng.integers(0, 60)), 5, pairs=bool(seed % 2))
    found = gather(changes)
    assert seen(found) == seen(changes)
    assert (np.diff(found.time) >= 0).all()
    assert found.sets is not None
    units = [unit[1:] for unit in seen(changes)]
    most = Counter(dict.fromkeys(units, 0))
    for (_, *unit), n in seen(changes).items():
        most[tuple(unit)] = max(most[tuple(unit)], n)
    assert len(found.sets) == most.total()  # as many rows as a query has of a kind, no more


def coded(changes: Changes, lists: list[list[int]], table: SetTable) -> Changes:
    """Changes whose queries are taken for sets, as a view by sets has them."""
    sizes = np.array([len(some) for some in lists])
    codes = table.intern(start_offsets(sizes), np.array([q for some in lists for q in some]))
    return changes.with_(qid=codes[changes.qid])


@pytest.mark.parametrize("seed", range(80))
def test_netted_sets_are_netted_queries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = SetTable(Arena().scope("sets"))
    lists = [np.flatnonzero(rng.random(6) < 0.5).tolist() or [2] for _ in range(4)]
    changes = random_changes(rng, int(rng.integers(0, 30)), 4, pairs=bool(seed % 2))
    changes = coded(changes.with_(time=np.full(len(changes), 7)), lists, table)
    plain = seen_apart(changes, table)
    kept = net_changes(plain.rows, plain.qid, plain.kind)
    expected = plain.take(kept).with_(kind=mend_pairs(plain.kind, kept))
    assert seen(net_sets(changes, table)) == seen(expected)
    assert seen(decode(changes, table)) == seen(plain)


def seen_apart(changes: Changes, table: SetTable) -> Changes:
    """One change after another, query by query."""
    parts = [Changes(changes.rows[:, :0], *(changes.time[:0], changes.kind[:0], changes.qid[:0]))]
    i = 0
    while i < len(changes):
        size = 2 if changes.kind[i] == PREIMAGE else 1
        unit = changes.take(np.arange(i, i + size))
        for qid in table.explode(unit.qid[:1])[1].tolist():
            parts.append(unit.with_(qid=np.full(size, qid)))
        i += size
    return concat_changes(parts)


class Leaf(Operator):
    """Gives what it is told."""


EDGE = Edge(Schema((Field("a", BIGINT),)), Pattern.STR, Lineage.SET, False, True, keyed=True)


@pytest.mark.parametrize("seed", range(40))
def test_sets_put_on_rows_and_exploded_are_the_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = SetTable(Arena().scope("sets"))
    sign: list[int] = []
    for _ in range(int(rng.integers(0, 9))):
        sign += [-2, 2] if rng.random() < 0.5 else [int(rng.choice([-1, 1]))]
    n = len(sign)
    taken = [np.flatnonzero(rng.random(5) < 0.4) for _ in range(n)]
    sets = Sets(
        start_offsets(np.array([len(t) for t in taken], np.int64)),
        np.concatenate([np.empty(0, np.int64), *taken]),
    )
    rows = np.vstack([np.zeros(n, np.int64), np.arange(n)])
    delta = Delta(
        rows, np.zeros(n, np.int64), np.ones(n, np.int64), np.array(sign, np.int8), rows[1]
    )
    tagged = with_sets(delta, sets, table, keyed=True)
    assert tagged.lin.all()
    scope = Arena().scope("explode")
    leaf = Leaf(Spec(edge=EDGE), (), scope)
    operator = ExplodeOp(ExplodeSpec.of(leaf.spec), leaf, scope, table)
    exploded = operator.step([tagged], Clock(0, 0))
    found = Counter(zip(exploded.rows[1].tolist(), exploded.lin.tolist(), strict=True))
    assert found == Counter((i, int(q)) for i in range(n) for q in taken[i])
    for i, s in enumerate(exploded.sign.tolist()):
        if s == -2:
            assert exploded.sign[i + 1] == 2
            assert exploded.lin[i + 1] == exploded.lin[i]
            assert exploded.rows[1, i + 1] == exploded.rows[1, i] + 1
        elif abs(s) == 1:
            row, qid = int(exploded.rows[1, i]), int(exploded.lin[i])
            partner = row + (1 if sign[row] == -2 else -1) if abs(sign[row]) == 2 else None
            assert partner is None or qid not in taken[partner]
            assert s == int(np.sign(sign[row]))
