"""Counts and sums of pairs that are not formed: against DuckDB, and against pairs that are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from oracle.check import compare
from oracle.driver import Trace
from penstock.indexes.pairs import crowds
from penstock.optimizer import total_pairs
from property.cases import CHUNKS, seeds, tally
from property.pair_population import Population, use_index, use_small_batches
from property.pair_texts import Texts, scenario
from property.test_invariance import equal_histories, split

FORMED = frozenset({"total_pairs"})
"""The rule to switch off for a plan that forms pairs."""


def trace_of(seed: int, rows: int = 32, **options: object) -> Trace:
    """A population of one template or two that ask for totals."""
    rng = Random(seed)
    texts = Texts(rng)
    templates = [texts.totals() for _ in range(rng.choice((1, 1, 2)))]
    return Population(rng, scenario(rng, rows), templates, **options).run()  # type: ignore[arg-type]


def use(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """How small the groups of a seed may be; others are looked at one by one."""
    monkeypatch.setattr(crowds, "_FEW", (0, 0, 32)[seed % 3])
    monkeypatch.setattr(crowds, "_SMALL", (1, 2, 3)[seed % 4 % 3])
    monkeypatch.setattr(total_pairs, "MANY", 0)
    use_small_batches(monkeypatch)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_totals_are_exact(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(81, chunk, CHUNKS):
        use(monkeypatch, seed)
        trace = trace_of(seed)
        compare(trace)
        tally["totals"] += len(trace.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_totals_on_shards(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(82, chunk, 20):
        use(monkeypatch, seed)
        trace = trace_of(seed, shards=(2, 4)[chunk % 2], restores=0.1)
        compare(trace)
        tally["totals on shards"] += len(trace.sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_totals_after_a_restart(
    chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in seeds(83, chunk, 20):
        use(monkeypatch, seed)
        checkpoint = tmp_path / str(seed) if seed % 2 else None
        trace = trace_of(seed, restores=0.25, checkpoint=checkpoint)
        compare(trace)
        tally["totals after a restart"] += len(trace.sqls)


# ---- what must not change the answer -------------------------------------------------
@pytest.mark.parametrize("chunk", range(4))
def test_totals_equal_formed_pairs(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_index(monkeypatch)
    for seed in seeds(84, chunk, 40):
        use(monkeypatch, seed)
        traces = [trace_of(seed, optimizer_off=off) for off in (frozenset(), FORMED)]
        equal_histories(*traces)
        tally["totals beside pairs"] += len(traces[0].sqls)


@pytest.mark.parametrize("chunk", range(4))
def test_batches_do_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(85, chunk, 40):
        use(monkeypatch, seed)
        rng = Random(seed)
        template, actions = Texts(rng).totals(), scenario(rng, 32)
        finer = split(Random(seed), actions)
        whole, pieces = (
            Population(Random(seed), some, [template] * 3, churn=0.0).run()
            for some in (actions, finer)
        )
        if whole.late == pieces.late:  # lateness is judged per batch
            equal_histories(whole, pieces)
            tally["totals in other batches"] += len(whole.sqls)
