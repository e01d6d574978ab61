"""How rows of flows find their way: a setting of the whole session."""

from __future__ import annotations

from penstock.eddy.eddy import Routing
from penstock.engine import blocks as b
from penstock.session.books import Books
from penstock.session.runner import Runner


def set_routing(books: Books, runner: Runner, routing: Routing) -> None:
    """Route rows of flows made from here on in another way."""
    with runner.gate.open():
        runner.calls.begin("route", routing)
        if books.engine.flows.routing != routing:
            runner.steps.apply([b.SetRouting(routing)])
