"""cacq_state: state of 455 three-way joins, with SteMs and with a tree of joins (CACQ §3.3.1).

The paper's example: 15 sensors, a row of 128 bytes per sensor and second, an hour of them, every
row matches one row of each other sensor; one query for each three sensors. The same rows go
through 15 SteMs, which answer all queries, and into the stores of our own binary join: one for
each sensor and one for the pairs of each two sensors (105), as a tree of joins must keep them,
shared by all queries. Every byte counts: with the SteMs the logs of the streams, with the tree
the smallest key table of each store. A session that has the 455 queries as SQL must come to the
same SteMs by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

import penstock
from benchmarks.pipeline import SECOND, Result, at_most, plain, timed
from penstock.arrays import I64, NEVER
from penstock.delta import Delta
from penstock.kernels.rows import gather_rows
from penstock.logical.stem_kind import StemKind
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.join_side import JoinSide
from penstock.state.keytable import KeyTable
from penstock.state.source_log import SourceLog
from penstock.stems.stem import HashStem
from penstock.stems.stems import Stems
from penstock.types import BIGINT

SENSORS, ROWS, BATCH = 15, 3_600, 300
ROW_BYTES = 128
WIDTH = ROW_BYTES // 8 - 1  # columns beside the NULL word
PAPER = 6.9 / 101
Batches = list[list[tuple[I64, I64]]]


def _batches(rows: int) -> Batches:
    """Rows and times by batch and sensor: the key is the second, times jitter within it."""
    rng = np.random.default_rng(1)
    out: Batches = []
    for start in range(0, rows, BATCH):
        second = np.arange(start, min(start + BATCH, rows))
        parts = []
        for _ in range(SENSORS):
            matrix = np.zeros((1 + WIDTH, second.shape[0]), np.int64)
            matrix[1:] = rng.integers(0, 1_000_000, matrix[1:].shape)
            matrix[1] = second
            parts.append((matrix, second * SECOND + rng.integers(0, SECOND, second.shape[0])))
        out.append(parts)
    return out


@dataclass(frozen=True, slots=True)
class Sensors:
    """The logs of all sensors and the SteMs over them."""

    arena: Arena
    logs: list[SourceLog]
    stems: list[HashStem]

    @staticmethod
    def new() -> Sensors:
        """Without rows."""
        arena = Arena()
        schema = Schema(tuple(Field(f"c{c}", BIGINT) for c in range(WIDTH)))
        logs = [SourceLog(arena.scope(f"streams/s{s}"), schema, NEVER) for s in range(SENSORS)]
        stems = Stems(arena)
        shared = [stems.acquire(f"s{s}", logs[s], (0,), StemKind.HASH) for s in range(SENSORS)]
        return Sensors(arena, logs, shared)

    def add(self, parts: list[tuple[I64, I64]]) -> list[slice]:
        """Take a batch of every sensor; where its rows are."""
        places = []
        for log, stem, (rows, ts) in zip(self.logs, self.stems, parts, strict=True):
            before = stem.built
            log.add(rows, ts, 0)
            log.advance(int(ts[-1]))
            stem.build(before + ts.shape[0])
            places.append(slice(before, stem.built))
        return places

    def limits(self, own: int, other: int, ts: I64) -> I64:
        """Up to where rows of sensor `own` see those of another: what is earlier in sequence."""
        side = "right" if other < own else "left"
        times = self.logs[other].read(0, self.stems[other].built)[1]
        return np.searchsorted(times, ts, side=side)


def _results(sensors: Sensors, places: list[slice]) -> int:
    """Results of all three-way joins with a new last row, which probes one SteM, then another."""
    found = 0
    for own, place in enumerate(places):
        rows, ts, _ = sensors.logs[own].read(place.start, place.stop)
        others = [s for s in range(SENSORS) if s != own]
        limits = {s: sensors.limits(own, s, ts) for s in others}
        keys = np.ascontiguousarray(rows[:, 1][None])
        pairs = {s: sensors.stems[s].probe(keys, None, 0, limits[s])[0] for s in others[:-1]}
        for second, third in combinations(others, 2):
            probing = pairs[second]
            limit = limits[third][probing]
            found += sensors.stems[third].probe(keys[:, probing], None, 0, limit)[0].shape[0]
    return found


def _store(matrix: I64) -> int:
    """Bytes of the stored side of a binary join that holds these rows, keys in column 0."""
    arena = Arena()
    n = matrix.shape[1]
    keys = KeyTable(arena.scope("keys"), 1)
    side = JoinSide(arena.scope("side"), matrix.shape[0] - 1)
    for start in range(0, n, BATCH):
        rows = np.ascontiguousarray(matrix[:, start : start + BATCH])
        m = rows.shape[1]
        ids = keys.assign(np.ascontiguousarray(rows[1:2].T))
        side.reserve(keys.capacity)
        never, lin = np.full(m, NEVER), np.zeros(m, np.int64)
        side.append(Delta(rows, rows[1], never, np.ones(m, np.int8), lin), ids)
    return arena.nbytes


def _tree(sensors: Sensors) -> tuple[int, int]:
    """Pairs of each two sensors, and the bytes of all stores that a tree of joins keeps."""
    rows = [gather_rows(log.read(0, NEVER)[0], np.arange(len(log))) for log in sensors.logs]
    size, pairs = sum(map(_store, rows)), 0
    for a, b in combinations(range(SENSORS), 2):
        every = np.full(rows[a].shape[1], NEVER)
        mine, theirs = sensors.stems[b].probe(rows[a][1:2], None, 0, every)
        pairs += mine.shape[0]
        size += _store(np.vstack([rows[a][:, mine], rows[b][1:, theirs]]))
    return pairs, size


def _in_session(rows: int) -> int:
    """How many SteMs a session keeps for all queries; it must find every result."""
    ps = penstock.connect(runner="inprocess")
    for s in range(SENSORS):
        ps.sql(f"CREATE STREAM s{s} (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
    window = f"[RANGE {ROWS}]"
    standing = [
        ps.query(
            f"SELECT a.k FROM s{a} {window} AS a, s{b} {window} AS b, s{c} {window} AS c "
            "WHERE a.k = b.k AND b.k = c.k"
        )
        for a, b, c in combinations(range(SENSORS), 3)
    ]
    seconds = np.arange(rows)
    for s in range(SENSORS):
        ps.push(f"s{s}", pa.table({"k": seconds, "ts": seconds}))
    found = sum(query.changes().num_rows for query in standing)
    if found != len(standing) * rows:
        raise AssertionError(f"a session found {found} results")
    return len(ps.stats()["stems"])


def run(scale: float = 1.0) -> Result:
    rows = int(ROWS * scale)
    sensors, found = Sensors.new(), 0
    batches = _batches(rows)
    warm = Sensors.new()
    _results(warm, warm.add(batches[0]))
    with timed() as cost:
        for parts in batches:
            found += _results(sensors, sensors.add(parts))
    queries = len(list(combinations(range(SENSORS), 3)))
    if found != queries * rows:
        raise AssertionError(f"{found} results of {queries} queries over {rows} rows each")
    pairs, tree = _tree(sensors)
    ours, per_row = sensors.arena.nbytes, ROW_BYTES * SENSORS * rows
    paper_tree = per_row + 2 * ROW_BYTES * pairs
    index = sum(stem.nbytes for stem in sensors.stems)
    return {
        "queries": queries,
        "SteMs of a session with all queries": at_most(
            _in_session(max(2, int(BATCH * scale))), None, SENSORS, "SteMs"
        ),
        "results": found,
        "all results": plain(found / cost.cpu / 1e6, found / cost.wall / 1e6, "M/s"),
        "rows of the SteMs": plain(per_row / 1e6, None, "MB"),
        "rows of a tree": plain(paper_tree / 1e6, None, "MB"),
        "rows, SteMs : tree": at_most(per_row / paper_tree, None, round(PAPER, 3)),
        "logs and SteMs": plain(ours / 1e6, None, "MB"),
        "of it SteMs": plain(index / 1e6, None, "MB"),
        "stores of a tree": plain(tree / 1e6, None, "MB"),
        "bytes, SteMs : tree": at_most(ours / tree, None, round(PAPER, 3)),
    }
