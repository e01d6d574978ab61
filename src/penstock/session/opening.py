"""Opens sessions: puts books, a runner and the public object together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.eddy.settings import Settings
from penstock.engine.control import ControlEngine
from penstock.engine.engine import Engine
from penstock.logical.strategy import UPA, Strategy
from penstock.session.books import new_books
from penstock.session.changelog import DEFAULT_KEPT_ROWS
from penstock.session.directory import open_directory
from penstock.session.runners.on_shards import OnShards
from penstock.session.runners.one_process import OneProcess
from penstock.session.session import Session
from penstock.session.settings import configure
from penstock.session.snapshot import Snapshot, load, put_back
from penstock.shards.job import Deliver, Job


@dataclass(frozen=True, slots=True)
class Options:
    """Options that every runner takes.

    `rules_off` are the optimizer rules to switch off, `keep_changes` the rows of unread changes
    kept per plan, `settings` how rows find their queries and each other, `strategy` that of queries
    that name none.
    """

    rules_off: frozenset[str] = frozenset()
    keep_changes: int = DEFAULT_KEPT_ROWS
    settings: Settings = field(default_factory=Settings)
    strategy: Strategy = UPA


def open_in_process(
    options: Options, directory: Path | None = None, snapshot: Snapshot | None = None
) -> Session:
    """A session in one process; `directory` is its checkpoint."""
    held = None if directory is None else open_directory(directory)
    try:
        books = new_books(Engine(), options.keep_changes)
        runner = OneProcess(books, held)
        session = Session(books, runner, options.rules_off, options.strategy)
        configure(books, runner, options.settings)
        if snapshot is None and held is not None:
            snapshot = load(held.path)
        if snapshot is not None:
            put_back(books, snapshot, runner.sinks.open)
    except BaseException:
        if held is not None:
            held.close()
        raise
    return session


def open_on_shards(make_job: Callable[[Deliver], Job], options: Options | None = None) -> Session:
    """A session on the shards of a job in this process."""
    options = options or Options()
    control = ControlEngine()
    books = new_books(control, options.keep_changes)
    runner = OnShards(books, control, make_job)
    session = Session(books, runner, options.rules_off, options.strategy)
    configure(books, runner, options.settings)
    return session
