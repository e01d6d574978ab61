"""cacq_filter: rows against up to a million standing range queries, beside Polars (CACQ §3.2.6).

Dense: conjunctions over five fields of 0–99, each field with probability ½ compared by <, ≤, >
or ≥ with a random constant, as rows of one template with two bounds per field; matches are
counted per query. Polars gets one expression per query with only the comparisons it has, all in
one select, over the narrower and the wider integers; the faster counts. Selective: an equality
and a range, about ten matches per row however many queries there are; pairs are listed.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from benchmarks.pipeline import Cost, Result, at_least, at_most, plain, take_turns, timed
from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.indexes.contract import AttributeRows
from penstock.indexes.template.template_index import TemplateIndex
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.match import EQ, GE, LE, match_queries
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena

ROWS, FIELDS, VALUES = 100_000, 5, 100
DENSE = (1_000, 10_000, 100_000)
SELECTIVE = (1_000, 100_000, 1_000_000)
TIMES_POLARS = {1_000: 5.0, 10_000: 20.0}
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge)
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
Turn = Callable[[], tuple[int, Cost]]


def _filter(params: I64, preds: list[tuple[int, int, int, int]]) -> TemplateIndex:
    """A grouped filter over fresh queries; parameters come one matrix row each."""
    table = QueryTable(Arena().scope("Q"), params.shape[0])
    table.add(np.vstack([np.zeros(params.shape[1], np.int64), params]), 0)
    return TemplateIndex(table, np.array(preds), by_cohort=False)


def _values(*columns: I64) -> tuple[I64, I64]:
    """Rows without NULLs as a filter takes them, and their lineage."""
    lin = np.zeros(columns[0].shape[0], np.int64)
    return np.vstack([lin, *columns]), lin


# ---- dense ---------------------------------------------------------------------------
def _conjunctions(queries: int, seed: int) -> tuple[I64, I64]:
    """Comparison (−1: none) and constant of each query and field."""
    rng = np.random.default_rng(seed)
    ops = rng.integers(0, len(COMPARISONS), (queries, FIELDS))
    ops[rng.random((queries, FIELDS)) < 0.5] = -1
    return ops, rng.integers(0, VALUES, (queries, FIELDS))


def _as_template(ops: I64, constants: I64) -> TemplateIndex:
    highs = np.where(ops == 0, constants - 1, np.where(ops == 1, constants, MOST))
    lows = np.where(ops == 2, constants + 1, np.where(ops == 3, constants, LEAST))
    preds = [(GE, 0, f, f) for f in range(FIELDS)] + [(LE, 0, FIELDS + f, f) for f in range(FIELDS)]
    return _filter(np.vstack([lows.T, highs.T]), preds)


def _as_polars(ops: I64, constants: I64, columns: I64, kind: type[pl.DataType]) -> pl.LazyFrame:
    frame = pl.DataFrame({f"f{f}": pl.Series(columns[f]).cast(kind) for f in range(FIELDS)})
    sums = []
    for q in range(ops.shape[0]):
        parts = [
            COMPARISONS[op](pl.col(f"f{f}"), int(constants[q, f]))
            for f, op in enumerate(ops[q].tolist())
            if op >= 0
        ]
        sums.append(functools.reduce(operator.and_, parts, pl.lit(True)).sum().alias(str(q)))
    empty = [n for n, parts in enumerate(ops) if (parts < 0).all()]
    for n in empty:  # no comparison at all: every row
        sums[n] = pl.len().alias(str(n))
    return frame.lazy().select(sums)


def _count(grouped: TemplateIndex, values: I64, lin: I64) -> tuple[int, Cost]:
    with timed() as cost:
        _, counts = grouped.count(AttributeRows(values, lin))
    return int(counts.sum()), cost


def _count_polars(frame: pl.LazyFrame) -> tuple[int, Cost]:
    with timed() as cost:
        counts = frame.collect()
    return int(sum(counts.row(0))), cost


def _dense(scale: float, out: Result) -> None:
    columns = np.random.default_rng(1).integers(0, VALUES, (FIELDS, int(ROWS * scale)))
    values, lin = _values(*columns)
    per_match: dict[int, Cost] = {}
    for size in DENSE:
        ops, constants = _conjunctions(int(size * scale), size)
        turns: dict[str, Turn] = {
            "filter": partial(_count, _as_template(ops, constants), values, lin)
        }
        if size in TIMES_POLARS:
            for kind in (pl.Int8, pl.Int64):
                frame = _as_polars(ops, constants, columns, kind)
                turns[f"Polars {kind}"] = partial(_count_polars, frame)
        runs = take_turns(turns)
        matches, ours = runs.pop("filter")
        per_match[size] = Cost(ours.cpu / matches, ours.wall / matches)
        out[f"{size:,}: matches"] = matches
        out[f"{size:,}: counting"] = plain(ours.cpu, ours.wall, "s")
        if runs:
            theirs = Cost()
            for same, cost in runs.values():
                if same != matches:
                    raise AssertionError(f"{matches} matches, {same} by Polars")
                theirs.least(cost)
            out[f"{size:,}: Polars"] = plain(theirs.cpu, theirs.wall, "s")
            ratio = theirs.cpu / ours.cpu, theirs.wall / ours.wall
            out[f"{size:,}: times as fast"] = at_least(*ratio, TIMES_POLARS[size], "×")
    few, many = per_match[DENSE[0]], per_match[DENSE[-1]]
    name = f"time per match, {DENSE[-1]:,} : {DENSE[0]:,}"
    out[name] = at_most(many.cpu / few.cpu, many.wall / few.wall, 1.0)


# ---- selective -----------------------------------------------------------------------
def _match(grouped: TemplateIndex, values: I64, lin: I64) -> tuple[int, Cost]:
    signs = np.ones(lin.shape[0], np.int8)
    with timed() as cost:
        found = grouped.match(AttributeRows(values, lin))
        rows, _, _ = signed_pairs(found, signs, keyed=False)
    return rows.shape[0], cost


def _scan(grouped: TemplateIndex, values: I64, lin: I64) -> tuple[int, Cost]:
    table = grouped.table
    signs = np.ones(lin.shape[0], np.int8)
    with timed() as cost:
        rows, _, _ = match_queries(
            lin, signs, False, False, values, grouped.preds, table.matrix(),
            table.live(Lineage.QUERY), table.since(Lineage.QUERY), table.cohort(),
        )  # fmt: skip
    return rows.shape[0], cost


def _selective(scale: float, out: Result) -> None:
    rng = np.random.default_rng(2)
    rows = int(ROWS * scale)
    turns: dict[str, Turn] = {}
    filters: dict[int, TemplateIndex] = {}
    for size in SELECTIVE:
        queries = int(size * scale)
        keys = max(queries // 20, 1)
        draw = partial(_pairs_of, rng, keys)
        filters[size] = _filter(draw(queries), [(EQ, 0, 0, 0), (GE, 0, 1, 1)])
        values, lin = _values(*draw(rows))
        turns[f"{size:,}"] = partial(_match, filters[size], values, lin)
        if size == SELECTIVE[0]:
            turns["scan"] = partial(_scan, filters[size], values, lin)
    runs = take_turns(turns)
    for name, (matches, cost) in runs.items():
        if name != "scan":
            out[f"selective, {name}: matches per row"] = round(matches / rows, 1)
            cpu, wall = cost.cpu / rows * 1e9, cost.wall / rows * 1e9
            out[f"selective, {name}"] = plain(cpu, wall, "ns/row")
    few, many, scan = (runs[n][1] for n in (f"{SELECTIVE[0]:,}", f"{SELECTIVE[-1]:,}", "scan"))
    name = f"time per row, {SELECTIVE[-1]:,} : {SELECTIVE[0]:,}"
    out[name] = at_most(many.cpu / few.cpu, many.wall / few.wall, 3.0)
    name = f"selective, {SELECTIVE[0]:,}: times as fast as a scan"
    out[name] = plain(scan.cpu / few.cpu, scan.wall / few.wall, "×")
    _grow(filters[SELECTIVE[-1]], _pairs_of(rng, keys, int(1_000 * scale)), out)


def _pairs_of(rng: np.random.Generator, keys: int, n: int) -> I64:
    return np.vstack([rng.integers(0, keys, n), rng.integers(0, 1_000_000, n)])


def _grow(grouped: TemplateIndex, params: I64, out: Result) -> None:
    """Add queries to the largest filter, and say what it weighs."""
    with timed() as adding:
        zeros = np.zeros(params.shape[1], np.int64)
        grouped.table.add(np.vstack([zeros, params]), 0)
        grouped.explain()
    out["adding 1,000 to 1,000,000"] = at_most(adding.cpu, adding.wall, 0.5, "s")
    mega = (grouped.nbytes + grouped.table.scope.nbytes) / 1e6
    out["Q and index"] = at_most(mega, None, 256, "MB")


def run(scale: float = 1.0) -> Result:
    out: Result = {"rows": int(ROWS * scale)}
    _dense(scale, out)
    _selective(scale, out)
    return out
