"""How rows find their queries and each other: settings of the whole session."""

from __future__ import annotations

from penstock.eddy.settings import Settings
from penstock.engine import blocks as b
from penstock.session.books import Books
from penstock.session.runner import Runner


def configure(books: Books, runner: Runner, settings: Settings) -> None:
    """Set how flows and templates work that are made from now on."""
    with runner.gate.open():
        runner.calls.begin("configure", settings)
        if books.engine.flows.settings != settings:
            runner.steps.apply([b.Configure(settings)])
