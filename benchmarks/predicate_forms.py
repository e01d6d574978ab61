"""predicate_forms: rows against up to 100,000 queries with lists, ORs, patterns (CACQ §3.2.7).

Each form is one template; about as many queries match a row however many there are. Beside it
the same predicate is evaluated on all pairs of a row and a query, by the engine's own vectorised
expressions, over fewer rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.pipeline import Cost, Result, at_least, plain, take_turns, timed
from penstock.arrays import I64
from penstock.expressions.context import Context, Failures
from penstock.expressions.evaluate import compile_expr
from penstock.indexes.contract import AttributeRows
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.indexes.template.template_index import TemplateIndex
from penstock.logical.expr import Call, Column, Expr, Param
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena
from penstock.state.strings import StringTable
from penstock.types import BIGINT, BOOLEAN, STRING

ROWS, SOME_ROWS = 100_000, 1_000
QUERIES = (1_000, 100_000)
PER_KEY = 20  # queries that ask for a key
TIMES_PAIRS = 20.0
K, A, NAME = Column(BIGINT, 0, "k"), Column(BIGINT, 1, "a"), Column(STRING, 2, "name")
P = [Param(BIGINT, i) for i in range(3)]
LEAST = Param(BIGINT, 3)
PATTERN = Param(STRING, 4)


def _call(fn: str, *args: Expr) -> Call:
    return Call(BOOLEAN, fn, args)


FORMS: dict[str, list[Expr]] = {
    "list of three and a range": [_call("in", K, *P), _call("ge", A, LEAST)],
    "one of two values": [_call("or", _call("eq", K, P[0]), _call("eq", A, LEAST))],
    "a value or NULL": [
        _call("or", _call("eq", K, P[0]), _call("is_null", K)), _call("ge", A, LEAST),
    ],
    "a key, a range if given": [
        _call("eq", K, P[0]), _call("or", _call("is_null", P[1]), _call("ge", A, LEAST)),
    ],
    "a prefix": [_call("like", NAME, PATTERN)],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class World:
    """Queries' parameters (a row each) and rows (a column each), both with NULL words."""

    ctx: Context
    params: I64
    rows: I64


def _world(queries: int, rows: int) -> World:
    ctx = Context(StringTable(Arena().scope("strings")), {}, Failures())
    rng = np.random.default_rng(queries)
    keys = max(queries // PER_KEY, 1)
    names = ctx.strings.intern(pa.array([f"{i:x}" for i in range(keys)]))
    patterns = ctx.strings.intern(pa.array([f"{i:x}%" for i in range(keys)]))
    asked = rng.integers(0, keys, (5, queries))
    asked[3], asked[4] = rng.integers(0, 1_000_000, queries), patterns[asked[4]]
    nulls = (rng.random(queries) < 0.5).astype(np.int64) << 1
    values = rng.integers(0, keys, (3, rows))
    values[1], values[2] = rng.integers(0, 1_000_000, rows), names[values[2]]
    none = (rng.random(rows) < 0.001).astype(np.int64)
    return World(ctx, np.vstack([nulls, asked]), np.vstack([none, values * (1 - none)]))


def _filtered(form: list[Expr], world: World) -> tuple[TemplateIndex, I64]:
    parts = TemplatePredicates(form)
    table = QueryTable(Arena().scope("Q"), world.params.shape[0] - 1)
    table.add(world.params, 0)
    grouped = TemplateIndex(
        table, parts.preds, False, parts.attributes, parts.alternatives, world.ctx
    )
    values = np.zeros((1 + len(parts.attributes), world.rows.shape[1]), np.int64)
    for a, attribute in enumerate(parts.attributes):
        values[1 + a], null = attribute.words(world.ctx)(world.rows)
        values[0] |= 0 if null is None else null.astype(np.int64) << a
    return grouped, values


def _take(grouped: TemplateIndex, values: I64) -> tuple[int, Cost]:
    lin = np.zeros(values.shape[1], np.int64)
    with timed() as cost:
        taken = grouped.match(AttributeRows(values, lin))
    return taken.items.shape[0], cost


def _evaluate(form: list[Expr], world: World) -> tuple[int, Cost]:
    """The pairs that match, of all there are."""
    compiled = [compile_expr(part, world.ctx) for part in form]
    queries = world.params.shape[1]
    step = max(1, (1 << 20) // queries)
    found = 0
    with timed() as cost:
        for start in range(0, world.rows.shape[1], step):
            rows = np.repeat(world.rows[:, start : start + step], queries, axis=1)
            params = np.tile(world.params, rows.shape[1] // queries)
            keep = np.ones(rows.shape[1], np.bool_)
            for part in compiled:
                keep &= part.mask(rows, params)
            found += int(keep.sum())
    return found, cost


def run(scale: float = 1.0) -> Result:
    """Every form, at each number of queries."""
    out: Result = {"rows": int(ROWS * scale)}
    for size in QUERIES:
        queries = max(int(size * scale), PER_KEY)
        world, small = _world(queries, int(ROWS * scale)), _world(queries, int(SOME_ROWS * scale))
        for name, form in FORMS.items():
            grouped, values = _filtered(form, world)
            turns = {"filter": partial(_take, grouped, values)}
            if size == QUERIES[0]:
                turns["few rows"] = partial(_take, *_filtered(form, small))
                turns["pairs"] = partial(_evaluate, form, small)
            runs = take_turns(turns)
            matches, cost = runs["filter"]
            rows = values.shape[1]
            out[f"{name}, {size:,}: matches per row"] = round(matches / rows, 1)
            per_row = Cost(cost.cpu / rows, cost.wall / rows)
            out[f"{name}, {size:,}"] = plain(per_row.cpu * 1e9, per_row.wall * 1e9, "ns/row")
            if "pairs" in runs:
                same, theirs = runs["pairs"]
                if same != runs["few rows"][0]:
                    raise AssertionError(f"{name}: {runs['few rows'][0]} matches, {same} by pairs")
                few = small.rows.shape[1]
                ratio = theirs.cpu / few / per_row.cpu, theirs.wall / few / per_row.wall
                out[f"{name}: times as fast as all pairs"] = at_least(*ratio, TIMES_PAIRS, "×")
    return out
