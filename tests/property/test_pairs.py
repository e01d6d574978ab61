"""Pairs of two streams, found by an index over what thousands of queries ask, against DuckDB."""

from __future__ import annotations

from random import Random

import pytest

from oracle.check import compare
from oracle.driver import Trace
from penstock.indexes.pairs.strategies import STRATEGIES
from property.cases import CHUNKS, seeds, tally
from property.pair_population import Population, use_index, use_strategy
from property.pair_texts import Texts, scenario


def _trace(seed: int, rows: int = 40, **options: object) -> Trace:
    rng = Random(seed)
    texts = Texts(rng)
    templates = [texts.template() for _ in range(rng.choice((1, 1, 2)))]
    return Population(rng, scenario(rng, rows), templates, **options).run()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_population_is_as_exact_as_its_queries(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(STRATEGIES)
    for seed in seeds(71, chunk, CHUNKS):
        use_index(monkeypatch, most_in_groups=(0, 0, 4)[seed % 3])
        use_strategy(monkeypatch, names[seed % len(names)])
        trace = _trace(seed)
        compare(trace)
        tally["pairs"] += len(trace.sqls)
