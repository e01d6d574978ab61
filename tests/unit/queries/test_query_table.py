"""The parameter relation beside a slow twin: numbers, cohorts and counts under churn."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.delta import Lineage
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena


class Twin:
    """Q as dictionaries; vacant numbers are looked for one by one."""

    def __init__(self) -> None:
        self.since: dict[int, int] = {}
        self.held: set[int] = set()
        self.used = 0

    def vacant(self, n: int) -> list[int]:
        taken = self.since.keys() | self.held
        free = [q for q in range(self.used) if q not in taken][:n]
        return [*free, *range(self.used, self.used + n - len(free))]

    def add(self, qids: list[int], since: int) -> None:
        self.since |= dict.fromkeys(qids, since)
        self.used = max(self.used, *(q + 1 for q in qids))


def _params(n: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.arange(2 * n, dtype=np.int64).reshape(2, n)


def _check(table: QueryTable, twin: Twin) -> None:
    live = sorted(twin.since)
    assert table.live(Lineage.QUERY).tolist() == live
    assert len(table) == len(live)
    assert table.only() == (live[0] if len(live) == 1 else -1)
    assert [table.since(Lineage.QUERY)[q] for q in live] == [twin.since[q] for q in live]
    cohorts = table.live(Lineage.COHORT)
    assert sorted(table.since(Lineage.COHORT)[cohorts].tolist()) == sorted(set(twin.since.values()))
    for q in live:
        assert table.since(Lineage.COHORT)[table.cohort()[q]] == twin.since[q]


@pytest.mark.parametrize("seed", range(20))
def test_numbers_and_cohorts_under_churn(seed: int) -> None:
    rng, arena, twin = Random(seed), Arena(), Twin()
    table, epoch = QueryTable(arena.scope("Q"), 1), 1
    for _ in range(60):
        epoch += rng.random() < 0.3
        n = rng.choice((1, 1, 2, 5, 40))
        match rng.choice(("add", "add", "given", "drop", "leave", "release", "restore")):
            case "add":
                since = rng.choice((0, epoch))
                expected = twin.vacant(n)
                assert table.vacant(n).tolist() == expected
                assert table.add(_params(n), since).tolist() == expected
                twin.add(expected, since)
            case "given":
                chosen = [q + rng.choice((0, 0, 3)) for q in twin.vacant(1)]
                chosen = [q for q in chosen if q not in twin.since | dict.fromkeys(twin.held)]
                if chosen:
                    table.add(_params(1), epoch, np.array(chosen))
                    twin.add(chosen, epoch)
            case "drop" | "leave" as how if twin.since:
                gone = rng.sample(sorted(twin.since), min(n, len(twin.since)))
                before = set(twin.since.values())
                ended = before - {s for q, s in twin.since.items() if q not in gone}
                found = table.drop(np.array([*gone, twin.used + 5]))
                assert sorted(table.since(Lineage.COHORT)[found].tolist()) == sorted(ended)
                for q in gone:
                    del twin.since[q]
                if how == "leave":
                    table.hold(np.array(gone))
                    twin.held |= set(gone)
            case "release" if twin.held:
                q = rng.choice(sorted(twin.held))
                table.release(np.array([q]))
                twin.held.discard(q)
            case "restore":
                arena.restore(arena.snapshot())
        table.settle()
        _check(table, twin)


def test_newcomers_that_live_on() -> None:
    table = QueryTable(Arena().scope("Q"), 1)
    table.add(_params(4), 1)
    table.drop(np.array([1]))
    table.add(_params(1), 2)  # takes number 1 again, in the same step
    table.drop(np.array([3]))
    assert table.alive(Lineage.QUERY, table.newcomers).tolist() == [0, 1, 2]
    table.drop(np.array([0, 2]))
    assert table.since(Lineage.COHORT)[table.alive(Lineage.COHORT, table.new_cohorts)] == [2]
