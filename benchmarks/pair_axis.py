"""pair_axis: 100,000 joins with two conditions on S, a wide one and a narrow one.

The wide one comes first in the text: once as a range, once as a band. Beside the axis that
is chosen is the one that the text names first, as if nothing chose.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from functools import partial
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import Cost, Result, at_least, plain, take_turns
from penstock.indexes.pairs.axes import AxisChoice

QUERIES, S_ROWS, R_ROWS, KEYS, TAKEN = 100_000, 50_000, 2_000, 50, 10
DOMAIN = 10**6
TIMES = 5
WIDE = {"range": "s.c BETWEEN $c0 AND $c1", "band": "s.c - r.a BETWEEN $c0 AND $c1"}
SQL = (
    "SELECT r.a, s.c FROM r [RANGE 1000] JOIN s [RANGE 1000] ON r.k = s.k"
    " WHERE r.a BETWEEN $a0 AND $a1 AND {wide} AND s.d BETWEEN $d0 AND $d1"
)


def params(queries: int) -> pa.Table:
    """`TAKEN` queries select a row of R; a third of S is in a wide interval, 0.01 % in a narrow."""
    rng = np.random.default_rng(1)
    a, c, d = rng.integers(0, DOMAIN, (3, queries))
    reach = rng.integers(0, 2 * DOMAIN * TAKEN // queries, queries)
    wide, narrow = rng.integers(DOMAIN // 4, DOMAIN // 2, queries), rng.integers(0, 200, queries)
    return pa.table({"a0": a, "a1": a + reach, "c0": c, "c1": c + wide, "d0": d, "d1": d + narrow})


def rows(stream: str, n: int, ts: int) -> pa.Table:
    """Rows of an instant."""
    rng = np.random.default_rng([ts, ord(stream)])
    columns = {"k": rng.integers(0, KEYS, n)}
    columns |= {name: rng.integers(0, DOMAIN, n) for name in ("a" if stream == "r" else "cd")}
    return pa.table({**columns, "ts": np.full(n, ts)})


def _queries(scale: float) -> int:
    """So many that the template has an index of its own."""
    return max(int(QUERIES * scale), 2_000)


def _pass(sql: str, scale: float, chooses: bool) -> tuple[int, Cost]:
    """Results of rows of R, and the cost of these once structures are built."""
    ps = penstock.connect(runner="inprocess")
    ps.sql("CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
    ps.sql("CREATE STREAM s (k INT, c BIGINT, d BIGINT, ts BIGINT) TIMESTAMP BY ts")
    many, n = ps.query_many(sql, params(_queries(scale))), int(R_ROWS * scale)
    best = Cost()
    with nullcontext() if chooses else patch.object(AxisChoice, "is_due", _never):
        ps.push("s", rows("s", int(S_ROWS * scale), 1))
        for ts in range(2, 6):
            given = rows("r", n, ts)
            cpu, wall = time.process_time(), time.perf_counter()
            ps.push("r", given)
            ps.advance(ts=ts)
            cost = Cost(time.process_time() - cpu, time.perf_counter() - wall)
            if ts > 2:  # then structures are built
                best.least(cost)
    return many.changes().num_rows, best


def _never(*_: object) -> bool:
    return False


def run(scale: float = 1.0) -> Result:
    out: Result = {"queries": _queries(scale)}
    n = int(R_ROWS * scale)
    for name, wide in WIDE.items():
        sql = SQL.format(wide=wide)
        turns = {"chosen": True, "first in the text": False}
        runs = take_turns({how: partial(_pass, sql, scale, so) for how, so in turns.items()}, 2)
        for how, (_, cost) in runs.items():
            out[f"{name}: {how}"] = plain(n / cost.cpu, n / cost.wall, "rows/s")
        (results, chosen), (others, first) = runs.values()
        if results != others:
            raise AssertionError(f"{results} results along one axis, {others} along the other")
        out[f"{name}: chosen : first"] = at_least(
            first.cpu / chosen.cpu, first.wall / chosen.wall, TIMES, "×"
        )
    return out
