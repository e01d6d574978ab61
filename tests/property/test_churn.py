"""Templates under churn: parameter rows come and go, ids are used again, others are untouched."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from oracle.check import compare
from oracle.driver import Observation, Trace
from oracle.fold import changes_of, rows_of
from oracle.scenario import Advance, Push, Scenario, follow
from oracle.translate import bind
from property.cases import CHUNKS, seeds, tally
from property.data import session
from property.test_many import TEMPLATES


class _Churn:
    """A session whose queries of one template are added and dropped between pushes."""

    def __init__(self, template: str, rng: Random, scenario: Scenario) -> None:
        self.template, self.rng, self.scenario = template, rng, scenario
        self.world = scenario.world()
        self.trace = Trace(scenario, [], self.world, [], [], [])
        self.live: dict[int, Any] = {}
        self.session = penstock.connect(runner="inprocess")

    def run(self) -> Trace:
        """Alternate churn and input."""
        for text in self.scenario.ddl():
            self.session.sql(text)
        for action in self.scenario.actions:
            if self.rng.random() < 0.6:
                self._add(self.rng.randint(1, 4))
            if self.live and self.rng.random() < 0.4:
                self._drop(self.rng.choice(sorted(self.live)))
            follow(self.world, action)
            match action:
                case Push(stream, rows):
                    self.session.push(stream, self.scenario.dicts(stream, rows))
                case Advance(stream, ts):
                    self.session.advance(stream, ts)
            self._look()
        names = [s.name for s in self.scenario.streams]
        self.trace.late = {name: self.session.late(name).num_rows for name in names}
        self.session.close()
        return self.trace

    def _add(self, count: int) -> None:
        rng = self.rng
        params = [{"lo": rng.randint(-1, 3), "hi": rng.randint(0, 4)} for _ in range(count)]
        for chosen, query in zip(
            params,
            self.session.query_many(self.template, pa.Table.from_pylist(params)),
            strict=True,
        ):
            self.live[len(self.trace.sqls)] = query
            self.trace.sqls.append(bind(self.template, chosen))
            self.trace.seen.append([])
            self.trace.since.append(self.world.step)
            self.trace.registered.append(self.world.step)

    def _drop(self, index: int) -> None:
        query = self.live.pop(index)
        pending = changes_of(query.changes())
        told: list[Any] = []
        query.subscribe(told.append)
        query.drop()
        changes = pending + [c for table in told for c in changes_of(table)]
        self.trace.seen[index].append(Observation(self.world.step, changes, None, dropped=True))

    def _look(self) -> None:
        for index, query in self.live.items():
            changes = changes_of(query.changes())
            seen = Observation(self.world.step, changes, rows_of(query.view()))
            self.trace.seen[index].append(seen)


@pytest.mark.parametrize("template", TEMPLATES)
def test_parameter_rows_come_and_go(template: str) -> None:
    chunk = TEMPLATES.index(template)
    for seed in seeds(12, chunk, 2 * CHUNKS):
        rng = Random(seed)
        trace = _Churn(template, rng, session(rng, {"r", "s"}, set(), 24)).run()
        compare(trace)
        tally["churn"] += len(trace.sqls)
