"""Statistics of streams, tables and predicates, measured or guessed, for the choice of a plan.

The values are frozen: the engine measures and gives the optimizer a new `Stats`. Missing values are
guessed. Rules that compare plans by cost do not change a plan that has only guessed statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.logical.expr import Expr
from penstock.logical.nodes import Node, Scan, TableScan, walk

DEFAULT_RATE = 100.0
DEFAULT_DISTINCT = 100.0
DEFAULT_ROWS = 1000.0
DEFAULT_PREMATURE = 0.5
DEFAULT_WINDOW_S = 600.0
HORIZON_S = 3600.0
"""The assumed age of a stream that is kept forever."""


@dataclass(frozen=True, slots=True)
class StreamStats:
    """A stream: rows per second, distinct values per column, units of event time per second."""

    rate: float = DEFAULT_RATE
    distinct: Mapping[str, float] = field(default_factory=dict)
    ticks_per_s: float = 1_000_000.0


@dataclass(frozen=True, slots=True)
class TableStats:
    """A table: rows, distinct values per column, updates per second."""

    rows: float = DEFAULT_ROWS
    distinct: Mapping[str, float] = field(default_factory=dict)
    rate: float = 0.01


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics by name; `selectivity` by predicate; `premature` by negation node.

    `premature` is the share of a negation's results that ended before their expiry. `queries` is
    the number of queries with which a new template begins.
    """

    streams: Mapping[str, StreamStats] = field(default_factory=dict)
    tables: Mapping[str, TableStats] = field(default_factory=dict)
    selectivity: Mapping[Expr, float] = field(default_factory=dict)
    premature: Mapping[Node, float] = field(default_factory=dict)
    queries: int = 1

    def stream(self, name: str) -> StreamStats:
        """The statistics of a stream, guessed if unknown."""
        return self.streams.get(name, StreamStats())

    def table(self, name: str) -> TableStats:
        """The statistics of a table, guessed if unknown."""
        return self.tables.get(name, TableStats())

    def premature_share(self, node: Node) -> float:
        """The share of premature expirations of a negation, guessed if not measured."""
        return self.premature.get(node, DEFAULT_PREMATURE)

    def knows(self, node: Node) -> bool:
        """Whether every stream and table below `node` has been measured."""
        leaves = list(walk(node))
        streams = all(n.stream in self.streams for n in leaves if isinstance(n, Scan))
        return streams and all(n.table in self.tables for n in leaves if isinstance(n, TableScan))
