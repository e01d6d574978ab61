"""Random plans over sources of every kind: as if the same rows were pushed in process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from oracle.fold import bag, rows_of
from oracle.world import StreamDef
from penstock.errors import PenstockError
from property.data import GAPS, STREAMS, row
from property.plans import Plans
from spark.goldens import net
from spark.reading import counts, views

KINDS = ("parquet", "json", "frame", "frame of one partition", "push")
TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string()}
FILES = 3
Rows = list[dict[str, object]]


@pytest.mark.parametrize(
    ("seed", "shards", "kinds"),
    [(2, 3, ("json", "parquet", KINDS[3])), (3, 2, (KINDS[3], "push", KINDS[3]))],
)
def test_kinds_do_not_matter(
    spark: SparkSession, tmp_path: Path, seed: int, shards: int, kinds: tuple[str, ...]
) -> None:
    rng = Random(seed)
    data = {name: some_rows(rng, definition) for name, definition in STREAMS.items()}
    with (
        penstock.connect(spark=spark, shards=shards) as ps,
        penstock.connect(runner="inprocess") as one,
    ):
        for (name, definition), kind in zip(STREAMS.items(), kinds, strict=True):
            one.sql(create(definition))
            declare(ps, spark, tmp_path / name, definition, kind, data[name])
        queries = some_queries(rng, ps, one)
        for n in range(FILES):
            for (name, files), kind in zip(data.items(), kinds, strict=True):
                for session in (ps, one) if kind == "push" else (one,):
                    session.push(name, files[n])
        for session in (ps, one):
            session.flush()
            session.advance(ts=1_000)
            session.flush()
        for name in STREAMS:
            assert counts(ps, name) == counts(one, name)
        held = views(ps, [ours for ours, _ in queries])
        for ours, theirs in queries:
            assert net(ours.changes(), True) == net(theirs.changes(), True), ours.sql
            if ours in held:
                assert held[ours] == bag(rows_of(theirs.view())), ours.sql


def some_rows(rng: Random, definition: StreamDef) -> list[Rows]:
    """Files of rows, a little out of order, some of them late."""
    files: list[Rows] = []
    ts = 0
    for _ in range(FILES):
        rows: Rows = []
        for _ in range(rng.randint(5, 25)):
            ts += rng.choice(GAPS)
            values = row(rng, definition, ts - rng.choice((0, 0, 0, 1, 2, 6)))
            rows.append(dict(zip([n for n, _ in definition.columns], values, strict=True)))
        files.append(rows)
    return files


def create(definition: StreamDef) -> str:
    columns = ", ".join(f"{name} {type_}" for name, type_ in definition.columns)
    return f"CREATE STREAM {definition.name} ({columns}) TIMESTAMP BY ts DELAY 2"


def declare(
    ps: Any, spark: SparkSession, folder: Path, definition: StreamDef, kind: str, files: list[Rows]
) -> None:
    """A stream of some kind that has these files, one for each batch."""
    if kind == "push":
        ps.sql(create(definition))
        return
    folder.mkdir()
    schema = pa.schema([(name, TYPES[type_]) for name, type_ in definition.columns])
    for n, rows in enumerate(files):
        path = folder / f"{n}.file"
        if kind == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=4)
        os.utime(path, (1_000 + n, 1_000 + n))  # Spark reads files by age
    if kind.startswith("frame"):
        reader = spark.readStream.schema(", ".join(" ".join(c) for c in definition.columns))
        frame = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
        frame = frame.coalesce(1) if kind == "frame of one partition" else frame
        ps.stream(definition.name, frame, time="ts", delay="2")
    else:
        options = f"(path '{folder}', maxFilesPerTrigger '1')"
        ps.sql(f"{create(definition)} FROM {kind} OPTIONS {options}")


def some_queries(rng: Random, ps: Any, one: Any) -> list[tuple[Any, Any]]:
    """Eight random queries over the streams, in both sessions."""
    found: list[tuple[Any, Any]] = []
    while len(found) < 8:
        plans = Plans(rng)
        sql = plans.query(rng.choice((0, 1, 2, 3)))
        try:
            theirs = None if plans.tables else one.query(sql)
        except PenstockError:  # such as state without a bound
            continue
        if theirs is not None:
            found.append((ps.query(sql), theirs))
    return found
