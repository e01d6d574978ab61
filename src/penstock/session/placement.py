"""From a template to what its shards run: distribution, and the edges between the levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from penstock.engine import blocks as b
from penstock.engine.build import spec_of
from penstock.logical.nodes import Node
from penstock.logical.reads import streams_of, views_of
from penstock.optimizer.distribute import distribute
from penstock.optimizer.distribution import Distributed, Route, Spread
from penstock.patterns.edge import Edge, Emit
from penstock.patterns.edges import received_edge
from penstock.shards.entries import Deploy


class Deployed(dict[int, Deploy]):
    """Templates that run on the shards by key, and the routes that they read."""

    def __init__(self, found: Mapping[int, Deploy] | None = None) -> None:
        super().__init__()
        self.routes: Counter[Route] = Counter()
        for key, deploy in (found or {}).items():
            self.put(key, deploy)

    def put(self, key: int, deploy: Deploy) -> None:
        """A new template."""
        self[key] = deploy
        self.routes.update(deploy.plan.routes)

    def remove(self, key: int) -> None:
        """A template is gone, if it was there."""
        deploy = self.pop(key, None)
        for route in () if deploy is None else deploy.plan.routes:
            self.routes[route] -= 1
            if not self.routes[route]:
                del self.routes[route]


def place(block: b.AddTemplate, shards: int, deployed: Deployed) -> Deploy:
    """How a template runs on `shards` shards beside others."""
    assert block.node is not None
    known: dict[str, set[Spread]] = {}
    for route in deployed.routes:
        known.setdefault(route.stream, set()).add(route.spread)
    views = {view.template: deployed[view.template].plan for view in views_of(block.node)}
    plan = distribute(block.node, block.key % shards, known, views)
    emits = _translate(block.emits, plan)
    edges = _edges(block, plan, emits) if plan.sends else ()
    streams = streams_of(block.node)
    return Deploy(block.key, plan, block.params, block.emission, emits, edges, streams)


def _translate(
    emits: tuple[tuple[Node, Emit], ...], plan: Distributed
) -> tuple[tuple[Node, Emit], ...]:
    """The choices of the undistributed plan for the nodes that stand for its nodes."""
    chosen = dict(emits)
    return tuple((new, chosen[old]) for new, old in plan.origin.items() if old in chosen)


def _edges(
    block: b.AddTemplate, plan: Distributed, emits: tuple[tuple[Node, Emit], ...]
) -> tuple[tuple[int, Edge], ...]:
    """The edges on which level 2 receives: those of what level 1 sends."""
    part = b.AddTemplate(block.key, None, block.params, block.emission, emits, plan.sends)
    return tuple((send.channel, received_edge(top.edge)) for send, top in spec_of(part).sends)
