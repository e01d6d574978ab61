"""agarwal_fig8: select joins by event selection rate and event join rate (Agarwal §5.1, figure 8).

100,000 queries in about 30 groups, 100,000 rows in S. (a) varies how many queries select a row of
R, (b) how many rows of S join it.
"""

from __future__ import annotations

from benchmarks.agarwal_workloads import QUERIES, SJ, Lines, built, check, rates, select_joins
from benchmarks.pipeline import Result, plain

SELECTED = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
JOINED = (1, 10, 100, 1_000, 10_000)


def run(scale: float = 1.0) -> Result:
    queries = s_rows = int(QUERIES * scale)
    by_selected, by_joined = Lines(), Lines()
    for selected in SELECTED:
        case = select_joins(queries, selected=selected, joined=int(s_rows / 100), s_rows=s_rows)
        strategies = built(("select_first", "ssi"), case)
        check(strategies, case)
        by_selected.add(selected * queries, rates(strategies, case))
    for joined in JOINED:
        case = select_joins(queries, joined=joined, s_rows=s_rows)
        strategies = built(("vanilla", "data_outer", "select_first", "ssi"), case)
        check(strategies, case)
        by_joined.add(joined, rates(strategies, case))
    out: Result = {"queries": queries, "rows in S": s_rows}
    for name in ("select_first", "ssi"):
        kept = by_selected.kept(name, 0, -1)
        out[f"{SJ[name]}: selected by 0.03 % over by 30 %"] = plain(*(k / 100 for k in kept), "×")
    for name in by_joined.costs:
        kept = by_joined.kept(name, 0, -1)
        out[f"{SJ[name]}: joins 1 over {JOINED[-1]:,}"] = plain(*(k / 100 for k in kept), "×")
    title = f"{queries:,} select joins"
    return out | {
        "figure 8a": by_selected.chart(title, "queries that select a row", SJ),
        "figure 8b": by_joined.chart(title, "rows of S that join a row", SJ),
    }
