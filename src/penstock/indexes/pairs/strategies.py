"""All strategies of the index over pairs of streams, by their names in the paper."""

from __future__ import annotations

from penstock.indexes.pairs.plain import DataOuter, Merge, SelectFirst, Vanilla
from penstock.indexes.pairs.ssi import Hotspot, Ssi
from penstock.indexes.pairs.strategy import Strategy

_ALL = (Vanilla, DataOuter, Merge, SelectFirst, Ssi, Hotspot)
STRATEGIES: dict[str, type[Strategy]] = {strategy.name: strategy for strategy in _ALL}
