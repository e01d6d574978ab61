"""cacq_table1: what 100,000 queries of a building keep, by structure (CACQ §3.2.3, tables 1 and 2).

Five sources with three attributes each; a query of one source has one filter or two, 1.5 on
average. The paper estimates lists of queries and operators per source, a bit per query and row,
and an output queue per query. Here the structures are those of `stats()`, and the process.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import Result, plain
from benchmarks.query_many import resident

QUERIES, VALUES, ROWS = 100_000, 1_000_000, 1_000
SOURCES = ("light", "temperature", "sound", "vibration", "magnetic")
ATTRIBUTES = ("x", "y", "z")
FILTERS = [*combinations(ATTRIBUTES, 1), *combinations(ATTRIBUTES, 2)]
PAPER = {"lists of queries and operators": 5 * 80_400, "completion masks": 5 * 7_500,
         "output queues": 64 * QUERIES}  # fmt: skip


def _building() -> penstock.Session:
    ps = penstock.connect(runner="inprocess")
    for source in SOURCES:
        ps.sql(f"CREATE STREAM {source} (x BIGINT, y BIGINT, z BIGINT, ts BIGINT) "
               "TIMESTAMP BY ts")  # fmt: skip
    return ps


def _register(ps: penstock.Session, queries: int, rng: np.random.Generator) -> int:
    """Register equally many queries of each source and set of filters; how many they are."""
    each = max(queries // (len(SOURCES) * len(FILTERS)), 1)
    for source in SOURCES:
        for filters in FILTERS:
            bounds = {f"{name}0": rng.choice(VALUES, each, replace=False) for name in filters}
            where = " AND ".join(f"{name} > ${name}0" for name in filters)
            ps.query_many(f"SELECT x FROM {source} WHERE {where}", pa.table(bounds))
    return each * len(SOURCES) * len(FILTERS)


def _push(ps: penstock.Session, rng: np.random.Generator) -> None:
    """Push some rows, which build the indexes; few of them are taken by a query."""
    for source in SOURCES:
        columns = {name: rng.integers(0, VALUES // 1_000, ROWS) for name in ATTRIBUTES}
        ps.push(source, pa.table({**columns, "ts": np.arange(ROWS)}))


def run(scale: float = 1.0) -> Result:
    rng = np.random.default_rng(1)
    warm = _building()
    _register(warm, 30, rng)
    _push(warm, rng)
    before = resident()
    ps = _building()
    empty = ps.stats()
    made = _register(ps, int(QUERIES * scale), rng)
    _push(ps, rng)
    after, found = resident(), ps.stats()
    arena = found["bytes"] - empty["bytes"]
    indexes = sum(flow["bytes"] for flow in found["flows"])
    out: Result = {"queries": made}
    out["parameter rows and books (arena)"] = plain(arena / made, None, "bytes/query")
    out["filters of lineage groups"] = f"{indexes / made:.1f} bytes/query"
    bits = sum(flow["lineage_bits"] for flow in found["flows"]) / len(SOURCES)
    out["lineage of a row on its way"] = f"{bits / 8:,.0f} bytes"
    out["the paper: per query"] = plain(sum(PAPER.values()) / QUERIES, None, "bytes/query")
    out["the paper: lineage of a row"] = plain(QUERIES / len(SOURCES) / 8, None, "bytes")
    out["the process"] = f"{(after - before) * 2**20 / made:,.0f} bytes/query"
    return out
