"""The books of a session: all that the session knows, for every kind of runner.

A runner fills them, a snapshot saves them, and statements and handles read them.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.engine import Engine
from penstock.optimizer.stats import Stats
from penstock.session.catalog import SessionCatalog
from penstock.session.changelog import DEFAULT_KEPT_ROWS
from penstock.session.delivery import Delivery
from penstock.session.measure import measured_stats
from penstock.session.progress import Progress
from penstock.session.query_book import QueryBook
from penstock.session.sinks import SinkBook


@dataclass(frozen=True, slots=True)
class Books:
    """Engine, catalog, query book, delivery and progress."""

    engine: Engine
    catalog: SessionCatalog
    queries: QueryBook
    delivery: Delivery
    progress: Progress

    def stats(self) -> Stats:
        """Statistics of streams, tables and running plans for the optimizer."""
        return measured_stats(self.catalog.meters, self.engine)


def new_books(
    engine: Engine, kept_rows: int = DEFAULT_KEPT_ROWS, feeds_sinks: bool = True
) -> Books:
    """Empty books around an engine."""
    catalog = SessionCatalog()
    queries = QueryBook(catalog, engine)
    delivery = Delivery(queries, SinkBook(feeds_sinks), kept_rows)
    return Books(engine, catalog, queries, delivery, Progress(engine, catalog, queries))
