"""File sinks that this process writes itself; a sink may have to wait for disk space."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.errors import UnsupportedError
from penstock.files.sinks import Sink, open_sink
from penstock.inprocess.waiting_sink import WaitingSink
from penstock.session.sinks import WHOLE
from penstock.session.vault import Vault
from penstock.sql.statements import CreateSink


def own_options(create: CreateSink, vault: Vault, again: bool = False) -> dict[str, str]:
    """The sink's own options, with secrets in plain text; `mode` matters for a new sink only."""
    others = (WHOLE, "mode") if again else (WHOLE,)
    return {key: value for key, value in vault.plain(create.options) if key.lower() not in others}


class FileSinks:
    """Opens file sinks; the id `session` is part of the names of the files."""

    def __init__(self, vault: Vault, session: str) -> None:
        self._vault, self._session = vault, session

    def open(self, create: CreateSink, again: bool = False) -> Sink:
        """Open a sink for the changes of a query.

        With `again`, continue after what it has written.
        """
        options, writer = own_options(create, self._vault, again), f"{self._session}-{create.name}"
        opened = partial(open_sink, create.format, options, create.name, writer)
        return WaitingSink(opened, later=again)

    def remove(self, name: str) -> None:
        """Do nothing: closing the sink is enough."""

    def foreach_batch(self, name: str, function: Any, whole: bool) -> None:
        """Raise an error: functions over DataFrames need Spark."""
        raise UnsupportedError(
            "DataFrames of changes need the Spark runner",
            code="PS-RUNNER-002",
            remedy="subscribe() gives the changes of every commit as a pyarrow Table",
        )
