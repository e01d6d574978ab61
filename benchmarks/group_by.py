"""GROUP BY: sliding count, sum and max by 1,000 keys over a minute, exact per row or per batch.

The second query adds up amounts in doubles.
"""

from __future__ import annotations

from benchmarks.pipeline import MINUTE, Result, cut, stream, throughput

ROWS, KEYS, SECONDS = 300_000, 1_000, 300
SQL = (
    "SELECT k, count(*) AS n, sum(a) AS total, max(a) AS top"
    f" FROM r [RANGE {MINUTE}] GROUP BY k"
)  # fmt: skip


DOUBLES = SQL.replace("sum(a)", "sum(a / 100)")


def run(scale: float = 1.0) -> Result:
    batches = cut({"r": stream(int(ROWS * scale), KEYS, SECONDS, seed=1)})
    doubles = throughput(DOUBLES, batches)
    return throughput(SQL, batches) | {f"doubles, {name}": doubles[name] for name in doubles}
