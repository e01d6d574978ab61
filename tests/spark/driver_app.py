"""An application that can be killed at any time and started again: `driver_app.py DIRECTORY`.

It reads two directories of Parquet files, pushes rows to a third stream, adds and drops queries
on the way, writes the changes of its queries to files, and leaves `end.json` when all is done.
What it has done already it finds in its checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import penstock
from penstock.session.runners import on_spark

PUSHES, PUSHED_ROWS = 8, 5
DELAY, RANGE = 20, 300
STREAMS = f"""
CREATE STREAM IF NOT EXISTS r (k INT, v BIGINT, ts BIGINT) TIMESTAMP BY ts DELAY {DELAY}
  FROM parquet OPTIONS (path '{{0}}/r', maxFilesPerTrigger '1');
CREATE STREAM IF NOT EXISTS s (k INT, w STRING, ts BIGINT) TIMESTAMP BY ts DELAY {DELAY}
  FROM parquet OPTIONS (path '{{0}}/s', maxFilesPerTrigger '1');
CREATE STREAM IF NOT EXISTS p (k INT, n BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 1000;
CREATE TABLE IF NOT EXISTS names (k INT, name STRING);
"""
COUNTED = "SELECT k, sum(n) AS total FROM p [RANGE 1000] GROUP BY k WITH HISTORY"
QUERIES = {
    "groups": f"SELECT k, count(*) AS n, sum(v) AS total FROM r [RANGE {RANGE}] GROUP BY k",
    "joined": f"SELECT r.k, r.v, s.w FROM r [RANGE {RANGE}] JOIN s [RANGE {RANGE}] ON r.k = s.k "
    "WHERE r.k <> 7",
    "missing": f"SELECT k FROM r [RANGE {RANGE}] EXCEPT SELECT k FROM s [RANGE {RANGE}]",
    "pushed": "SELECT count(*) AS n, sum(n) AS total FROM p [RANGE 1000]",
    "pushed_too": "SELECT count(*) AS n, sum(n) AS total FROM p [RANGE 1000]",  # the same row of Q
    "counted": COUNTED,
    "named": "SELECT name, sum(n) AS total FROM p [RANGE 1000] JOIN names ON p.k = names.k "
    "GROUP BY name",
}
SINKS = ("groups", "joined", "pushed", "pushed_too", "counted", "extra")
EARLY = "SELECT k, n FROM p [RANGE 1000] WHERE n > 3"  # dropped before push 5
EXTRA = "SELECT k, count(*) AS n FROM p [RANGE 1000] GROUP BY k"  # added before push 3
COUNTED_TOO = "counted_too"  # comes to the row of `counted` before push 3


def pushed_rows(step: int) -> list[dict[str, int]]:
    """The rows of a push."""
    return [{"k": (step + i) % 3, "n": step * i, "ts": step} for i in range(PUSHED_ROWS)]


def view(name: str, select: str, directory: Path) -> str:
    """A query, and the sink of its changes."""
    text = f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} AS {select};"
    if name in SINKS:
        text += f"CREATE SINK IF NOT EXISTS {name}_sink FROM {name} INTO json "
        text += f"OPTIONS (path '{directory}/out/{name}');"
    return text


def before(step: int, directory: Path) -> str:
    """Statements before a push; to repeat them changes nothing."""
    if step == 0:
        views = "".join(view(name, select, directory) for name, select in QUERIES.items())
        leaving = view("early", EARLY, directory) + view("counted_first", COUNTED, directory)
        return f"{STREAMS.format(directory)}{leaving}{views}"
    if step == 3:
        return view("extra", EXTRA, directory) + view(COUNTED_TOO, COUNTED, directory)
    if step == 5:
        return (
            "DROP MATERIALIZED VIEW IF EXISTS early; DELETE FROM names;"
            "DROP MATERIALIZED VIEW IF EXISTS counted_first;"
            "INSERT INTO names VALUES (0, 'zero'), (1, 'one')"
        )
    return ""


def run(directory: Path) -> dict[str, Any]:
    """Do what is left to do; what the session says in the end."""
    on_spark._SAVE_EVERY = 3
    ps: Any = penstock.connect(
        master=os.environ.get("PENSTOCK_APP_MASTER", "local[2,4]"),
        spark_options=json.loads(os.environ.get("PENSTOCK_APP_OPTIONS", "{}")),
        shards=2,
        checkpoint=directory / "checkpoint",
    )
    known = {row["name"] for row in ps.sql("SHOW STREAMS").to_pylist()}
    done = ps.stats()["streams"]["p"]["received"] // PUSHED_ROWS if "p" in known else 0
    for step in range(done, PUSHES):
        ps.sql(before(step, directory))
        ps.push("p", pushed_rows(step))
        if step % 2:
            ps.flush()
    ps.flush()
    names = [*QUERIES, "extra", COUNTED_TOO]
    stats = ps.stats()
    end = {
        "streams": stats["streams"],
        "shared": [shard["queries"] - shard["rows"] for shard in stats["shards"]],
        "views": {name: ps[name].view().to_pylist() for name in names},
        "queries": sorted(row["name"] for row in ps.sql("SHOW QUERIES").to_pylist()),
    }
    ps.close()
    return end


if __name__ == "__main__":
    os.environ["PENSTOCK_FAULT_DRIVER"] = str(os.getpid())
    home = Path(sys.argv[1])
    found = run(home)
    (home / "end.json").write_text(json.dumps(found, default=str))
