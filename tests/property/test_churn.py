"""Templates under churn: parameter rows come and go, ids are used again, others are untouched."""

from __future__ import annotations

from dataclasses import replace
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
from penstock.session import windows
from property.cases import CHUNKS, seeds, tally
from property.data import params_of, session, streams_of
from property.test_many import OWN_WINDOWS, TEMPLATES


class _Churn:
    """A session whose queries of one template are added and dropped between pushes."""

    def __init__(
        self, template: str, rng: Random, scenario: Scenario, shards: int | None = None
    ) -> None:
        self.template, self.rng, self.scenario = template, rng, scenario
        self.world = scenario.world()
        self.trace = Trace(scenario, [], self.world, [], [], [])
        self.live: dict[int, Any] = {}
        self.session = penstock.connect(runner="inprocess", shards=shards)

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
        params = [params_of(rng) for _ in range(count)]
        for chosen, query in zip(
            params,
            self.session.query_many(self.template, pa.Table.from_pylist(params)),
            strict=True,
        ):
            self._enter(query, bind(self.template, chosen), history=False)

    def _enter(self, query: Any, sql: str, history: bool) -> None:
        self.live[len(self.trace.sqls)] = query
        self.trace.sqls.append(sql)
        self.trace.seen.append([])
        self.trace.since.append(None if history else self.world.step)
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


class _Texts(_Churn):
    """Texts of all templates come one by one, some twice, some with history, and go."""

    sharing = 0
    """How many texts came to a row of Q that an earlier one had made."""

    def _add(self, count: int) -> None:
        for _ in range(count):
            text, history = self._text()
            before = self._shared(text)
            query = self.session.query(text, history=history)
            self._enter(query, text, history)
            shared = self._shared(text)
            self.sharing += 0 < len(before) == len(shared)

    def _text(self) -> tuple[str, bool]:
        rng = self.rng
        if self.live and rng.random() < 0.3:
            index = rng.choice(sorted(self.live))
            return self.trace.sqls[index], self.trace.since[index] is None
        template = rng.choice([t for t in TEMPLATES if "ROWS" not in t])
        return bind(template, params_of(rng)), rng.random() < 0.3

    def _shared(self, text: str) -> set[int]:
        """The rows of Q that serve queries of a text."""
        names = [q.name for i, q in self.live.items() if self.trace.sqls[i] == text]
        return {self.session._books.queries.info(name).qid for name in names}


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_texts_come_and_go(chunk: int, shards: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MOST_LENGTHS", chunk % 3)
    for seed in seeds(13, chunk, 3 * CHUNKS if shards is None else CHUNKS):
        texts = _texts(seed, shards)
        trace = texts.run()
        compare(trace)
        tally["texts that came and went"] += len(trace.sqls)
        tally["texts that share a row"] += texts.sharing


def _texts(seed: int, shards: int | None) -> _Texts:
    rng = Random(seed)
    base = session(rng, {"r", "s", "u"}, set(), 24)
    kept = replace(base, streams=tuple(replace(s, retain=1000) for s in base.streams))
    return _Texts("", rng, kept, shards)


def test_some_texts_share_a_row() -> None:
    several = [_texts(seed, None) for seed in range(130_000_000, 130_000_005)]
    for texts in several:
        texts.run()
    assert sum(texts.sharing for texts in several) > 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_parameter_rows_come_and_go(template: str) -> None:
    chunk = TEMPLATES.index(template)
    for seed in seeds(12, chunk, 2 * CHUNKS):
        rng = Random(seed)
        trace = _Churn(template, rng, session(rng, streams_of(template), set(), 24)).run()
        compare(trace)
        tally["churn"] += len(trace.sqls)


@pytest.mark.parametrize("template", OWN_WINDOWS)
def test_windows_of_own_length_on_shards(template: str) -> None:
    for seed in seeds(14, OWN_WINDOWS.index(template), CHUNKS):
        rng = Random(seed)
        scenario = session(rng, streams_of(template), set(), 24)
        trace = _Churn(template, rng, scenario, shards=rng.choice((1, 2, 3))).run()
        compare(trace)
        tally["own windows on shards"] += len(trace.sqls)
