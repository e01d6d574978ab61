"""Where a sink begins: with the first answer of its query, if no rows have come to that yet.

A sink that a script makes right after its view then has every change, and folds to the answer. On
Spark both statements are in the first batch, and so are the changes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.files.sinks import Sink
from penstock.session.changelog import label
from penstock.session.delivery import is_whole
from penstock.sql.statements import CreateSink

if TYPE_CHECKING:
    from penstock.session.session import Session


def begin(session: Session, create: CreateSink, sink: Sink) -> None:
    """Give a new sink the changes that its query has had without rows."""
    info = session._query_info(create.view)
    streams = session._engine.templates[info.template].streams
    seen = any(session._meters[stream].received for stream in streams)
    if seen or is_whole(create) or not session._fed_sinks():
        return
    log = session._changelogs[info.template]
    for batch in list(log.batches):
        table = label([batch.of(info.qid)], info.name, log.columns(many=False))
        if table.num_rows:
            sink.write(table, batch.number)
