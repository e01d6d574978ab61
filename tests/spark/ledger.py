"""Input for `driver_app.py`, and the ledger that must hold when it has ended.

Fold of the changes = the same SQL by DuckDB over the same rows; no negative multiplicity; no
change twice; accepted + late + quarantined = sent.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from oracle.fold import Change, Fold, Values, bag, rows_of
from spark.driver_app import COUNTED_TOO, DELAY, PUSHES, QUERIES, RANGE, SINKS, pushed_rows

ROWS = 60
SCHEMAS = {
    "r": pa.schema([("k", pa.int32()), ("v", pa.int64()), ("ts", pa.int64())]),
    "s": pa.schema([("k", pa.int32()), ("w", pa.string()), ("ts", pa.int64())]),
}
Row = dict[str, Any]


def make_input(directory: Path, seed: int, files: int) -> None:
    """Files with a hot key, disorder, late rows and rows without a time."""
    rng = random.Random(seed)
    for stream, schema in SCHEMAS.items():
        (directory / stream).mkdir(parents=True)
        for n in range(files):
            rows = [_row(rng, stream, n) for _ in range(ROWS)]
            path = directory / stream / f"{n}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
            os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))  # Spark reads the oldest first


def _row(rng: random.Random, stream: str, n: int) -> Row:
    hot = rng.random() < 0.97 and stream == "r"
    row: Row = {"k": 7 if hot else rng.randrange(12), "ts": 100 * n + rng.randrange(100)}
    row |= {"v": rng.randrange(1000)} if stream == "r" else {"w": rng.choice(["a", "b", None])}
    fate = rng.random()
    if fate < 0.05:
        row["ts"] = None  # malformed
    elif fate < 0.12:
        row["ts"] -= 150  # late from the third file on, and often in the second
    return row


class Judged:
    """What becomes of the rows of a stream, by the batches in which Spark read its files.

    A batch reads one file. But if Spark dies after it has noted a file of one stream and before it
    has noted the offsets of the batch, the batch that it plans again reads the next file as well.
    """

    def __init__(self, directory: Path, stream: str) -> None:
        self.accepted: list[Row] = []
        self.late = self.quarantined = self.received = 0
        reached: int | None = None
        for files in _files_by_batch(directory, stream):
            tables = [pq.read_table(directory / stream / f"{n}.parquet") for n in files]
            rows = [row for table in tables for row in table.to_pylist()]
            self.received += len(rows)
            timed = [row for row in rows if row["ts"] is not None]
            self.quarantined += len(rows) - len(timed)
            kept = [row for row in timed if reached is None or row["ts"] >= reached]
            self.late += len(timed) - len(kept)
            self.accepted += kept
            newest = max(row["ts"] for row in kept) - DELAY
            reached = newest if reached is None else max(reached, newest)
        assert reached is not None
        self.watermark = reached


def _files_by_batch(directory: Path, stream: str) -> list[range]:
    """The numbers of the files that each batch read; every file is in one of them."""
    offsets = directory / "checkpoint" / "spark" / "offsets"
    ends = []
    for batch in range(sum(1 for path in offsets.iterdir() if path.name.isdigit())):
        lines = (offsets / str(batch)).read_text().splitlines()
        (offset,) = [line for line in lines if line.startswith(f"penstock_{stream}:")]
        ends.append(1 + int(json.loads(offset.split(":", 1)[1])["logOffset"]))
    assert ends[-1] == len(list((directory / stream).glob("*.parquet")))
    assert all(end - first <= 2 for first, end in pairwise([0, *ends])), ends
    return [range(first, end) for first, end in pairwise([0, *ends]) if end > first]


def check(directory: Path) -> None:
    """Hold what the application left against what it was given."""
    end = json.loads((directory / "end.json").read_text())
    judged = {stream: Judged(directory, stream) for stream in SCHEMAS}
    for stream, wanted in judged.items():
        seen = end["streams"][stream]
        assert wanted.late > 0
        assert wanted.quarantined > 0
        assert seen["received"] == wanted.received
        assert seen["accepted"] == len(wanted.accepted)
        assert seen["late"] == wanted.late
        assert seen["quarantined"] == wanted.quarantined
        assert seen["watermark"] == wanted.watermark
    assert end["streams"]["p"]["received"] == PUSHES * len(pushed_rows(0))
    assert end["queries"] == sorted([*QUERIES, "extra", COUNTED_TOO])
    shared = end["shared"]  # empty if this start had no batch to run
    assert max(shared, default=1) > 0, "identical queries have rows of their own"
    for name, answer in _answers(judged).items():
        if name in SINKS:
            folded = _fold(directory / "out" / name)
            assert folded == answer, f"{name}: {folded} instead of {answer}"
        shown = bag(tuple(row.values()) for row in end["views"][name])
        assert shown == answer, f"view {name}: {shown} instead of {answer}"


def _answers(judged: dict[str, Judged]) -> dict[str, Counter[Values]]:
    """The queries by DuckDB over the contents of their windows."""
    r, s = judged["r"], judged["s"]
    both = min(r.watermark, s.watermark)
    pushes = [(step, row) for step in range(PUSHES) for row in pushed_rows(step)]
    with duckdb.connect() as db:
        for name, judge, clock in (("r", r, both), ("s", s, both), ("r_alone", r, r.watermark)):
            live = [row for row in judge.accepted if row["ts"] <= clock < row["ts"] + RANGE]
            db.register(name, pa.Table.from_pylist(live, schema=SCHEMAS[name[0]]))
        db.register("p", pa.Table.from_pylist([row for _, row in pushes]))
        db.register("p_late", pa.Table.from_pylist([row for step, row in pushes if step >= 3]))
        db.register("names", pa.table({"k": [0, 1], "name": ["zero", "one"]}))
        texts = {
            "groups": "SELECT k, count(*), sum(v)::BIGINT FROM r_alone GROUP BY k",
            "joined": "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k WHERE r.k <> 7",
            "missing": "SELECT k FROM r EXCEPT SELECT k FROM s",
            "pushed": "SELECT count(*), sum(n)::BIGINT FROM p",
            "pushed_too": "SELECT count(*), sum(n)::BIGINT FROM p",
            "counted": "SELECT k, sum(n)::BIGINT FROM p GROUP BY k",
            COUNTED_TOO: "SELECT k, sum(n)::BIGINT FROM p GROUP BY k",
            "named": "SELECT name, sum(n)::BIGINT FROM p JOIN names USING (k) GROUP BY name",
            "extra": "SELECT k, count(*) FROM p_late GROUP BY k",
        }
        return {name: bag(rows_of(db.sql(text).to_arrow_table())) for name, text in texts.items()}


def _fold(directory: Path) -> Counter[Values]:
    """What the changes in a sink's files come to."""
    changes: list[tuple[tuple[int, int], Row]] = []
    for path in sorted(directory.glob("part-*.json")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            assert row["_batch"] == int(path.name.split("-")[1]), path
            changes.append(((row["_batch"], row["_seq"]), row))
    keys = [key for key, _ in changes]
    assert len(set(keys)) == len(keys), "a change is there twice"
    fold = Fold()
    ordered = sorted((_change(key, row) for key, row in changes), key=lambda c: (c.time, c.key))
    for _, instant in groupby(ordered, key=lambda c: c.time):
        fold.apply(instant)
    return fold.held


def _change(key: tuple[int, int], row: Row) -> Change:
    sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
    values = tuple(value for name, value in row.items() if not name.startswith("_"))
    time = row["_time"]
    return Change(sign, -(1 << 62) if time is None else time, values, key)
