"""The flows of an engine: one per span, however many templates (CACQ §3.2, §3.3.2)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from penstock.physical.context import Context
from penstock.sharing.eddy import Routing
from penstock.sharing.flow import Flow
from penstock.sharing.span import Span
from penstock.sharing.stem import OrderedStem
from penstock.sharing.stems import Stems
from penstock.sharing.window_join import WindowJoins
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog


class Flows:
    """Flows by span, joins of two windows, and the SteMs they share."""

    def __init__(self, arena: Arena, ctx: Context, routing: Routing = "tickets") -> None:
        self.stems = Stems(arena)
        self.joins = WindowJoins(self.stems)
        self.routing: Routing = routing
        self._scope = arena.scope("flows")
        self._ctx = ctx
        self._flows: dict[Span, Flow] = {}

    def of(self, span: Span, sources: Mapping[str, SourceLog]) -> Flow:
        """The flow of a span, a new one when there is none."""
        if span not in self._flows:
            logs = [sources[stream] for stream in span.streams]
            scope = self._scope.scope(_name(span))
            self._flows[span] = Flow(span, logs, self.stems, self._ctx, scope, self.routing)
        return self._flows[span]

    def leave(self, flow: Flow, key: int) -> None:
        """A member leaves its flow; the flow goes with the last one."""
        flow.remove(key)
        if not flow.members:
            del self._flows[flow.span]

    def begin(self) -> None:
        """The engine takes a step."""
        for flow in self._flows.values():
            flow.begin()
        self.joins.begin()

    def report(self) -> dict[str, list[dict[str, object]]]:
        """What is shared: flows, joins of two windows, and the SteMs with their readers."""
        return {
            "flows": [flow.report() for flow in self],
            "joins": [join.report() for join in self.joins],
            "stems": [
                {
                    "stream": stem.scope.prefix.split("/")[1],
                    "columns": [stem.log.schema.names[c] for c in stem.columns],
                    "ordered": isinstance(stem, OrderedStem),
                    "readers": self.stems.readers(stem),
                    "rows": stem.rows(),
                    "bytes": stem.nbytes,
                }
                for stem in self.stems
            ],
        }

    def __iter__(self) -> Iterator[Flow]:
        return iter(self._flows.values())


def _name(span: Span) -> str:
    """Says what a span is in the names of arrays: the same in every process."""
    what = hashlib.sha256(repr(span).encode()).hexdigest()[:12]
    return f"{'-'.join(span.streams)}-{what}"
