"""Entries of the session log as a session makes them, and what a job makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.session import Session
from penstock.session.opening import open_on_shards
from penstock.shards import wire
from penstock.shards.encoding import Encoded
from penstock.shards.job import Deliver, JobBatch, LocalJob

Entries = list[tuple[tuple[Encoded, ...], Any]]


class Recorder(LocalJob):
    """A local job that remembers its entries."""

    def __init__(self, shards: int, deliver: Deliver) -> None:
        super().__init__(shards, deliver)
        self.entries: Entries = []

    def append(self, blocks: tuple[Encoded, ...], call: Any) -> int:
        self.entries.append((blocks, call))
        return super().append(blocks, call)


class Deliveries:
    """Batches as they are delivered; a repeated one must be the same."""

    def __init__(self) -> None:
        self.batches: dict[int, JobBatch] = {}
        self.repeated = 0

    def __call__(self, batch: JobBatch) -> None:
        if batch.number in self.batches:
            assert seen(batch) == seen(self.batches[batch.number])
            self.repeated += 1
        self.batches[batch.number] = batch

    def in_order(self) -> list[JobBatch]:
        assert sorted(self.batches) == list(range(1, len(self.batches) + 1))
        return [self.batches[n] for n in sorted(self.batches)]

    def results(self, kind: str) -> list[Any]:
        """What results of a kind say."""
        return [
            wire.loads(r.data) for batch in self.in_order() for r in batch.results if r.kind == kind
        ]


def record(script: Callable[[Session], None], shards: int) -> Entries:
    """The entries of a session that runs `script`."""
    jobs: list[Recorder] = []

    def make(deliver: Deliver) -> Recorder:
        jobs.append(Recorder(shards, deliver))
        return jobs[0]

    session = open_on_shards(make)
    script(session)
    session.close()
    return jobs[0].entries


def seen(batch: JobBatch) -> list[Any]:
    """Results of a batch without measurements; the bytes of a pickle depend on who pickles."""
    return [
        (r.kind, r.template, r.order, r.data if r.kind == "changes" else wire.loads(r.data))
        for r in batch.results
        if r.kind != "shard"
    ]


def check_results(got: Deliveries, entries: Entries, shards: int) -> None:
    """The shards without Spark give the same results from the same batches."""
    expected = Deliveries()
    job = LocalJob(shards, expected, eager=False)
    done = 0
    for batch in got.in_order():
        for entry in entries[done : batch.entry]:
            job.append(*entry)
        job.drain()
        done = batch.entry
        assert seen(batch) == seen(expected.batches[batch.number])
    assert done == len(entries)
    assert any(r.kind == "changes" for batch in got.in_order() for r in batch.results)


def trades(session: Session) -> None:
    """Plans of one level and of two, a table, strings, NULLs, queries that come and go."""
    session.sql("CREATE STREAM r (k INT, s STRING, ts BIGINT) TIMESTAMP BY ts")
    session.sql("CREATE STREAM t (k INT, v BIGINT, ts BIGINT) TIMESTAMP BY ts")
    session.sql("CREATE TABLE names (k INT, name STRING)")
    session.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    session.query("SELECT * FROM r [RANGE 5] WHERE k > 1")
    joined = session.query("SELECT r.s, t.v FROM r [RANGE 5], t [RANGE 9] WHERE r.k = t.k")
    session.query("SELECT count(*) AS n, max(v) AS top FROM t [RANGE 7]")
    for i in range(12):
        rows = [{"k": j % 4 or None, "s": f"s{i * j % 7}", "ts": i} for j in range(5)]
        session.push("r", rows)
        session.push("t", [{"k": j, "v": i * j, "ts": i} for j in range(3)])
        if i == 4:
            session.query("SELECT name, count(*) AS n FROM t [RANGE 4], names WHERE t.k = names.k "
                          "GROUP BY name")  # fmt: skip
            session.sql("UPDATE names SET name = 'zwei' WHERE k = 2")
        if i == 8:
            joined.drop()
    session.advance(ts=40)
