"""History: what streams retain, queries that ask for it, and queries with unfilled windows.

RETAIN can be changed, but discarded rows cannot come back. So each stream records the event time
from which on it has all rows that its current RETAIN asks for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.arrays import BEGINNING, I64
from penstock.engine import blocks as b
from penstock.errors import HistoryError
from penstock.queries.registry import QueryInfo
from penstock.session.books import Books
from penstock.session.catalog import SessionCatalog
from penstock.session.compile import Compiled
from penstock.session.measure import StreamMeter
from penstock.session.query_book import QueryBook
from penstock.session.table_history import check_tables, settle_changes
from penstock.session.values import shown_time
from penstock.session.windows import history_needs
from penstock.sql.alter import SetRetain
from penstock.sql.units import written
from penstock.state.source_log import SourceLog

if TYPE_CHECKING:
    from penstock.session.runner import Runner

STATUS, NOTE = b"penstock.status", b"penstock.note"
"""Metadata keys of a view's schema that say that the query is warming, and why."""


# ---- RETAIN --------------------------------------------------------------------------
def set_retain(books: Books, runner: Runner, statement: SetRetain) -> None:
    """Change how much of its past a stream keeps, from now on."""
    stream = books.catalog.find_stream(statement.name)
    length = statement.length
    if length is None or length.amount == 0:
        retain = None
    else:
        retain = length.resolve(stream.unit_time, "RETAIN")
    meter, source = books.catalog.meters[stream.name], books.engine.sources[stream.name]
    kept = runner.calls.note(  # the former value, also when the call is repeated
        lambda: _kept_since(meter, source, runner.sources.unseen(stream.name))
    )
    meter.retained_from, meter.retained_at = kept
    changed = replace(stream, retain=retain)
    books.catalog.add(changed)
    meter.stream, meter.altered = changed, True
    runner.steps.apply([b.SetRetain(stream.name, retain or 0)])


def _kept_since(
    meter: StreamMeter, source: SourceLog, unseen: int | None
) -> tuple[int | None, int | None]:
    """From when on a stream has all rows of a RETAIN set now, and the log entry that decides it."""
    if not source.discarded or _is_all_there(source, meter):
        return meter.retained_from, meter.retained_at
    kept = source.watermark - source.retain if source.retain else source.watermark + 1
    return max(kept, meter.retained_from or kept), unseen


def settle(books: Books, entry: int) -> None:
    """Note that entries up to this one have run: what they changed holds from the watermark on."""
    for name, meter in books.catalog.meters.items():
        if meter.retained_at is not None and meter.retained_at <= entry:
            meter.retained_at = None
            meter.retained_from = books.engine.sources[name].watermark + 1
    settle_changes(books, entry)


def _is_all_there(source: SourceLog, meter: StreamMeter) -> bool:
    """Whether a stream still has its first row; here its log may have fewer rows than on shards."""
    first, kept = meter.first_ts, meter.retained_from is None
    within = first is not None and source.watermark - first <= source.retain
    return bool(source.retain) and kept and within


def check_history(books: Books, compiled: Compiled, rows: I64) -> None:
    """Raise an error if a query asks for history that the streams do not retain at its clock."""
    needs = history_needs(compiled.template, rows)
    sources = books.engine.sources
    clock = min((sources[s].watermark for s in needs), default=BEGINNING)
    check_tables(books, compiled.template, needs, clock)
    for stream, need in needs.items():
        source, meter = sources[stream], books.catalog.meters[stream]
        if source.discarded == 0 or _is_all_there(source, meter):
            continue
        behind = source.watermark - clock
        if need is None or source.retain < need + behind:
            raise _not_retained(books.catalog, stream, need, behind)
        since = meter.retained_from
        if meter.retained_at is not None or (since is not None and clock - need < since):
            raise _not_yet(
                books.catalog, stream, None if meter.retained_at else (since or 0) + need
            )


def _not_retained(
    catalog: SessionCatalog, stream: str, need: int | None, behind: int
) -> HistoryError:
    if need is None:
        remedy = "register the query before the first row, or use a RANGE window and RETAIN"
    else:
        unit = catalog.find_stream(stream).unit_time
        length = str(need + behind) if unit else written(need + behind)
        remedy = (
            f"declare {stream} with RETAIN {length}, or ALTER STREAM {stream} SET RETAIN {length} "
            "and register the query when the stream has that much history"
        )
    return HistoryError(
        f"stream {stream} does not retain enough history for this query", remedy=remedy
    )


def _not_yet(catalog: SessionCatalog, stream: str, ready: int | None) -> HistoryError:
    """The error for history that was discarded before RETAIN was changed."""
    unit = catalog.find_stream(stream).unit_time
    remedy = (
        "register it after the next batch, when RETAIN is in force and there is enough history"
        if ready is None
        else f"register the query when the event time of {stream} reaches {shown_time(ready, unit)}"
    )
    return HistoryError(
        f"stream {stream} has not yet retained enough history for this query", remedy=remedy
    )


# ---- warming -------------------------------------------------------------------------
def note(queries: QueryBook, info: QueryInfo) -> str | None:
    """A note on a query with unfilled windows; None when all are full."""
    if info.failure is not None:
        return None
    until = int(queries.filled_at(info.group, np.array([info.at]))[0])
    if until == BEGINNING:
        return None
    unit = queries.template(info).unit_time
    return warming_note(until, unit)


def warming_note(until: int, unit: bool) -> str:
    """The text of that note, for windows that are full at event time `until`."""
    return (
        f"warming until {shown_time(until, unit)}: rows that came before the query was registered "
        "are not in its windows; with RETAIN on its streams, WITH HISTORY gives them"
    )


def labelled(table: pa.Table, said: str | None) -> pa.Table:
    """The answer of a query; if it is warming, the schema's metadata says so."""
    if said is None:
        return table
    return table.replace_schema_metadata({STATUS: b"warming", NOTE: said.encode()})
