"""Plans under every strategy run as pipelines: at each instant, the answers of the plain engine."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import penstock
from oracle.fold import Values, changes_of
from penstock.logical.strategy import STRATEGIES
from penstock.pipeline.engine import PipelinedEngine
from penstock.pipeline.schedule import SCHEDULES, ScheduleName, make_schedule
from penstock.pipeline.units import Stage
from penstock.session import Session, opening
from penstock.session.pipelined import open_pipelined

NAMES = [s.name for s in STRATEGIES]
DDL = """
CREATE STREAM r (k INT, a INT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM s (k INT, b INT, ts BIGINT) TIMESTAMP BY ts DELAY 2;
CREATE TABLE t (k INT, name STRING);
INSERT INTO t VALUES (1, 'one'), (2, NULL);
"""
TEXTS = {
    "selection": "SELECT k, a FROM r [RANGE 6 SLIDE 3] WHERE a > 1",
    "groups": "SELECT k, count(*) AS n, max(a) AS m FROM r [RANGE 5] GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM r [ROWS 4]",
    "join": "SELECT x.k, a, b FROM r [RANGE 5] x JOIN s [RANGE 3] y ON x.k = y.k",
    "difference": "SELECT k FROM r [RANGE 5] EXCEPT SELECT k FROM s [RANGE 4]",
    "negation": "SELECT x.k, t.name FROM r [RANGE 4] x LEFT JOIN t ON x.k = t.k"
    " WHERE x.k NOT IN (SELECT k FROM s [RANGE 3])",
    "above": "SELECT k, n FROM groups WHERE n > 1",
}
"""By name of a view; `above` reads another view."""
LATE = "'input-triggered', heartbeats = false"
Answers = dict[str, Counter[tuple[int, Values]]]


def views(given: str) -> list[str]:
    """Statements that make the views, with this strategy in WITH."""
    return [
        f"CREATE MATERIALIZED VIEW {name} WITH (strategy = {given}) AS {text}"
        for name, text in TEXTS.items()
    ]


def batches(seed: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Batches of both streams, with NULLs, ties and gaps."""
    rng, made, ts = Random(seed), list[tuple[str, list[dict[str, Any]]]](), 0
    for _ in range(16):
        stream, column = rng.choice((("r", "a"), ("s", "b")))
        rows = []
        for _ in range(rng.randint(1, 4)):
            ts += rng.choice((0, 1, 1, 4))
            rows.append({"k": rng.choice((None, 1, 2, 3)), column: rng.randrange(4), "ts": ts})
        made.append((stream, rows))
    return made


def answers(session: Session, given: str, seed: int) -> Answers:
    """The net changes of each view by instant, in a session that has just begun."""
    session.sql(DDL)
    for text in views(given):
        session.sql(text)
    for stream, rows in batches(seed):
        session.push(stream, rows)
    session.advance(ts=200)
    found: Answers = {}
    for name in TEXTS:
        net = found[name] = Counter()
        for change in changes_of(session[name].changes()):
            net[change.time, change.row] += change.sign
        assert net, name
        found[name] = Counter({key: n for key, n in net.items() if n})
    return found


def piped(monkeypatch: pytest.MonkeyPatch, schedule: ScheduleName, batch: int) -> Session:
    """A session whose engine has queues."""

    def make() -> PipelinedEngine:
        return PipelinedEngine(make_schedule(schedule), batch)

    with monkeypatch.context() as inside:
        inside.setattr(opening, "Engine", make)
        return penstock.connect(runner="inprocess")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("batch", [1, 100])
def test_every_strategy_gives_the_answers_of_the_default(
    name: str, schedule: ScheduleName, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        plain = penstock.connect(runner="inprocess")
        with plain, piped(monkeypatch, schedule, batch) as session:
            assert answers(session, f"'{name}'", seed) == answers(plain, "'upa'", seed)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("batch", [1, 100])
def test_without_heartbeats_answers_are_as_late_as_without_queues(
    schedule: ScheduleName, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = 0
    for seed in range(3):
        plain, exact = (penstock.connect(runner="inprocess") for _ in range(2))
        with plain, exact, piped(monkeypatch, schedule, batch) as session:
            expected = answers(plain, LATE, seed)
            assert answers(session, LATE, seed) == expected
            late += expected != answers(exact, "'upa'", seed)
    assert late


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_units_under_every_strategy(name: str) -> None:
    made = open_pipelined()
    made.session.sql(DDL)
    made.session.sql(views(f"'{name}'")[list(TEXTS).index("difference")])
    (template,) = made.engine.templates.values()
    inner = [operator for operator in template.plan.operators if operator.inputs]
    stages = [unit.operator for unit in made.engine.units if isinstance(unit, Stage)]
    assert stages == inner
