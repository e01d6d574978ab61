"""Tells Spark's tasks how to take in external streams: routes, columns, and rows to keep."""

from __future__ import annotations

from penstock.delta import Lineage
from penstock.engine import blocks as b
from penstock.logical.nodes import Scan, walk
from penstock.session.books import Books
from penstock.session.feed import most_ahead
from penstock.session.gate import Gate
from penstock.session.leaving import LeavingQueries
from penstock.session.runners.shard_steps import ShardSteps
from penstock.shards.intake import Intake
from penstock.shards.prefilter import MOST_QUERIES, Clause, Prefilter, readers, with_constants
from penstock.sql.catalog import StreamDef


class Intakes:
    """Makes the intake of each external stream."""

    def __init__(
        self, books: Books, gate: Gate, steps: ShardSteps, leaving: LeavingQueries
    ) -> None:
        self._books, self._gate, self._steps, self._leaving = books, gate, steps, leaving

    def after(self, entry: int) -> dict[str, Intake]:
        """The intake of each external stream after a log entry."""
        with self._gate.lock:
            retired = [block for at, block in self._steps.retired if at > entry]
            deployed = [*self._steps.deployed.values(), *retired]
            streams = [s for s in self._books.catalog.streams() if s.format is not None]
            return {s.name: self._intake(s, deployed) for s in streams}

    def _intake(self, stream: StreamDef, deployed: list[b.AddTemplate]) -> Intake:
        read: dict[str, set[int]] = {}
        routes = {}
        for block in deployed:
            for route in block.plan.routes:
                if route.stream == stream.name:
                    routes[route.name] = route
            roots = [block.plan.view, *(send.node for send in block.plan.sends)]
            for node in (n for root in roots for n in walk(root)):
                if isinstance(node, Scan):
                    read.setdefault(node.stream, set()).update(node.columns)
        columns = stream.schema.names
        shipped = tuple(
            (route, tuple(columns[c] for c in sorted(read.get(name, ()))))
            for name, route in sorted(routes.items())
        )
        wants = tuple(self._prefilter(deployed, route.name) for route, _ in shipped)
        return Intake(
            stream.schema, stream.time, stream.delay, most_ahead(stream), bool(stream.retain),
            shipped, wants,
        )  # fmt: skip

    def _prefilter(self, deployed: list[b.AddTemplate], route: str) -> Prefilter | None:
        """The filter for rows that no query behind a route takes, if it is worth applying early."""
        clauses: list[Clause] = []
        engine = self._books.engine
        for block in deployed:
            template = engine.templates.get(block.key)
            for clause in readers(block, route):
                if clause is None or template is None or self._leaving.of(block.key):
                    return None
                live = template.queries.live(Lineage.QUERY)
                each = with_constants(clause, block.params, template.queries, live, engine.strings)
                if each is None:
                    return None
                clauses += each
        return tuple(clauses) if len(clauses) <= MOST_QUERIES else None
