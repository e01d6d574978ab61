"""Parameters of queries registered together: converts a user's table into rows of Q."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from penstock.arrays import I64
from penstock.engine.admission import convert, read_stream
from penstock.errors import DataError
from penstock.queries.names import Names
from penstock.schema import Schema
from penstock.session.compile import Compiled
from penstock.session.values import literal_rows
from penstock.sql.units import LONGEST
from penstock.state.convert import to_rows
from penstock.state.strings import StringTable


def params_table(params: Any) -> pa.Table:
    """Convert a pyarrow table or batch, a pandas frame or a list of dicts into a table."""
    if isinstance(params, pa.RecordBatch):
        params = pa.Table.from_batches([params])
    elif isinstance(params, pd.DataFrame):
        columns = [(str(name), params.iloc[:, i]) for i, name in enumerate(params.columns)]
        params = _table_of(columns)
    elif isinstance(params, list) and all(isinstance(row, dict) for row in params):
        names = dict.fromkeys(name for row in params for name in row)
        if params and not names:
            raise DataError(
                "the rows of params are empty",
                code="PS-DATA-012",
                remedy="give each row the parameters of the query, or a qid if it has none",
            )
        params = _table_of([(str(name), [row.get(name) for row in params]) for name in names])
    elif not isinstance(params, pa.Table) and hasattr(params, "__arrow_c_stream__"):
        params = read_stream(params)
    if isinstance(params, pa.Table):
        _check_once(params.column_names)
        return params
    raise DataError(
        f"cannot read parameters from a {type(params).__name__}",
        remedy="pass a pyarrow Table, a pandas or Polars DataFrame or a list of dicts",
    )


def _table_of(columns: list[tuple[str, Any]]) -> pa.Table:
    """Columns of Python values or of a frame as a table."""
    arrays = []
    for name, values in columns:
        try:
            arrays.append(pa.array(values, from_pandas=isinstance(values, pd.Series)))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"column {name} of params cannot be read: {error}",
                remedy="give all its values one type",
            ) from error
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def _check_once(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(
                f"column {name} of params is given twice", code="PS-DATA-002", remedy="remove one"
            )


def given_names(table: pa.Table) -> Names | None:
    """The query names in column `qid`; None without that column."""
    return Names(_given_names(table.column("qid"))) if "qid" in table.column_names else None


def param_rows(compiled: Compiled, table: pa.Table, strings: StringTable) -> I64:
    """The rows of Q for a table of parameters."""
    explicit = Schema(compiled.params.fields[: compiled.explicit])
    n = table.num_rows
    rows = np.zeros((1 + len(compiled.params), n), np.int64)
    if len(explicit) and n:
        part = _typed(table, explicit)
        rows[: 1 + len(explicit)] = to_rows(part, explicit, strings)
        _measure(rows, compiled)
    fixed = literal_rows(compiled.literals, strings)
    rows[1 + len(explicit) :] = fixed[1:]
    rows[0] |= fixed[0] << len(explicit)
    return rows


def _measure(rows: I64, compiled: Compiled) -> None:
    """Convert window lengths from their own units to units of event time."""
    for at, unit in enumerate(compiled.units):
        if not unit:
            continue
        null = (rows[0] >> at) & 1 != 0
        bad = np.flatnonzero(null | (rows[1 + at] < 1) | (rows[1 + at] > LONGEST // unit))
        if bad.shape[0]:
            value = "NULL" if null[bad[0]] else rows[1 + at, bad[0]]
            raise DataError(
                f"parameter ${compiled.params[at].name} is {value}: not a valid window length",
                code="PS-DATA-011",
                remedy=f"give a number from 1 to {LONGEST // unit}",
            )
        rows[1 + at] *= unit


def _typed(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """Cast the parameter columns to their types; raise an error if a value would change."""
    arrays = []
    for field in schema:
        if field.name not in table.column_names:
            raise DataError(
                f"params has no column for parameter ${field.name}",
                code="PS-DATA-012",
                remedy=f"params needs the columns {', '.join(schema.names)}",
            )
        given = table.column(field.name)
        array, bad = convert(given, field, table.num_rows)
        if bad is not None and bad.any():
            value = given[int(np.flatnonzero(bad)[0])].as_py()
            raise DataError(
                f"parameter ${field.name} has the wrong type: {value!r} is not a {field.type}",
                code="PS-DATA-013",
                remedy=f"give a {field.type}, or write CAST(${field.name} AS type) in the query",
            )
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _given_names(column: pa.ChunkedArray) -> list[str]:
    """The names in column `qid`; raises an error if one is missing."""
    if column.null_count:
        raise DataError(
            "a row of params has NULL as its qid",
            code="PS-DATA-007",
            remedy="give every row a qid, or leave the column out",
        )
    return [str(v) for v in column.to_pylist()]
