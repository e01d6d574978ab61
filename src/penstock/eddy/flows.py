"""The flows of an engine: one per span and clock, shared by all templates (CACQ §3.2, §3.3.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Protocol

from penstock.eddy.flow import Flow
from penstock.eddy.settings import Settings
from penstock.expressions.context import Context
from penstock.optimizer.span import Span
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.stems.stems import Stems
from penstock.stems.window_join import WindowJoins


class Reporting(Protocol):
    """An index of one template, as `stats()` shows it."""

    def report(self) -> dict[str, object]:
        """State and knowledge of the flow, as numbers."""


class Flows:
    """Flows by span and clock, joins of two windows, and the SteMs that they share.

    The streams of a plan determine its clock; all plans of a flow read the same streams.
    """

    def __init__(self, arena: Arena, ctx: Context, settings: Settings | None = None) -> None:
        self.stems = Stems(arena)
        self.joins = WindowJoins(self.stems)
        self.settings = settings or Settings()
        self.pairs: list[Reporting] = []  # indexes over pairs of streams
        self._scope = arena.scope("flows")
        self._ctx = ctx
        self._flows: dict[str, Flow] = {}

    def of(self, span: Span, sources: Mapping[str, SourceLog], streams: frozenset[str]) -> Flow:
        """The flow of a span for plans that read these streams, created if necessary."""
        scope = self._scope.scope(_name(span, streams))
        name = scope.prefix
        if name not in self._flows:
            logs = [sources[stream] for stream in span.streams]
            routing = self.settings.routing
            self._flows[name] = Flow(span, logs, self.stems, self._ctx, scope, routing)
        return self._flows[name]

    def leave(self, flow: Flow, key: int) -> None:
        """Remove a template from its flow; remove the flow with its last template."""
        flow.remove(key)
        if not flow.members:
            del self._flows[flow.scope.prefix]

    def begin(self) -> None:
        """Begin a step of the engine."""
        for flow in self._flows.values():
            flow.begin()
        self.joins.begin()

    def report(self) -> dict[str, list[dict[str, object]]]:
        """For stats(): flows, joins of two windows, and SteMs with their readers."""
        return {
            "flows": [flow.report.numbers() for flow in self],
            "joins": [join.report() for join in self.joins],
            "pairs": [index.report() for index in self.pairs],
            "stems": [
                {
                    "stream": stem.scope.prefix.split("/")[1],
                    "columns": [stem.log.schema.names[c] for c in stem.columns],
                    "kind": stem.kind.value,
                    "readers": self.stems.readers(stem),
                    "rows": stem.rows(),
                    "bytes": stem.nbytes,
                }
                for stem in self.stems
            ],
        }

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())


def _name(span: Span, streams: frozenset[str]) -> str:
    """The name of a span and its clock in the names of arrays; equal in every process."""
    others = sorted(streams - set(span.streams))
    what = repr((span, others) if others else span)
    return f"{'-'.join(span.streams)}-{hashlib.sha256(what.encode()).hexdigest()[:12]}"
