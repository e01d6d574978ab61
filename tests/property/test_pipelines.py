"""Plans that run as pipelines give the answers of the oracle and of the engine without queues."""

from __future__ import annotations

from itertools import cycle, product

import pytest

from oracle.check import check, compare
from oracle.driver import run
from penstock.logical.strategy import STRATEGIES, UPA, Strategy
from penstock.pipeline.engine import PipelinedEngine
from penstock.pipeline.schedule import SCHEDULES, ScheduleName, make_schedule
from penstock.session import opening
from property.cases import CHUNKS, Case, case, seeds, verify
from property.test_invariance import equal_histories

WAYS = [*product(SCHEDULES, [(1, 1), (2, 3), (3, 0)])]
"""A schedule, the rows of a batch, and the units that run between two batches."""
LATE = Strategy("input-triggered", heartbeats=False)


def use_pipelines(
    monkeypatch: pytest.MonkeyPatch, schedule: ScheduleName, batch: int, overlap: int
) -> None:
    """Sessions of one process have pipelined engines from now on."""

    def make() -> PipelinedEngine:
        return PipelinedEngine(make_schedule(schedule), batch, overlap)

    monkeypatch.setattr(opening, "Engine", make)


@pytest.mark.parametrize(("schedule", "size"), WAYS)
def test_pipelines_equal_the_oracle_and_the_engine(
    schedule: ScheduleName, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    at = WAYS.index((schedule, size))
    for seed in seeds(19, at, 50 * CHUNKS):
        verify("pipelines", case(seed, queries=2), lambda c: _equal(c, monkeypatch, schedule, size))


def _equal(
    subject: Case, monkeypatch: pytest.MonkeyPatch, schedule: ScheduleName, size: tuple[int, int],
    strategy: Strategy = UPA,
) -> None:  # fmt: skip
    sqls = list(subject.sqls)
    plain = run(sqls, subject.scenario, views=False, strategy=strategy)
    with monkeypatch.context() as inside:
        use_pipelines(inside, schedule, *size)
        piped = run(sqls, subject.scenario, strategy=strategy)
    assert plain.late == piped.late
    equal_histories(plain, piped)
    if strategy.heartbeats:
        compare(piped)


@pytest.mark.parametrize("strategy", [*STRATEGIES, LATE], ids=str)
def test_strategies_in_pipelines(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    way = cycle(WAYS)
    for seed in seeds(96, 0, 15 * CHUNKS):
        schedule, size = next(way)
        verify(
            f"pipelines, {strategy}",
            case(seed, queries=2),
            lambda c, of=schedule, at=size: _equal(c, monkeypatch, of, at, strategy),
        )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_net_changes_of_pipelines_are_exact_at_batch_ends(
    schedule: ScheduleName, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_pipelines(monkeypatch, schedule, 2, 1)
    for seed in seeds(20, SCHEDULES.index(schedule), 30 * CHUNKS):
        verify("pipelines on commit", case(seed), _check_on_commit)


def _check_on_commit(subject: Case) -> None:
    check([f"{sql} EMIT ON COMMIT" for sql in subject.sqls], subject.scenario)
