"""The parameter relation beside a slow twin: numbers, cohorts and counts under churn."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.delta import Lineage
from penstock.queries import recent_changes
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


def test_recent_changes_are_known_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recent_changes, "_MOST", 10)
    arena = Arena()
    table = QueryTable(arena.scope("Q"), 1)
    assert table.touched_since(0) is None
    versions, touched, rng = [table.version], [set[int]()], Random(3)
    for _ in range(40):
        if rng.random() < 0.4 and len(table):
            qids = table.live(Lineage.QUERY)[:2]
            table.drop(qids)
        else:
            qids = table.add(_params(rng.choice((1, 2, 5))), 1)
        for known in touched:
            known.update(qids.tolist())
        versions.append(table.version)
        touched.append(set())
        unknown = 0
        for version, wanted in zip(versions[:-1], touched[:-1], strict=True):
            found = table.touched_since(version)
            unknown += found is None
            assert found is None or found.tolist() == sorted(wanted)
        assert unknown < len(versions) - 1  # the last is known
    assert unknown > 20
    assert table.add(_params(11), 1).shape[0] == 11
    assert table.touched_since(versions[-1]) is None  # of too many at once nothing is kept


def test_changes_of_another_content_are_not_known() -> None:
    arena = Arena()
    table = QueryTable(arena.scope("Q"), 1)
    table.add(_params(3), 1)
    assert table.touched_since(0) is not None
    arena.scope("Q")["regs"] = table.identity.copy()
    assert table.touched_since(0) is None
