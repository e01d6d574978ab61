"""Every function against DuckDB on random rows with NULL, NaN and extremes, and its errors."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock import types as t
from penstock.arrays import I64
from penstock.errors import PlanError
from penstock.expressions import numbers
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import FUNCTIONS, EvaluationError, compile_expr
from penstock.logical import functions
from penstock.logical.expr import Call, Column, Expr, Literal, Param
from penstock.logical.udf import Udf
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.convert import column_array, to_rows
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, SqlType

MONEY = t.decimal(10, 2)
FINE = t.decimal(18, 4)
SCHEMA = Schema(
    (
        Field("a", BIGINT), Field("b", BIGINT), Field("big", BIGINT), Field("i", t.INT),
        Field("d", DOUBLE), Field("e", DOUBLE), Field("f", t.FLOAT), Field("m", MONEY),
        Field("k", FINE), Field("s", STRING), Field("u", STRING), Field("p", BOOLEAN),
        Field("q", BOOLEAN), Field("x", DATE), Field("ts", TIMESTAMP), Field("ts2", TIMESTAMP),
    )
)  # fmt: skip
INDEX = {f.name: j for j, f in enumerate(SCHEMA)}
N = 600
TEXTS = [
    "", "a", "abc", "ABC", "  x ", "a%b_c", "back\\slash", "éa😀b", "naïve", "aXbXc", "\tq\n", "b",
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.5, -2.5, 0.5, 2.5, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf, 1e15,
]  # fmt: skip
BIGS = [0, 1, -1, 2**63 - 1, -(2**63), 2**31, 2**53 + 1]


def col(name: str) -> Column:
    return Column(SCHEMA[INDEX[name]].type, INDEX[name], name)


def lit(value: object, type_: SqlType | None = None) -> Literal:
    kinds = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING}
    return Literal(type_ or kinds[type(value)], value)  # type: ignore[arg-type]


def call(fn: str, type_: SqlType, *args: object) -> Call:
    exprs = (a if isinstance(a, Expr) else col(a) if isinstance(a, str) else lit(a) for a in args)
    return Call(type_, fn, tuple(exprs))


def _values(rng: random.Random) -> list[Callable[[], object]]:
    day = dt.date(1970, 1, 1)

    def number() -> float:
        return rng.choice(FLOATS) if rng.random() < 0.5 else rng.uniform(-100, 100)

    def stamp() -> object:
        far = rng.choice([10**12, 3 * 10**15])
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=rng.randrange(-far, far))

    return [
        lambda: rng.randrange(-50, 50),
        lambda: rng.randrange(-5, 6),
        lambda: rng.choice(BIGS),
        lambda: rng.choice([2**31 - 1, -(2**31), rng.randrange(-9, 9)]),
        number,
        number,
        lambda: float(np.float32(rng.choice([*FLOATS[:6], math.nan, rng.uniform(-9, 9)]))),
        lambda: Decimal(rng.choice([rng.randrange(-300, 300), 9999999999])).scaleb(-2),
        lambda: Decimal(rng.randrange(-90000, 90000)).scaleb(-4),
        lambda: rng.choice(TEXTS),
        lambda: rng.choice(TEXTS),
        lambda: rng.random() < 0.5,
        lambda: rng.random() < 0.5,
        lambda: day + dt.timedelta(days=rng.randrange(-40000, 40000)),
        stamp,
        stamp,
    ]


class World:
    """Random rows, as a matrix for us and as a table for DuckDB."""

    def __init__(self) -> None:
        rng = random.Random(11)
        schema = SCHEMA.arrow()
        arrays = []
        for make, field in zip(_values(rng), schema, strict=True):
            values = [None if rng.random() < 0.15 else make() for _ in range(N)]
            arrays.append(pa.array(values, field.type))
        self.batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        self.ctx = Context(StringTable(Arena().scope("s")), {}, Failures())
        self.rows = to_rows(self.batch, SCHEMA, self.ctx.strings)
        self.connection = duckdb.connect(config={"threads": 1})
        table = pa.Table.from_batches([self.batch]).append_column("id", pa.array(range(N)))
        self.connection.register("rows", table)

    def ours(self, expr: Expr, params: I64 | None = None) -> list[object]:
        result = compile_expr(expr, self.ctx)(self.rows, params)
        if result.null is not None:
            assert (result.data[result.null] == 0).all()
        return column_array(result.data, result.null, expr.type, self.ctx.strings).to_pylist()

    def theirs(self, sql: str) -> list[object]:
        relation = self.connection.sql(f"SELECT {sql} AS r FROM rows ORDER BY id")
        return relation.to_arrow_table().column(0).to_pylist()


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and b is not None:
        b = float(b)  # type: ignore[arg-type]
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12)
    return a == b and (a is None) == (b is None)


COMPARED = {
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
PAIRS = [("a", "b"), ("d", "e"), ("s", "u"), ("m", "m"), ("ts", "ts2"), ("p", "q"), ("x", "x")]
COMPARISONS = [
    *((call(fn, BOOLEAN, x, y), f"{x} {op} {y}") for fn, op in COMPARED.items() for x, y in PAIRS),
    *((call(fn, BOOLEAN, "a", 3), f"a {op} 3") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "d", 1.5), f"d {op} 1.5::DOUBLE") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "d", math.nan), f"d {op} 'nan'::DOUBLE") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, lit(1.5), "d"), f"1.5::DOUBLE {op} d") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "s", lit("b")), f"s {op} 'b'") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "s", lit("new")), f"s {op} 'new'") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "a", "d"), f"a {op} d") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "m", "k"), f"m {op} k") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, "x", "ts"), f"x {op} ts") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, call("upper", STRING, "s"), "u"), f"upper(s) {op} u")
      for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, call("upper", STRING, "s"), call("lower", STRING, "u")),
       f"upper(s) {op} lower(u)") for fn, op in COMPARED.items()),
    *((call(fn, BOOLEAN, call("upper", STRING, "s"), lit("ABC")), f"upper(s) {op} 'ABC'")
      for fn, op in COMPARED.items()),
]  # fmt: skip
NUMBERS = [
    (call("add", BIGINT, "a", "b"), "a + b"),
    (call("sub", BIGINT, "a", 7), "a - 7"),
    (call("mul", BIGINT, "a", "b"), "a * b"),
    (call("add", DOUBLE, "d", "e"), "d + e"),
    (call("sub", DOUBLE, "d", "e"), "d - e"),
    (call("mul", DOUBLE, "d", "a"), "d * a"),
    (call("add", t.FLOAT, "f", "f"), "f + f"),
    (call("mul", t.FLOAT, "f", lit(0.1, t.FLOAT)), "f * 0.1::FLOAT"),
    (call("add", t.decimal(12, 4), lit(12345, FINE), "k"), "1.2345::DECIMAL(18,4) + k"),
    (call("sub", t.decimal(18, 4), "k", "m"), "k - m"),
    (call("mul", t.decimal(18, 6), "k", lit(125, MONEY)), "k * 1.25::DECIMAL(10,2)"),
    (call("div", DOUBLE, "a", "b"), "a / nullif(b, 0)"),
    (call("div", DOUBLE, "d", "e"), "d / nullif(e, 0)"),
    (call("div", BIGINT, "a", "b"), "a // nullif(b, 0)"),
    (call("mod", BIGINT, "a", "b"), "a % nullif(b, 0)"),
    (call("mod", BIGINT, "big", -1), "CASE WHEN big IS NOT NULL THEN 0 END"),
    (call("mod", DOUBLE, "d", "b"), "d % nullif(b, 0)"),
    (call("mod", FINE, "k", lit(125, MONEY)), "k % 1.25::DECIMAL(10,2)"),
    (call("neg", BIGINT, "a"), "-a"),
    (call("neg", DOUBLE, "d"), "-d"),
    (call("neg", MONEY, "m"), "-m"),
    (call("abs", BIGINT, "a"), "abs(a)"),
    (call("abs", DOUBLE, "d"), "abs(d)"),
    (call("abs", MONEY, "m"), "abs(m)"),
    (call("sign", BIGINT, "big"), "sign(big)::BIGINT"),
    (call("sign", DOUBLE, "d"), "sign(d)::DOUBLE"),
    (call("sign", DOUBLE, "m"), "sign(m)::DOUBLE"),
    (call("round", DOUBLE, "d"), "round(d)"),
    (call("round", DOUBLE, "d", 1), "round(d, 1)"),
    (call("round", DOUBLE, "d", -1), "round(d, -1)"),
    (call("round", BIGINT, "a"), "a"),
    (call("round", BIGINT, "a", -1), "round(a, -1)"),
    (call("round", DOUBLE, "m", 1), "round(m, 1)::DOUBLE"),
    (call("round", t.decimal(10, 1), "m", 1), "round(m, 1)"),
    (call("floor", DOUBLE, "d"), "floor(d)"),
    (call("ceil", DOUBLE, "d"), "ceil(d)"),
    (call("floor", DOUBLE, "m"), "floor(m)::DOUBLE"),
    (call("ceil", DOUBLE, "k"), "ceil(k)::DOUBLE"),
    (call("floor", BIGINT, "big"), "big"),
    (call("sqrt", DOUBLE, call("abs", DOUBLE, "d")), "sqrt(abs(d))"),
    (call("ln", DOUBLE, call("abs", BIGINT, call("nullif", BIGINT, "a", 0))),
     "ln(abs(nullif(a, 0)))"),
    (call("exp", DOUBLE, "d"), "exp(d)"),
    (call("power", DOUBLE, "b", "a"), "power(b, a)"),
    (call("power", DOUBLE, "d", 2.0), "power(d, 2)"),
    (call("is_nan", BOOLEAN, "d"), "isnan(d)"),
    *((call(fn, DOUBLE, "d", "e", 1.0), f"{fn}(d, e, 1.0::DOUBLE)")
      for fn in ("greatest", "least")),
    *((call(fn, STRING, "s", "u"), f"{fn}(s, u)") for fn in ("greatest", "least")),
    *((call(fn, BIGINT, "a", "b", lit(None, BIGINT)), f"{fn}(a, b, NULL)")
      for fn in ("greatest", "least")),
]  # fmt: skip
LOGIC = [
    (call("and", BOOLEAN, "p", "q"), "p AND q"),
    (call("or", BOOLEAN, "p", "q"), "p OR q"),
    (call("and", BOOLEAN, "p", lit(None, BOOLEAN)), "p AND NULL"),
    (call("or", BOOLEAN, "p", lit(None, BOOLEAN)), "p OR NULL"),
    (call("and", BOOLEAN, "p", True), "p AND true"),
    (call("not", BOOLEAN, "p"), "NOT p"),
    (call("is_null", BOOLEAN, "s"), "s IS NULL"),
    (call("is_not_null", BOOLEAN, "d"), "d IS NOT NULL"),
    (call("is_null", BOOLEAN, lit(1)), "false"),
    (call("coalesce", BIGINT, "a", "b", 0), "coalesce(a, b, 0)"),
    (call("coalesce", STRING, "s", lit("none")), "coalesce(s, 'none')"),
    (call("nullif", BIGINT, "a", "b"), "nullif(a, b)"),
    (call("nullif", DOUBLE, "d", "e"), "nullif(d, e)"),
    (call("nullif", STRING, "s", lit("abc")), "nullif(s, 'abc')"),
    (call("case", BIGINT, "p", "a", "q", "b", 9), "CASE WHEN p THEN a WHEN q THEN b ELSE 9 END"),
    (call("case", STRING, call("gt", BOOLEAN, "a", "b"), "s", lit(None, STRING)),
     "CASE WHEN a > b THEN s END"),
    (call("case", STRING, "p", lit("yes"), "u"), "CASE WHEN p THEN 'yes' ELSE u END"),
    (call("in", BOOLEAN, "a", 1, 2, 3), "a IN (1, 2, 3)"),
    (call("in", BOOLEAN, "a", 1, lit(None, BIGINT)), "a IN (1, NULL)"),
    (call("in", BOOLEAN, "s", lit("a"), lit("ABC"), lit("other")), "s IN ('a', 'ABC', 'other')"),
    (call("in", BOOLEAN, call("upper", STRING, "s"), lit("ABC")), "upper(s) IN ('ABC')"),
    (call("in", BOOLEAN, "d", math.nan, 0.0), "d IN ('nan'::DOUBLE, 0)"),
    (call("in", BOOLEAN, "d", 1, 1.5), "d IN (1, 1.5)"),
    (call("in", BOOLEAN, "a", "b", 3), "a IN (b, 3)"),
]  # fmt: skip
TEXT = [
    *((call(fn, STRING, "s"), f"{fn}(s)")
      for fn in ("lower", "upper", "reverse", "trim", "ltrim", "rtrim")),
    (call("length", BIGINT, "s"), "length(s)"),
    *((call("substr", STRING, "s", "b", n), f"substr(s, b, {n})") for n in (-2, 0, 1, 3, 2**31)),
    (call("substr", STRING, "s", "b", "b"), "substr(s, b, b)"),
    (call("substr", STRING, "s", "b"), "substr(s, b)"),
    (call("substr", STRING, lit("hello"), "b", 2), "substr('hello', b, 2)"),
    (call("left", STRING, "s", "b"), "left(s, b)"),
    (call("right", STRING, "s", "b"), "right(s, b)"),
    (call("lpad", STRING, "s", 4, lit("xé")), "lpad(s, 4, 'xé')"),
    (call("rpad", STRING, "s", "b", lit("-")), "rpad(s, b::INT, '-')"),
    (call("rpad", STRING, "s", 5), "rpad(s, 5, ' ')"),
    (call("lpad", STRING, lit("a"), "b", lit("-")), "lpad('a', b::INT, '-')"),
    (call("concat", STRING, "s", lit("-"), "u"), "s || '-' || u"),
    (call("replace", STRING, "s", lit("b"), lit("[]")), "replace(s, 'b', '[]')"),
    (call("replace", STRING, "s", "u", lit("!")), "replace(s, u, '!')"),
    (call("replace", STRING, "s", lit(""), lit("[]")), "replace(s, '', '[]')"),
    *((call(fn, BOOLEAN, "s", "u"), f"{fn}(s, u)")
      for fn in ("starts_with", "ends_with", "contains")),
    *((call(fn, BOOLEAN, "s", lit("a")), f"{fn}(s, 'a')")
      for fn in ("starts_with", "ends_with", "contains")),
    (call("contains", BOOLEAN, lit("abcde"), "u"), "contains('abcde', u)"),
    (call("strpos", BIGINT, "s", lit("b")), "strpos(s, 'b')"),
    (call("strpos", BIGINT, "s", "u"), "strpos(s, u)"),
    *((call(fn, BOOLEAN, "s", lit(p)), f"s {fn.upper()} '{p}'") for fn in ("like", "ilike")
      for p in ("a%", "%b%", "_", "a__%", "%", "", "back\\slash", "%É%", "a.c", "\tq_")),
    (call("like", BOOLEAN, "s", "u"), "s LIKE u"),
]  # fmt: skip
TIMES = [
    *((call(fn, BIGINT, "ts"), f"{fn}(ts)")
      for fn in ("year", "month", "day", "hour", "minute", "second", "dayofweek")),
    *((call(fn, BIGINT, "x"), f"{fn}(x)") for fn in ("year", "month", "day", "dayofweek")),
    (call("hour", BIGINT, "x"), "hour(x::TIMESTAMP)"),
    *((call("date_trunc", TIMESTAMP, lit(u), "ts"), f"date_trunc('{u}', ts)")
      for u in functions.TRUNC_UNITS),
    *((call("date_trunc", TIMESTAMP, lit(u), "x"), f"date_trunc('{u}', x)::TIMESTAMP")
      for u in functions.TRUNC_UNITS),
    (call("date_trunc", DATE, lit("month"), "x"), "date_trunc('month', x)::DATE"),
    (call("epoch", DOUBLE, "ts"), "epoch(ts)"),
    (call("epoch", DOUBLE, "x"), "epoch(x)"),
    (call("sub", BIGINT, "ts", "ts2"), "epoch_us(ts) - epoch_us(ts2)"),
    (call("add", TIMESTAMP, "ts", lit(1_500_000, t.INTERVAL)), "ts + INTERVAL 1500 MILLISECONDS"),
    (call("sub", TIMESTAMP, "ts", lit(86_400_000_000, t.INTERVAL)), "ts - INTERVAL 1 DAY"),
    (call("add", TIMESTAMP, "x", lit(3_600_000_000, t.INTERVAL)), "x + INTERVAL 1 HOUR"),
    (call("add", DATE, "x", "a"), "x + a::INT"),
    (call("sub", BIGINT, "x", "x"), "x - x"),
]  # fmt: skip
SAFE_INT = call("cast", STRING, call("round", BIGINT, "a"))
CASTS = [
    *((call("cast", STRING, c), f"{c}::VARCHAR")
      for c in ("a", "big", "m", "k", "p", "x", "ts", "i")),
    (call("cast", STRING, "d"), "(d + 0)::VARCHAR"),
    (call("cast", STRING, "f"), "(f + 0::FLOAT)::VARCHAR"),
    (call("cast", BIGINT, SAFE_INT), "a"),
    (call("cast", t.INT, SAFE_INT), "a::INT"),
    (call("cast", BIGINT, call("cast", STRING, "big")), "big"),
    (call("try_cast", BIGINT, "s"), "TRY_CAST(s AS BIGINT)"),
    (call("try_cast", t.INT, "big"), "TRY_CAST(big AS INT)"),
    (call("try_cast", t.INT, "d"), "TRY_CAST(d AS INT)"),
    (call("try_cast", MONEY, "big"), "TRY_CAST(big AS DECIMAL(10,2))"),
    (call("try_cast", STRING, "a"), "a::VARCHAR"),
    (call("cast", BIGINT, call("cast", STRING, "k")), "k::VARCHAR::BIGINT"),
    (call("cast", DOUBLE, call("cast", STRING, "d")), "d"),
    (call("cast", MONEY, call("cast", STRING, "k")), "k::VARCHAR::DECIMAL(10,2)"),
    (call("cast", BOOLEAN, call("cast", STRING, "p")), "p"),
    (call("cast", DATE, call("cast", STRING, "x")), "x"),
    (call("cast", DATE, call("cast", STRING, "ts")), "ts::DATE"),
    (call("cast", TIMESTAMP, call("cast", STRING, "ts")), "ts"),
    (call("cast", TIMESTAMP, call("cast", STRING, "x")), "x::TIMESTAMP"),
    (call("cast", TIMESTAMP, "x"), "x::TIMESTAMP"),
    (call("cast", DATE, "ts"), "ts::DATE"),
    (call("cast", BIGINT, "m"), "m::BIGINT"),
    (call("cast", BIGINT, "k"), "k::BIGINT"),
    (call("cast", BIGINT, call("div", DOUBLE, "a", 2.0)), "(a / 2)::BIGINT"),
    (call("cast", FINE, "m"), "m::DECIMAL(18,4)"),
    (call("cast", MONEY, "k"), "k::DECIMAL(10,2)"),
    (call("cast", MONEY, "a"), "a::DECIMAL(10,2)"),
    (call("cast", MONEY, call("div", DOUBLE, "a", 8.0)), "(a / 8)::DECIMAL(10,2)"),
    (call("cast", DOUBLE, "m"), "m::DOUBLE"),
    (call("cast", t.FLOAT, call("div", DOUBLE, "a", 3.0)), "(a / 3)::FLOAT"),
    (call("cast", DOUBLE, "f"), "f::DOUBLE"),
    (call("cast", BOOLEAN, "a"), "a::BOOLEAN"),
    (call("cast", BIGINT, "p"), "p::BIGINT"),
    (call("cast", DOUBLE, "p"), "p::DOUBLE"),
    (call("cast", BIGINT, lit(None, t.NULL)), "NULL::BIGINT"),
    (call("cast", STRING, lit(None, t.NULL)), "NULL::VARCHAR"),
]  # fmt: skip
CASES = [
    (
        call("magnitude", BIGINT, "f"),
        "CASE WHEN f = 0 THEN 16 WHEN isnan(f) OR isinf(f) THEN 32"
        " ELSE floor((floor(log2(abs(f::DOUBLE))) + 1055) / 64)::BIGINT END",
    ),
    *COMPARISONS, *NUMBERS, *LOGIC, *TEXT, *TIMES, *CASTS,
]  # fmt: skip


@pytest.mark.parametrize(("expr", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_as_duckdb(world: World, expr: Expr, sql: str) -> None:
    ours, theirs = world.ours(expr), world.theirs(sql)
    wrong = [(i, a, b) for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not same(a, b)]
    assert not wrong, (sql, [(world.batch.slice(i, 1).to_pylist(), a, b) for i, a, b in wrong[:3]])


def test_every_function_is_there_and_tested() -> None:
    assert set(functions.FUNCTIONS) <= FUNCTIONS
    tested = {node.fn for expr, _ in CASES for node in [expr] if isinstance(node, Call)}
    assert tested >= set(FUNCTIONS)


# ---- masks, parameters, constants ------------------------------------------------------
@pytest.mark.parametrize(("expr", "sql"), [*COMPARISONS[:40:3], *LOGIC[:9]], ids=str)
def test_mask_is_true_only(world: World, expr: Expr, sql: str) -> None:
    mask = compile_expr(expr, world.ctx).mask(world.rows)
    assert mask.tolist() == world.theirs(f"coalesce({sql}, false)")


def test_params_are_per_row(world: World) -> None:
    params = np.zeros((3, N), np.int64)
    params[0, ::7] = 1
    params[1] = np.where(params[0], 0, np.arange(N) % 9 - 4)
    params[2] = world.rows[1 + INDEX["u"]]
    limit, text = Param(BIGINT, 0), Param(STRING, 1)
    a = world.batch.column(INDEX["a"]).to_pylist()
    mask = compile_expr(call("gt", BOOLEAN, "a", limit), world.ctx).mask(world.rows, params)
    assert mask.tolist() == [
        v is not None and i % 7 != 0 and v > i % 9 - 4 for i, v in enumerate(a)
    ]
    same_text = compile_expr(call("eq", BOOLEAN, text, "u"), world.ctx).mask(world.rows, params)
    assert same_text.tolist() == [v is not None for v in world.batch.column(INDEX["u"]).to_pylist()]
    with pytest.raises(PlanError):
        compile_expr(call("gt", BOOLEAN, "a", limit), world.ctx).mask(world.rows)


def test_constants_fill_all_rows(world: World) -> None:
    assert world.ours(lit("x")) == ["x"] * N
    assert world.ours(lit(None, DOUBLE)) == [None] * N
    assert world.ours(call("add", BIGINT, 1, 2)) == [3] * N
    assert compile_expr(lit(True), world.ctx).mask(world.rows).all()


def test_no_rows_and_one_row(world: World) -> None:
    for expr, _ in CASES:
        compiled = compile_expr(expr, world.ctx)
        assert compiled(world.rows[:, :0]).data.shape == (0,)
        many = compiled(world.rows)
        for i in (0, 5):
            one = compiled(np.ascontiguousarray(world.rows[:, i : i + 1]))
            assert one.data.shape == (1,)
            assert one.data[0] == many.data[i]


def test_results_are_canonical(world: World) -> None:
    minus_zero = compile_expr(call("mul", DOUBLE, lit(-1.0), lit(0.0)), world.ctx)(world.rows)
    assert not minus_zero.data.any()
    zero = compile_expr(call("sub", DOUBLE, lit(math.inf), lit(math.inf)), world.ctx)(world.rows)
    assert (zero.data == np.array([math.nan]).view(np.int64)).all()


# ---- errors ----------------------------------------------------------------------------
def bad_rows(world: World, expr: Expr) -> list[int]:
    with pytest.raises(EvaluationError) as caught:
        compile_expr(expr, world.ctx)(world.rows)
    assert caught.value.reason
    good = np.ascontiguousarray(world.rows[:, ~caught.value.bad])
    compile_expr(expr, world.ctx)(good)
    return [int(i) for i in np.flatnonzero(caught.value.bad)]


def where(world: World, sql: str) -> list[int]:
    return [i for i, v in enumerate(world.theirs(sql)) if v]


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("expr", "sql"),
    [
        (call("add", BIGINT, "big", "a"), f"big::HUGEINT + a NOT BETWEEN {LOW} AND {HIGH}"),
        (call("sub", BIGINT, "a", "big"), f"a - big::HUGEINT NOT BETWEEN {LOW} AND {HIGH}"),
        (call("mul", BIGINT, "big", "b"), f"big::HUGEINT * b NOT BETWEEN {LOW} AND {HIGH}"),
        (call("mul", BIGINT, "b", "big"), f"big::HUGEINT * b NOT BETWEEN {LOW} AND {HIGH}"),
        (call("neg", BIGINT, "big"), f"big = {LOW}"),
        (call("abs", BIGINT, "big"), f"big = {LOW}"),
        (call("div", BIGINT, "big", "b"), f"big = {LOW} AND b = -1"),
        (call("add", MONEY, "m", lit(10**9, MONEY)), "m > 99000000"),
        (call("sqrt", DOUBLE, "d"), "d < 0"),
        (call("ln", DOUBLE, "d"), "d <= 0"),
        (call("cast", t.INT, "big"), "big NOT BETWEEN -2147483648 AND 2147483647"),
        (call("cast", BIGINT, "d"), "isnan(d) OR abs(d) > 9e18"),
        (call("cast", t.FLOAT, "d"), "abs(d) = 1e300"),
        (call("cast", t.decimal(2, 1), "a"), "abs(a) >= 10"),
        (call("cast", BIGINT, "s"), "s IS NOT NULL"),
        (call("cast", DOUBLE, call("concat", STRING, "s", lit("1"))), "s <> ''"),
        (call("cast", BOOLEAN, "s"), "s IS NOT NULL"),
        (call("cast", TIMESTAMP, "s"), "s IS NOT NULL"),
        (call("lpad", STRING, "s", 3, lit("")), "length(s) < 3"),
    ],
    ids=str,
)  # fmt: skip
def test_errors_name_exactly_the_bad_rows(world: World, expr: Expr, sql: str) -> None:
    assert bad_rows(world, expr) == where(world, sql)


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (numbers.add_checked, lambda a, b: a + b),
        (numbers.sub_checked, lambda a, b: a - b),
        (numbers.mul_checked, lambda a, b: a * b),
    ],
)
def test_overflow_is_found_exactly(
    function: Callable[[I64, I64], numbers.Checked], exact: Callable[[int, int], int]
) -> None:
    rng = random.Random(5)
    pool = [0, 1, -1, 2, -2, 3, LOW, LOW + 1, HIGH, HIGH - 1, 2**31, 2**32, 2**62, -(2**62)]
    pool += [3037000499, 3037000500, -3037000500, *(rng.randrange(LOW, HIGH) for _ in range(40))]
    left = np.repeat(np.array(pool), len(pool))
    right = np.tile(np.array(pool), len(pool))
    values, bad = function(left, right)
    assert bad is not None
    for a, b, r, wrong in zip(*(v.tolist() for v in (left, right, values, bad)), strict=True):
        true = exact(a, b)
        assert wrong == (not LOW <= true <= HIGH), (a, b)
        assert wrong or r == true
    assert function(np.arange(5), np.array([3]))[1] is None
    assert function(np.array([3]), np.arange(5))[0].tolist() == [exact(3, i) for i in range(5)]


def test_what_is_not_needed_cannot_fail(world: World) -> None:
    root = call("gt", BOOLEAN, call("sqrt", DOUBLE, "d"), 1.0)
    fine = call("ge", BOOLEAN, "d", 0.0)
    negative = call("not", BOOLEAN, fine)
    want = world.theirs("d >= 0 AND sqrt(abs(d)) > 1")
    assert world.ours(call("and", BOOLEAN, fine, root)) == want
    assert world.ours(call("and", BOOLEAN, root, fine)) == want
    want = world.theirs("d < 0 OR sqrt(abs(d)) > 1")
    assert world.ours(call("or", BOOLEAN, root, negative)) == want
    guarded = call("case", DOUBLE, fine, call("sqrt", DOUBLE, "d"), -1.0)
    assert world.ours(guarded) == pytest.approx(
        world.theirs("CASE WHEN d >= 0 THEN sqrt(abs(d)) ELSE -1 END"), nan_ok=True
    )
    first = call("coalesce", BOOLEAN, fine, root)
    assert world.ours(first) == world.theirs("d >= 0")
    assert bad_rows(world, call("or", BOOLEAN, root, fine)) == where(world, "d < 0")
    assert bad_rows(world, call("is_null", BOOLEAN, root)) == where(world, "d < 0")


@pytest.mark.parametrize(
    ("text", "type_", "want"),
    [
        (" 12 ", BIGINT, 12), ("+5", BIGINT, 5), ("3.7", BIGINT, 4), ("1e3", t.INT, 1000),
        ("9223372036854775807", BIGINT, HIGH), ("-9223372036854775808", BIGINT, LOW),
        (" 1.5", DOUBLE, 1.5), ("inf", DOUBLE, math.inf), ("YES", BOOLEAN, True),
        ("0", BOOLEAN, False), ("1.239", MONEY, Decimal("1.24")),
        ("-1.235", MONEY, Decimal("-1.24")),
        ("2020-01-05T10:00:00Z", TIMESTAMP, dt.datetime(2020, 1, 5, 10)),
        ("2020-01-05 10:00", TIMESTAMP, dt.datetime(2020, 1, 5, 10)),
        ("2020-01-05 10:00:00", DATE, dt.date(2020, 1, 5)),
    ],
)  # fmt: skip
def test_reading_text(world: World, text: str, type_: SqlType, want: object) -> None:
    assert world.ours(call("cast", type_, lit(text)))[0] == want


@pytest.mark.parametrize(
    ("text", "type_"),
    [("", BIGINT), ("-", BIGINT), ("9223372036854775808", BIGINT), ("2147483648", t.INT),
     ("on", BOOLEAN), ("1e9", MONEY), ("2020-13-01", DATE), ("2020-01-05 25:00:00", TIMESTAMP)],
)  # fmt: skip
def test_bad_text_is_an_error_of_every_row(world: World, text: str, type_: SqlType) -> None:
    assert bad_rows_all(world, call("cast", type_, lit(text)))


def bad_rows_all(world: World, expr: Expr) -> bool:
    with pytest.raises(EvaluationError) as caught:
        compile_expr(expr, world.ctx)(world.rows)
    return bool(caught.value.bad.all()) and caught.value.bad.shape == (N,)


# ---- user-defined functions ------------------------------------------------------------
def with_udf(world: World, function: Callable[..., object], *types: SqlType) -> Call:
    world.ctx.udfs["f"] = Udf("f", function, types[:-1], types[-1])  # type: ignore[arg-type]
    return call("udf:f", types[-1], *("a", "s")[: len(types) - 1])


def test_udf(world: World) -> None:
    def twice(a: pa.Array) -> pa.Array:
        return pa.array([None if v is None else 2 * v for v in a.to_pylist()], pa.int64())

    assert world.ours(with_udf(world, twice, BIGINT, BIGINT)) == world.theirs("2 * a")

    def glue(a: pa.Array, s: pa.Array) -> pa.Array:
        pairs = zip(a.to_pylist(), s.to_pylist(), strict=True)
        return pa.chunked_array([[f"{x}{y}" for x, y in pairs]])

    world.ctx.udfs["g"] = Udf("g", glue, (BIGINT, STRING), STRING)  # type: ignore[arg-type]
    got = world.ours(call("udf:g", STRING, 7, "s"))
    assert got == [f"7{s}" for s in world.batch.column(INDEX["s"]).to_pylist()]


def test_udf_that_raises_fails_its_rows_only(world: World) -> None:
    def picky(a: pa.Array) -> pa.Array:
        if any(v is not None and v > 40 for v in a.to_pylist()):
            raise ValueError("too much")
        return a

    expr = with_udf(world, picky, BIGINT, BIGINT)
    assert bad_rows(world, expr) == where(world, "a > 40")
    both = call("udf:f", BIGINT, call("add", BIGINT, "big", call("mul", BIGINT, "a", 0)))
    assert len(bad_rows(world, both)) == len(where(world, "big > 40 AND a IS NOT NULL"))
    nested = call("udf:f", BIGINT, call("neg", BIGINT, "big"))
    assert bad_rows(world, nested) == where(world, f"big = {LOW} OR -nullif(big, {LOW}) > 40")


@pytest.mark.parametrize(
    "function",
    [lambda a: a[:-1], lambda a: a.cast(pa.string()), lambda a: a.to_pylist(), lambda a: None],
)
def test_udf_that_breaks_its_word_fails_every_row(
    world: World, function: Callable[[pa.Array], object]
) -> None:
    assert bad_rows_all(world, with_udf(world, function, BIGINT, BIGINT))


def test_unknown_functions_are_refused(world: World) -> None:
    for fn in ("udf:none", "nothing"):
        with pytest.raises(PlanError):
            compile_expr(call(fn, BIGINT, "a"), world.ctx)
