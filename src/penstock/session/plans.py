"""The input of EXPLAIN: running plans, measurements, and the shards that run plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.engine.engine import Engine
from penstock.optimizer.stats import Stats
from penstock.physical.match import Descriptions
from penstock.session.placement import Deployed
from penstock.session.query_book import QueryBook


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of a session; `deployed` has those on shards and is None without shards.

    `told` remembers how plans on shards match their queries, because telling builds an index.
    """

    engine: Engine
    queries: QueryBook
    stats: Callable[[], Stats]
    rules_off: frozenset[str]
    deployed: Deployed | None
    shards: int
    told: Descriptions = field(default_factory=Descriptions)
