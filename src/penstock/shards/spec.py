"""The configuration of a shard; with the arena it is the shard's whole state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.eddy.settings import Settings
from penstock.engine import blocks as b
from penstock.optimizer.distribution import Route


@dataclass(slots=True)
class Spec:
    """The declarations of a shard."""

    streams: dict[str, b.AddStream] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)
    tables: dict[str, b.AddTable] = field(default_factory=dict)
    udfs: dict[str, b.AddUdf] = field(default_factory=dict)
    templates: dict[int, b.AddTemplate] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)  # templates that failed here
    settings: Settings = field(default_factory=Settings)

    def blocks(self) -> Iterator[b.Block]:
        """The declarations that rebuild the operators."""
        yield b.Configure(self.settings)
        yield from self.udfs.values()
        yield from self.streams.values()
        for name, route in self.routes.items():
            yield route_stream(name, self.streams[route.stream])
        yield from self.tables.values()
        yield from self.templates.values()


def route_stream(name: str, stream: b.AddStream) -> b.AddStream:
    """A route as a stream of its own."""
    return b.AddStream(name, stream.schema, stream.retain)
