"""Sessions in one process that run plans as pipelines, for simulations."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from penstock.eddy.settings import Settings
from penstock.kernels.compiling import tell_once
from penstock.pipeline.arrivals import Arrivals
from penstock.pipeline.clock import Stopwatch, VirtualClock, measured
from penstock.pipeline.engine import PipelinedEngine
from penstock.pipeline.schedule import ScheduleName, make_schedule
from penstock.pipeline.simulation import Rules, Simulation
from penstock.session import clock
from penstock.session.books import Books, new_books
from penstock.session.feed import most_ahead
from penstock.session.runners.one_process import OneProcess
from penstock.session.session import Session
from penstock.session.settings import configure
from penstock.sql.catalog import StreamDef


@dataclass(frozen=True, slots=True)
class PipelinedSession:
    """A session that declares streams, tables and queries; rows come from a simulation."""

    session: Session
    engine: PipelinedEngine
    books: Books

    def unfed(self, fed: Container[str]) -> list[str]:
        """The streams that queries read, except those that are `fed`."""
        return [s for s in self.engine.sources if self.engine.is_read(s) and s not in fed]

    def stream(self, name: str) -> StreamDef:
        """A stream of the session."""
        return self.books.catalog.find_stream(name)

    def queries_of(self, template: int) -> list[str]:
        """The names of the queries of a plan."""
        groups = self.books.queries.registry.groups.values()
        return [name for group in groups if group.template == template for name in group.names]

    def simulate(self, arrivals: Arrivals, schedule: ScheduleName, batch_rows: int) -> Simulation:
        """A simulation, which has not begun."""
        ahead = {s.name: most_ahead(s) for s in self.books.catalog.streams()}
        rules = Rules(batch_rows, clock.now_us(), ahead)
        return Simulation(self.engine, arrivals, make_schedule(schedule), rules)


def open_pipelined(
    settings: Settings | None = None, stopwatch: Stopwatch = measured
) -> PipelinedSession:
    """Open a session that runs plans as pipelines."""
    tell_once()
    engine = PipelinedEngine(moment=VirtualClock(stopwatch))
    books = new_books(engine)
    runner = OneProcess(books)
    session = Session(books, runner, frozenset())
    configure(books, runner, settings or Settings())
    return PipelinedSession(session, engine, books)


def latest_time(stream: StreamDef) -> int | None:
    """The latest time of a row that MAX AHEAD lets in now; None without a limit."""
    ahead = most_ahead(stream)
    return None if ahead is None else clock.now_us() + ahead
