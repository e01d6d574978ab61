"""Gives a new sink the first answer of its query, if no rows have reached the query yet.

If a script makes a sink right after its view, the sink gets every change, so its changes add up to
the answer. On Spark both statements are in the first batch, as are the view's first changes.
"""

from __future__ import annotations

from penstock.files.sinks import Sink
from penstock.session.books import Books
from penstock.session.changelog import label
from penstock.session.sinks import is_whole
from penstock.sql.statements import CreateSink


def begin(books: Books, create: CreateSink, sink: Sink) -> None:
    """Write to a new sink the changes that its query has had without rows."""
    info = books.queries.info(create.view)
    streams = books.engine.templates[info.template].streams
    seen = any(books.catalog.meters[stream].received for stream in streams)
    if seen or is_whole(create) or not books.delivery.sinks.fed():
        return
    log = books.delivery.logs[info.template]
    for batch in list(log.batches):
        table = label([batch.of(info.qid)], info.name, log.columns(many=False))
        if table.num_rows:
            sink.write(table, batch.number)
