"""Binding of function calls against the function table and the catalog's UDFs."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.logical.expr import Call, Expr, Literal
from penstock.logical.functions import (
    AGGREGATE_ALIASES,
    AGGREGATES,
    ALIASES,
    FUNCTIONS,
    TRUNC_UNITS,
    VOLATILE,
    Arg,
    Signature,
)
from penstock.logical.udf import Udf
from penstock.sql import coercion
from penstock.sql.arithmetic import arithmetic
from penstock.sql.complain import (
    OTHER,
    misnamed,
    mistyped,
    unsupported,
)
from penstock.sql.windows import WINDOW_CALLS, WINDOW_REMEDY
from penstock.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Kind, SqlType

if TYPE_CHECKING:
    from penstock.sql.expressions import Binder

_PARTS = ("year", "month", "day", "hour", "minute", "second", "dayofweek", "epoch")
_WHOLE = ("round", "floor", "ceil")


def bind_call(
    binder: Binder,
    written: str,
    arguments: list[exp.Expr],
    node: exp.Expr,
    condition: exp.Expr | None = None,
) -> Expr:
    """A call of a function, an aggregate or a UDF; `condition` is an aggregate's FILTER."""
    name = written.lower()
    name = AGGREGATE_ALIASES.get(name, ALIASES.get(name, name))
    if name in AGGREGATES:
        return _aggregate(binder, name, arguments, node, condition)
    if condition is not None:
        raise unsupported(
            node,
            OTHER,
            f"FILTER follows aggregates only, and {written} is not one",
            "use CASE instead",
        )
    if name in VOLATILE:
        raise unsupported(
            node, "PS-SQL-019", f"{written} is not deterministic",
            "use the stream's time column or a table: a replay must give the same answer",
        )  # fmt: skip
    signature = FUNCTIONS.get(name)
    if signature is not None and not signature.operator:
        return _builtin(signature, [binder.partial(a) for a in arguments], node)
    udf = binder.context.catalog.udf(written)
    if udf is None:
        raise _unknown(written, node)
    return _udf(udf, [binder.partial(a) for a in arguments], node)


def _aggregate(
    binder: Binder, name: str, arguments: list[exp.Expr], node: exp.Expr, condition: exp.Expr | None
) -> Expr:
    if binder.aggregates is None:
        raise unsupported(
            node, "PS-SQL-021", f"the aggregate {name} is not allowed here",
            "use aggregates in the select list or in HAVING, and not inside each other",
        )  # fmt: skip
    return binder.aggregates.add(binder.inner(), name, arguments, node, condition)


def _unknown(written: str, node: exp.Expr) -> Exception:
    if written.lower() in WINDOW_CALLS:
        return misnamed(node, "PS-NAME-004", f"there is no function {written}", WINDOW_REMEDY)
    callable_ = [n for n, s in FUNCTIONS.items() if not s.operator]
    close = get_close_matches(written.lower(), [*callable_, *ALIASES, *AGGREGATES], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return misnamed(
        node, "PS-NAME-004", f"there is no function {written}",
        f"{hint}docs/sql.md lists the functions; others can be registered as UDFs",
    )  # fmt: skip


def _builtin(signature: Signature, args: list[Expr], node: exp.Expr) -> Expr:
    if not signature.accepts(len(args)):
        raise mistyped(
            node, f"{signature.name} does not take {len(args)} arguments",
            f"it takes {', '.join(a.value for a in signature.args)}", "PS-TYPE-005",
        )  # fmt: skip
    same = [i for i in range(len(args)) if signature.arg(i) is Arg.SAME]
    for i, unified in zip(same, coercion.unify([args[i] for i in same], node) if same else [],
                          strict=True):  # fmt: skip
        args[i] = unified
    args = [_argument(signature, i, a, node) if i not in same else a for i, a in enumerate(args)]
    return _shaped(signature, args, node)


def _shaped(signature: Signature, args: list[Expr], node: exp.Expr) -> Expr:
    """Special rules of single functions, after the general ones."""
    name = signature.name
    if name == "mod":
        return arithmetic("mod", args[0], args[1], node)
    if name in (*_WHOLE, "sign") and args[0].type.kind is Kind.DECIMAL:
        args[0] = coercion.coerce(args[0], DOUBLE)
    if name in _WHOLE and args[0].type.is_integer and len(args) == 1:
        return args[0]
    if name == "round" and len(args) == 2 and not isinstance(args[1], Literal):
        raise mistyped(node, "the digits of round must be a constant", "write a number")
    if name == "date_trunc":
        args = [_trunc_unit(args[0], node), coercion.coerce(args[1], TIMESTAMP)]
    if name in ("hour", "minute", "second", "epoch"):
        args = [coercion.coerce(args[0], TIMESTAMP)]
    return Call(signature.result([a.type for a in args]), name, tuple(args))


def _trunc_unit(arg: Expr, node: exp.Expr) -> Expr:
    unit = str(arg.value).lower() if isinstance(arg, Literal) else ""
    if unit not in TRUNC_UNITS:
        raise mistyped(
            node, f"date_trunc does not know the unit '{unit}'",
            f"use one of {', '.join(TRUNC_UNITS)}", "PS-TYPE-016",
        )  # fmt: skip
    return Literal(STRING, unit)


def _argument(signature: Signature, position: int, arg: Expr, node: exp.Expr) -> Expr:
    """One argument, cast to what the function takes."""
    kind = signature.arg(position)
    if kind is Arg.LITERAL:
        if not isinstance(arg, Literal) or arg.type != STRING:
            raise mistyped(
                node, f"argument {position + 1} of {signature.name} must be a string constant",
                "write it in quotes", "PS-TYPE-010",
            )  # fmt: skip
        return arg
    to = _target(kind, arg)
    if to is None:
        raise mistyped(
            node,
            f"argument {position + 1} of {signature.name} is {arg.type}, not {kind.value}",
            f"CAST it to {kind.value}",
        )
    return coercion.coerce(arg, to)


def _target(kind: Arg, arg: Expr) -> SqlType | None:
    """The type that an argument is cast to; None if it does not fit."""
    type_ = arg.type
    free = type_.kind is Kind.NULL  # NULL, or a parameter without a type yet
    if kind is Arg.ANY:
        return type_
    if kind is Arg.STRING:
        return STRING if free or type_.is_string else None
    if kind is Arg.INTEGER:
        return BIGINT if free or type_.is_integer else None
    if kind is Arg.REAL:
        return DOUBLE if free or type_.is_numeric else None
    if kind is Arg.NUMBER:
        return DOUBLE if free else coercion.computing_type(type_) if type_.is_numeric else None
    if kind is Arg.TIME:
        return TIMESTAMP if free else type_ if type_.kind in (Kind.DATE, Kind.TIMESTAMP) else None
    return None


def _udf(udf: Udf, args: list[Expr], node: exp.Expr) -> Expr:
    if len(args) != len(udf.arguments):
        raise mistyped(
            node, f"{udf.spelled} takes {len(udf.arguments)} arguments, not {len(args)}",
            f"it takes ({', '.join(map(str, udf.arguments))})", "PS-TYPE-005",
        )  # fmt: skip
    cast = tuple(_widened(a, t, node) for a, t in zip(args, udf.arguments, strict=True))
    return Call(udf.result, f"udf:{udf.name}", cast)


def _widened(arg: Expr, to: SqlType, node: exp.Expr) -> Expr:
    if not isinstance(arg, coercion.FreeParam):
        common = coercion.common_type(arg.type, to)
        if common is None or (common != to and not (arg.type.is_numeric and to.is_numeric)):
            return coercion.cast(arg, to, node)
    return coercion.coerce(arg, to)


def bind_extract(binder: Binder, node: exp.Extract) -> Expr:
    """EXTRACT(part FROM time)."""
    part = node.name.lower()
    part = {"dow": "dayofweek", "years": "year"}.get(part, part)
    if part not in _PARTS:
        raise mistyped(
            node, f"EXTRACT does not know {part}", f"use one of {', '.join(_PARTS)}",
            "PS-TYPE-016",
        )  # fmt: skip
    return bind_call(binder, part, [node.expression], node)
