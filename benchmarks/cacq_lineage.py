"""cacq_lineage: EMIT CHANGES PER ROW against one change per row and query (CACQ §2.2).

Range queries that overlap: a row belongs to one in a hundred of them. Both forms tell the same:
per row, with the list of the queries that have it, and query by query. Time is from push to the
Arrow tables of `Queries.changes()`; bytes are those of these tables.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipeline import (
    MINUTE,
    Batches,
    Cost,
    Result,
    at_least,
    connect,
    cut,
    plain,
    stream,
    take_turns,
    timed,
)

ROWS, VALUES, SHARE = 100_000, 1_000_000, 0.01
SIZES = {1_000: 2.0, 10_000: 4.0}  # queries, and how many times as fast
SQL = f"SELECT k, a FROM r [RANGE {MINUTE}] WHERE a BETWEEN $low AND $high EMIT CHANGES"
FORMS = {"per row": " PER ROW", "per query": ""}


def _ranges(queries: int) -> pa.Table:
    rng = np.random.default_rng(queries)
    low = rng.choice(int(VALUES * (1 - SHARE)), queries, replace=False)  # equal ones would be one
    return pa.table({"low": low, "high": low + int(VALUES * SHARE) - 1})


def _pass(form: str, queries: int, batches: Batches, weights: dict[str, int]) -> tuple[int, Cost]:
    """All changes of a fresh session: pairs of a row and a query, and what they cost."""
    ps = connect("r")
    handles = ps.query_many(SQL + FORMS[form], _ranges(queries))
    pairs = weight = 0
    with timed() as cost:
        tables = []
        for name, table in batches:
            ps.push(name, table)
            tables.append(handles.changes())
    for found in tables:
        names = found["_query"]
        lists = pa.types.is_list(names.type)
        pairs += pc.sum(pc.list_value_length(names)).as_py() or 0 if lists else len(names)
        weight += found.nbytes
    weights[form] = weight
    return pairs, cost


def run(scale: float = 1.0) -> Result:
    rows = int(ROWS * scale)
    batches = cut({"r": stream(rows, 1_000, 300, seed=3)})
    out: Result = {"rows in": rows}
    for size, target in SIZES.items():
        queries = max(int(size * scale), 100)
        weights: dict[str, int] = {}
        runs = take_turns({f: partial(_pass, f, queries, batches, weights) for f in FORMS})
        (pairs, ours), (same, theirs) = (runs[form] for form in FORMS)
        if pairs != same:
            raise AssertionError(f"{pairs} changes per row, {same} per query")
        out[f"{size:,}: pairs of a change and a query"] = pairs
        for form, cost in (("per row", ours), ("per query", theirs)):
            out[f"{size:,}: {form}"] = plain(cost.cpu, cost.wall, "s")
            out[f"{size:,}: {form}, output"] = plain(weights[form] / 1e6, None, "MB")
        ratio = theirs.cpu / ours.cpu, theirs.wall / ours.wall
        out[f"{size:,}: times as fast"] = at_least(*ratio, target, "×")
        smaller = weights["per query"] / weights["per row"]
        out[f"{size:,}: times as small"] = plain(smaller, None, "×")
    return out
