"""Calls of user-defined functions: whole Arrow arrays in, one of equal length out."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.arrays import Bool
from penstock.expressions.arithmetic import coerce
from penstock.expressions.guard import WrongResult, by_halves
from penstock.expressions.vec import Vec, errors_of, from_arrow
from penstock.logical.udf import Udf
from penstock.state.strings import StringTable
from penstock.types import arrow_type


def call_udf(udf: Udf, args: list[Vec], n: int, strings: StringTable) -> Vec:
    """The result for n rows; the function does not get rows with failed arguments."""
    error, reason = errors_of(args)
    arrays = [_full(coerce(a, t), n) for a, t in zip(args, udf.arguments, strict=True)]
    if error is None:
        array, bad, why = _run(udf, arrays, n)
    else:
        error = np.broadcast_to(error, n)
        array, bad, why = _run_some(udf, arrays, error)
    result = from_arrow(udf.result, array, strings)
    result.error, result.reason = bad, reason or why
    return result


def _full(vec: Vec, n: int) -> pa.Array:
    return vec.arrow if vec.length == n else pa.repeat(vec.arrow[0], n)


def _run_some(udf: Udf, arrays: list[pa.Array], error: Bool) -> tuple[pa.Array, Bool, str]:
    """`_run` on the rows not in error; the others are bad from the start."""
    good = np.flatnonzero(~error)
    array, bad, why = _run(udf, [a.take(pa.array(good)) for a in arrays], good.shape[0])
    place = np.zeros(error.shape[0], np.int64)
    place[good] = np.arange(good.shape[0])
    worse = error.copy()
    if bad is not None:
        worse[good] = bad
    return array.take(pa.array(place, mask=error)), worse, why


def _run(udf: Udf, arrays: list[pa.Array], n: int) -> tuple[pa.Array, Bool | None, str]:
    try:
        array, bad, why = by_halves(_runner(udf, arrays), n, udf.result)
    except WrongResult as wrong:
        array, bad, why = pa.nulls(n, arrow_type(udf.result)), np.ones(n, np.bool_), str(wrong)
    return array, bad, f"{udf.spelled}: {why}"


def _runner(udf: Udf, arrays: list[pa.Array]) -> Callable[[int, int], pa.Array]:
    want = arrow_type(udf.result)

    def run(begin: int, end: int) -> pa.Array:
        result = _within(udf, [a.slice(begin, end - begin) for a in arrays])
        return _checked(result, end - begin, want)

    return run


def _within(udf: Udf, arguments: list[pa.Array]) -> object:
    """Call the function on a thread; abandon the thread if it does not return in time."""
    outcome: list[object] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            outcome.append(udf.function(*arguments))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=call, daemon=True, name=f"udf-{udf.spelled}")
    thread.start()
    thread.join(udf.timeout_s)
    if failure:
        raise _caught(failure[0])
    if not outcome:
        raise WrongResult(f"did not return within {udf.timeout_s:g} s")
    return outcome[0]


def _caught(error: BaseException) -> Exception:
    """The error of a function; even SystemExit does not end the process."""
    if isinstance(error, Exception):
        return error
    return WrongResult(f"raised {type(error).__name__}")


def _checked(result: object, length: int, want: pa.DataType) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        raise WrongResult(f"returned {type(result).__name__}, not a pyarrow Array")
    if len(result) != length:
        raise WrongResult(f"returned {len(result)} values for {length} rows")
    if result.type == want:
        return result
    if pa.types.is_null(result.type) or _family(result.type) == _family(want):
        return result.cast(want)
    raise WrongResult(f"returned {result.type} where {want} is declared")


def _family(type_: pa.DataType) -> str:
    for name in ("integer", "floating", "decimal", "timestamp", "date"):
        if getattr(pa.types, f"is_{name}")(type_):
            return name
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    return "text" if text else str(type_)
