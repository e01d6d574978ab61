"""Template: constants lifted into one parameter row, beside constants left in the plan.

Nothing but the lifting differs: both go through the same session, over the same batches.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from unittest.mock import patch

from benchmarks.pipeline import (
    MINUTE,
    Batches,
    Cost,
    Result,
    at_most,
    connect,
    cut,
    plain,
    push,
    stream,
    take_turns,
    timed,
)
from penstock.logical.expr import Literal
from penstock.logical.nodes import Node
from penstock.sql.catalog import ParamSpec

ROWS, KEYS, SECONDS = 300_000, 1_000, 300
TARGET = 1.2
WINDOW = f"[RANGE {MINUTE}]"
QUERIES = {
    "filter": f"SELECT k, a FROM r {WINDOW} WHERE k < 500",
    "filter of three": f"SELECT k, a FROM r {WINDOW} WHERE k >= 100 AND k < 600 AND a > 70000",
    "filter, group by": (
        f"SELECT k, count(*) AS n, sum(a) AS total FROM r {WINDOW} WHERE k < 500 GROUP BY k"
    ),
    "filter, distinct": f"SELECT DISTINCT k FROM r {WINDOW} WHERE k < 500",
}


def _left_in_place(node: Node, explicit: tuple[ParamSpec, ...] = ()) -> tuple[
    Node, tuple[Literal, ...]
]:  # fmt: skip
    return node, ()


def measure(sql: str, batches: Batches, lifted: bool) -> tuple[int, Cost]:
    """Changes and cost of one pass."""
    ps = connect("r")
    off = patch("penstock.session.compile.lift", _left_in_place)
    with nullcontext() if lifted else off:
        query = ps.query(sql)
    with timed() as cost:
        changes = push(ps, query, batches)
    return changes, cost


def run(scale: float = 1.0) -> Result:
    batches = cut({"r": stream(int(ROWS * scale), KEYS, SECONDS, seed=1)})
    out: Result = {"rows in": sum(table.num_rows for _, table in batches)}
    for name, sql in QUERIES.items():
        runs = take_turns({
            "template": partial(measure, sql, batches, True),
            "constant": partial(measure, sql, batches, False),
        }, times=5)  # fmt: skip
        (changes, lifted), (same, fixed) = runs["template"], runs["constant"]
        if changes != same:
            raise AssertionError(f"{name}: {changes} changes, {same} with constants in place")
        out[f"{name}: template"] = plain(lifted.cpu, lifted.wall, "s")
        out[f"{name}: constant"] = plain(fixed.cpu, fixed.wall, "s")
        ratio = at_most(lifted.cpu / fixed.cpu, lifted.wall / fixed.wall, TARGET)
        out[f"{name}: ratio"] = ratio
    return out
