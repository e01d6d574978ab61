"""Pairs of two streams, found by an index over what the queries ask of them, against DuckDB."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from golden.runner import Golden
from oracle.check import compare
from oracle.driver import Trace
from oracle.scenario import Scenario
from penstock.indexes.pairs.router import PAIR_STRATEGIES, PairStrategy
from property.cases import CHUNKS, seeds, tally
from property.pair_population import (
    Population,
    use_any_axis,
    use_index,
    use_small_batches,
    use_strategy,
)
from property.pair_texts import Texts, scenario
from property.test_invariance import equal_histories, split


def trace_of(seed: int, rows: int = 32, **options: object) -> Trace:
    """A population of one template or two."""
    rng = Random(seed)
    texts = Texts(rng)
    templates = [texts.template() for _ in range(rng.choice((1, 1, 2)))]
    return Population(rng, scenario(rng, rows), templates, **options).run()  # type: ignore[arg-type]


def use(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The strategy of a seed, and from how many queries on ranges alone use an index."""
    use_index(monkeypatch, most_in_groups=(0, 0, 4)[seed % 3])
    use_strategy(monkeypatch, (*PAIR_STRATEGIES, "auto")[seed % 8], seed)
    if seed % 7 < 4:
        use_any_axis(monkeypatch, seed)
    if seed % 5 < 2:
        use_small_batches(monkeypatch)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_population_is_as_exact_as_its_queries(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds(71, chunk, CHUNKS):
        use(monkeypatch, seed)
        trace = trace_of(seed)
        compare(trace)
        tally["pairs"] += len(trace.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_a_population_on_shards(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(72, chunk, 20):
        use(monkeypatch, seed)
        trace = trace_of(seed, shards=(2, 4)[chunk % 2], restores=0.1)
        compare(trace)
        tally["pairs on shards"] += len(trace.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_a_population_is_put_away_and_built_again(
    chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in seeds(73, chunk, 20):
        use(monkeypatch, seed)
        checkpoint = tmp_path / str(seed) if seed % 2 else None
        trace = trace_of(seed, restores=0.25, checkpoint=checkpoint)
        compare(trace)
        tally["pairs after a restart"] += len(trace.sqls)


# ---- what must not change the answer -------------------------------------------------
class _Fixed:
    """A population that is registered at the beginning and stays."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.seed, self.templates = seed, [Texts(rng).template()] * 3
        self.scenario = scenario(rng, 32)

    def run(self, actions: Scenario | None = None) -> Trace:
        """The same queries over the same rows."""
        rng = Random(self.seed)
        return Population(rng, actions or self.scenario, self.templates, churn=0.0).run()


@pytest.mark.parametrize("chunk", range(4))
def test_strategies_tell_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(74, chunk, 20):
        use_index(monkeypatch)
        fixed = _Fixed(seed)
        traces = []
        for name in PAIR_STRATEGIES:
            use_strategy(monkeypatch, name, seed)
            traces.append(fixed.run())
        assert all(trace.seen == traces[0].seen for trace in traces)
        compare(traces[0])
        tally["pairs by every strategy"] += len(traces[0].sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_batches_do_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(75, chunk, 40):
        use(monkeypatch, seed)
        fixed = _Fixed(seed)
        finer = split(Random(seed), fixed.scenario)
        whole, pieces = fixed.run(), fixed.run(finer)
        if whole.late == pieces.late:  # lateness is judged per batch
            equal_histories(whole, pieces)
            tally["pairs in other batches"] += len(whole.sqls)


# ---- timelines -----------------------------------------------------------------------
GOLDEN = Path(__file__).parent.parent / "golden"
TIMELINES = [
    "papers/agarwal_fig1_stabbing.slt",
    "papers/agarwal_fig4_band_join.slt",
    "papers/agarwal_fig5_select_join.slt",
    "papers/agarwal_fig6_skylines.slt",
    "joins/query_bands.slt",
    "windows/own_length.slt",
]


@pytest.mark.parametrize("timeline", TIMELINES)
@pytest.mark.parametrize("strategy", PAIR_STRATEGIES)
def test_timelines_by_every_strategy(
    strategy: PairStrategy, timeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_index(monkeypatch)
    use_strategy(monkeypatch, strategy)
    Golden(GOLDEN / timeline).run()
