"""Places templates on shards: distributes their plans, and plans the edges between the levels."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from penstock.engine import blocks as b
from penstock.engine.build import spec_of
from penstock.logical.nodes import Node
from penstock.logical.reads import streams_of, views_of
from penstock.optimizer.distribute import distribute
from penstock.optimizer.distribution import Distributed, Route, Spread
from penstock.patterns.edge import Edge, Emit
from penstock.patterns.edges import received_edge


class Deployed(dict[int, b.AddTemplate]):
    """The templates that run on the shards by key, and the routes that they read."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: Counter[Route] = Counter()

    def put(self, template: b.AddTemplate) -> None:
        """Add a new template."""
        self[template.key] = template
        self.routes.update(template.plan.routes)

    def remove(self, key: int) -> None:
        """Remove a template, if it exists."""
        gone = self.pop(key, None)
        for route in () if gone is None else gone.plan.routes:
            self.routes[route] -= 1
            if not self.routes[route]:
                del self.routes[route]


def place(block: b.AddTemplate, shards: int, deployed: Deployed) -> b.AddTemplate:
    """Divide the plan of a template for `shards` shards that already run other templates."""
    node = block.plan.view
    known: dict[str, set[Spread]] = {}
    for route in deployed.routes:
        known.setdefault(route.stream, set()).add(route.spread)
    views = {view.template: deployed[view.template].plan for view in views_of(node)}
    plan = distribute(node, block.key % shards, known, views)
    emits, streams = _translate(block.emits, plan), streams_of(node)
    placed = replace(block, plan=plan, emits=emits, streams=streams)
    return replace(placed, received=_edges(placed)) if plan.sends else placed


def _translate(
    emits: tuple[tuple[Node, Emit], ...], plan: Distributed
) -> tuple[tuple[Node, Emit], ...]:
    """Translate the choices for the undivided plan to the nodes of the divided one."""
    chosen = dict(emits)
    return tuple((new, chosen[old]) for new, old in plan.origin.items() if old in chosen)


def _edges(placed: b.AddTemplate) -> tuple[tuple[int, Edge], ...]:
    """The edges on which level 2 receives the rows that level 1 sends."""
    return tuple((send.channel, received_edge(top.edge)) for send, top in spec_of(placed).sends)
