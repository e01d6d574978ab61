"""The rows of a simulation and their pace, as the options of `penstock simulate` name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.cli.app import Plan, sources
from penstock.cli.feed import Input as FileInput
from penstock.errors import DataError, PenstockError
from penstock.inprocess.sources import FORMATS, open_source
from penstock.pipeline.arrivals import AtRate, AtRates, AtSpeed, Input, Pace, first_rows
from penstock.session.pipelined import PipelinedSession, latest_time
from penstock.sql.catalog import StreamDef

_ALL = 1 << 40


# ---- rows ----------------------------------------------------------------------------
def read_inputs(plan: Plan, session: PipelinedSession, most: int | None) -> list[Input]:
    """The first rows of streams that have a source; those that queries read must have one."""
    found = sources(plan)
    for name in session.unfed(found):
        raise _no_source(name, "has no source")
    inputs = [_read(session.stream(name), source, most) for name, source in found.items()]
    if not any(i.rows.num_rows for i in inputs):
        raise PenstockError(
            "there are no rows to simulate",
            code="PS-SIM-004",
            remedy="give files with rows: FROM in the script, or --input STREAM=FILE",
        )
    if most is None or len({i.stream.unit_time for i in inputs}) > 1:
        return inputs
    return first_rows(inputs, most)


def _read(stream: StreamDef, source: FileInput, most: int | None) -> Input:
    if source.format.lower() not in FORMATS:
        raise _no_source(stream.name, f"reads {source.format}, which only Spark can read")
    tables, rows = [], 0
    for table in open_source(source.format, source.options, stream.schema, most or _ALL):
        tables.append(table.slice(0, most - rows) if most else table)
        rows += tables[-1].num_rows
        if most and rows >= most:
            break
    whole = pa.concat_tables(tables, promote_options="default") if tables else _no_rows(stream)
    return Input.of(stream, whole, latest_time(stream))


def _no_rows(stream: StreamDef) -> pa.Table:
    return pa.table({name: pa.nulls(0) for name in stream.schema.names})


def _no_source(name: str, why: str) -> DataError:
    return DataError(
        f"stream {name} {why}",
        code="PS-SIM-002",
        remedy=f"give rows that are like its own: --input {name}=FILE (.parquet, .csv, .jsonl)",
    )


# ---- pace ----------------------------------------------------------------------------
def read_pace(rates: Sequence[str], speed: float | None, inputs: Sequence[Input]) -> Pace:
    """The pace that --rate and --speed ask for; by default, that of event time."""
    if rates and speed is not None:
        raise _bad_pace("--rate and --speed exclude each other", "give one of them")
    if rates:
        return _rates(rates, inputs)
    units = [i.stream.name for i in inputs if i.stream.unit_time]
    if units:
        raise _bad_pace(
            f"the time of stream {units[0]} counts plain units, which last no known time",
            "give the rows per second: --rate 5000",
        )
    return AtSpeed(1.0 if speed is None else _positive(speed, f"--speed {speed:g}"))


def _rates(rates: Sequence[str], inputs: Sequence[Input]) -> Pace:
    names = {i.stream.name.lower(): i.stream.name for i in inputs}
    given: dict[str, float] = {}
    for text in rates:
        stream, equals, number = text.rpartition("=")
        if not equals and len(rates) > 1:
            raise _bad_pace(f"--rate {text} is for all streams", "give it alone, or STREAM=ROWS")
        if equals and stream.strip().lower() not in names:
            raise _bad_pace(f"--rate {text}: no stream {stream} has rows", _each(names.values()))
        name = names[stream.strip().lower()] if equals else ""
        given[name] = _positive(number, f"--rate {text}")
    if "" in given:
        _check_units(inputs)
        return AtRate(given[""])
    if missing := sorted(set(names.values()) - given.keys()):
        raise _bad_pace(f"stream {missing[0]} has no rate", _each(names.values()))
    return AtRates(given)


def _each(names: Iterable[str]) -> str:
    return "give every stream a rate: " + " ".join(f"--rate {n}=1000" for n in sorted(names))


def _check_units(inputs: Sequence[Input]) -> None:
    """A rate for all streams needs times that can be compared."""
    if len({i.stream.unit_time for i in inputs}) > 1:
        raise _bad_pace(
            "some streams have timestamps, others count plain units",
            _each([i.stream.name for i in inputs]),
        )


def _positive(given: str | float, option: str) -> float:
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise _bad_pace(f"{option} is not a number above 0", "write --rate 5000 or --rate r=1000")
    return number


def _bad_pace(message: str, remedy: str) -> PenstockError:
    return PenstockError(message, code="PS-SIM-003", remedy=remedy)
