"""Non-retroactive tables in queries with history: a table must not have changed since.

A row of a stream joins the table as it was when the row arrived (Golab & Özsu 2005, Definition 2).
Tables keep no former contents. So a query WITH HISTORY is refused while its windows hold rows that
came before the last change of such a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.arrays import BEGINNING
from penstock.errors import HistoryError
from penstock.logical.nodes import Node, TableScan, walk
from penstock.session.books import Books
from penstock.session.measure import LastChange
from penstock.session.values import shown_time

if TYPE_CHECKING:
    from penstock.session.runner import Runner


def note_change(books: Books, runner: Runner, table: str) -> None:
    """Note the time of each stream at a change of a table that is about to be applied."""
    if not books.catalog.find_table(table).nonretroactive:
        return
    sources, meters = books.engine.sources, books.catalog.meters
    changes: dict[str, LastChange] = runner.calls.note(  # the same if the call is repeated
        lambda: {s: (sources[s].watermark, runner.sources.unseen(s)) for s in meters}
    )
    for stream, change in changes.items():
        if change != (BEGINNING, None):  # the stream has rows
            meters[stream].table_changes[table] = change


def settle_changes(books: Books, entry: int) -> None:
    """Note that log entries up to this one have run: rows up to the watermark came before them."""
    for name, meter in books.catalog.meters.items():
        for table, (_, waits_for) in meter.table_changes.items():
            if waits_for is not None and waits_for <= entry:
                meter.table_changes[table] = books.engine.sources[name].watermark, None


def check_tables(books: Books, template: Node, needs: dict[str, int | None], clock: int) -> None:
    """Raise an error if a window holds rows from before a change of a table that they join."""
    scans = (node for node in walk(template) if isinstance(node, TableScan))
    for table in sorted({scan.table for scan in scans if scan.nonretroactive}):
        for stream, need in needs.items():
            change = books.catalog.meters[stream].table_changes.get(table)
            if change is not None and _reaches(change, need, clock):
                raise _changed(books, stream, table, change, need)


def _reaches(change: LastChange, need: int | None, clock: int) -> bool:
    """Whether a window of this length holds rows that came before the change."""
    until, waits_for = change
    return waits_for is not None or need is None or clock - need < until


def _changed(
    books: Books, stream: str, table: str, change: LastChange, need: int | None
) -> HistoryError:
    until, waits_for = change
    unit = books.catalog.find_stream(stream).unit_time
    if waits_for is None and need is not None:
        ready = f"when the event time of {stream} reaches {shown_time(until + need, unit)}"
    else:
        ready = "without history" if need is None else "after the next batch"
    return HistoryError(
        f"table {table} has changed since rows arrived that the query would see: it does not keep "
        "what they joined",
        code="PS-HIST-002",
        remedy=f"register the query {ready}, or declare {table} without NONRETROACTIVE",
    )
