"""The routing of rows through flows: a setting of the whole session."""

from __future__ import annotations

from penstock.eddy.eddy import Routing
from penstock.engine import blocks as b
from penstock.session.books import Books
from penstock.session.runner import Runner


def set_routing(books: Books, runner: Runner, routing: Routing) -> None:
    """Set the routing policy of flows that are made from now on."""
    with runner.gate.open():
        runner.calls.begin("route", routing)
        if books.engine.flows.routing != routing:
            runner.steps.apply([b.SetRouting(routing)])
