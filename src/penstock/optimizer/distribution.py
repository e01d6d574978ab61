"""The form of a plan that is spread over shards (docs/design/0004-spark.md).

A `Spread` says which shards get a row. A `Route` is a stream with a spread; a shard's engine treats
it as a separate stream. A `Distributed` plan has a part for level 1 and a part for level 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from penstock.frozen import Hashed, frozen, record
from penstock.logical.nodes import Node


@frozen
class Spread(Hashed):
    """The shards that get a row: one by hash of columns, any one, all of them, or a fixed one."""

    kind: Literal["hash", "any", "all", "one"]
    columns: tuple[int, ...] = ()  # of the stream (routes) or of the sent rows (sends)
    shard: int = 0  # of "one"

    def __str__(self) -> str:
        if self.kind == "hash":
            return f"hash{'.'.join(map(str, self.columns))}"
        return f"one{self.shard}" if self.kind == "one" else self.kind


@record
class Route:
    """A stream and how its rows are spread over the shards of level 1."""

    stream: str
    spread: Spread
    name: str = field(init=False, compare=False)
    """The stream's name inside a shard; a user's stream cannot have an @ in its name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.stream}@{self.spread}")


@record
class Send:
    """A subplan of level 1 that sends its rows to level 2 on a channel of its template."""

    channel: int
    node: Node
    spread: Spread  # never "any"


@record
class Distributed:
    """A plan in one level (`view` runs in level 1) or in two (`upper`: `view` runs in level 2).

    Scans read routes by their names. `home` is the only shard that runs `view`; None means all. For
    a node, `origin` gives the node of the undistributed plan that it came from, if there is one.
    """

    view: Node
    sends: tuple[Send, ...]
    home: int | None
    routes: tuple[Route, ...]
    upper: bool = False
    origin: Mapping[Node, Node] = field(compare=False, hash=False, default_factory=dict)

    @property
    def levels(self) -> int:
        """The level that has the answers."""
        return 2 if self.upper else 1

    def view_at(self, level: int) -> Node | None:
        """The view, if this level runs it."""
        return self.view if level == self.levels else None

    def sends_at(self, level: int) -> tuple[Send, ...]:
        """The rows that this level sends to level 2."""
        return self.sends if level == 1 else ()

    def runs_on(self, level: int, shard: int) -> bool:
        """Whether a shard of a level has a part of the plan."""
        is_home = level == self.levels and self.home in (None, shard)
        return is_home or bool(self.sends_at(level))


def undivided(view: Node) -> Distributed:
    """A plan that one engine runs alone, over streams as they are."""
    return Distributed(view, (), None, ())
