"""Opens sessions on Spark; importing it imports pyspark and starts a JVM if none runs."""

from __future__ import annotations

from typing import Any

from penstock.engine.control import ControlEngine
from penstock.session.books import new_books
from penstock.session.opening import Options
from penstock.session.runners.on_spark import OnSpark
from penstock.session.session import Session
from penstock.session.settings import configure


def open_on_spark(options: Options | None = None, **where: Any) -> Session:
    """A session in a Spark job; `where` is what `OnSpark` takes."""
    options = options or Options()
    control = ControlEngine()
    books = new_books(control, options.keep_changes, feeds_sinks=False)
    runner = OnSpark(books, control, **where)
    session = Session(books, runner, options.rules_off, options.strategy)
    try:
        if runner.durable:
            runner.restore()
    except BaseException:
        runner.let_go()
        raise
    configure(books, runner, options.settings)
    return session
