"""History: what streams retain, queries that ask for it, and those whose windows fill as rows come.

RETAIN can be changed. What was discarded before cannot be had again, so a stream knows from which
event time on it has all that its present RETAIN asks for.
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
from penstock.session.values import shown_time
from penstock.session.windows import history_needs
from penstock.sql.alter import SetRetain
from penstock.sql.units import written
from penstock.state.source_log import SourceLog

if TYPE_CHECKING:
    from penstock.session.runner import Runner

STATUS, NOTE = b"penstock.status", b"penstock.note"
"""Where the metadata of a view's schema says that it is warming, and what that means."""


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
    kept = runner.calls.note(  # what it was, when repeated
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
    """From when on a stream has all that a RETAIN set now asks for, and the entry that tells."""
    if not source.discarded or _is_all_there(source, meter):
        return meter.retained_from, meter.retained_at
    kept = source.watermark - source.retain if source.retain else source.watermark + 1
    return max(kept, meter.retained_from or kept), unseen


def settle(books: Books, entry: int) -> None:
    """Entries up to this one were run: streams whose RETAIN they set keep all since now."""
    for name, meter in books.catalog.meters.items():
        if meter.retained_at is not None and meter.retained_at <= entry:
            meter.retained_at = None
            meter.retained_from = books.engine.sources[name].watermark + 1


def _is_all_there(source: SourceLog, meter: StreamMeter) -> bool:
    """Whether a stream still retains its first row; shards may have what is discarded here."""
    first, kept = meter.first_ts, meter.retained_from is None
    within = first is not None and source.watermark - first <= source.retain
    return bool(source.retain) and kept and within


def check_history(books: Books, compiled: Compiled, rows: I64) -> None:
    """Refuse history that the streams do not retain, seen from the query's clock."""
    needs = history_needs(compiled.template, rows)
    sources = books.engine.sources
    clock = min((sources[s].watermark for s in needs), default=BEGINNING)
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
    """What was discarded before RETAIN was changed is asked for."""
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
    """What to know of a query whose windows have not filled yet; None when they have."""
    if info.failure is not None:
        return None
    until = int(queries.filled_at(info.group, np.array([info.at]))[0])
    if until == BEGINNING:
        return None
    unit = queries.template(info).unit_time
    return warming_note(until, unit)


def warming_note(until: int, unit: bool) -> str:
    """What to know of a query whose windows are full at an event time."""
    return (
        f"warming until {shown_time(until, unit)}: rows that came before the query was registered "
        "are not in its windows; with RETAIN on its streams, WITH HISTORY gives them"
    )


def labelled(table: pa.Table, said: str | None) -> pa.Table:
    """An answer, with what is to be known of a warming query in the metadata of its schema."""
    if said is None:
        return table
    return table.replace_schema_metadata({STATUS: b"warming", NOTE: said.encode()})
