"""Settings of an engine: how rows find their queries and each other. They change no answer."""

from __future__ import annotations

from penstock.eddy.eddy import Routing
from penstock.frozen import record
from penstock.indexes.pairs.router import PairStrategy


@record
class Settings:
    """How rows visit shared filters and SteMs, and the strategy of indexes over pairs."""

    routing: Routing = "tickets"
    pairs: PairStrategy = "auto"
