"""Pre-filter: what no query can want stays behind; everything else is shipped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.delta import Lineage
from penstock.engine.blocks import AddTemplate
from penstock.shards.intake import Given, Intake, Moment, take_in
from penstock.shards.prefilter import Clause, Prefilter, readers, wanted, with_constants
from penstock.shards.wire import unpack_batch

STREAM = "CREATE STREAM r (k INT, a BIGINT, s STRING, x DOUBLE, ts BIGINT) TIMESTAMP BY ts"


class Bench:
    """A sharded session whose plans are looked at."""

    def __init__(self, *sqls: str) -> None:
        self.session = penstock.connect(runner="inprocess", shards=2)
        self.session.sql(STREAM)
        for sql in sqls:
            self.session.query(sql)

    @property
    def deployed(self) -> list[AddTemplate]:
        return list(self.session._runner.deployed.values())  # type: ignore[attr-defined]

    def clauses(self) -> list[Clause | None]:
        found: list[Clause | None] = []
        for block in self.deployed:
            template = self.session._books.engine.templates[block.key]
            for route in block.plan.routes:
                for clause in readers(block, route.name):
                    live = template.queries.live(Lineage.QUERY)
                    strings = self.session._books.engine.strings
                    each = None
                    if clause is not None:
                        each = with_constants(clause, block.params, template.queries, live, strings)
                    found += [None] if each is None else list(each)
        return found

    def prefilter(self) -> Prefilter:
        found = self.clauses()
        assert all(clause is not None for clause in found)
        return tuple(clause for clause in found if clause is not None)


def rows(n: int = 400) -> pa.RecordBatch:
    rng = np.random.default_rng(3)
    return pa.RecordBatch.from_pydict(
        {
            "k": pa.array(rng.integers(0, 5, n), pa.int32(), mask=rng.random(n) < 0.1),
            "a": pa.array(rng.integers(-5, 5, n), mask=rng.random(n) < 0.1),
            "s": pa.array(rng.choice(["x", "y", "zé"], n), mask=rng.random(n) < 0.1),
            "x": pa.array(rng.choice([0.5, float("nan"), -1.0], n), mask=rng.random(n) < 0.1),
            "ts": np.arange(n),
        }
    )


def schema() -> penstock.schema.Schema:
    return Bench().session._books.engine.sources["r"].schema


@pytest.mark.parametrize(
    ("sqls", "test"),
    [
        (["SELECT k FROM r [RANGE 5] WHERE a > 2"], lambda r: r["a"] is not None and r["a"] > 2),
        (
            ["SELECT k FROM r [RANGE 5] WHERE s = 'zé'", "SELECT a FROM r [RANGE 5] WHERE s = 'x'"],
            lambda r: r["s"] in ("zé", "x"),
        ),
        (
            ["SELECT k, count(*) FROM r [RANGE 5] WHERE x < 0.75 AND k <> 2 GROUP BY k"],
            lambda r: r["x"] is not None and r["x"] < 0.75 and r["k"] not in (2, None),
        ),
    ],
)
def test_exactly_the_rows_that_some_query_wants(sqls, test) -> None:  # type: ignore[no-untyped-def]
    batch = rows()
    keep = wanted(batch, schema(), Bench(*sqls).prefilter())
    assert keep.tolist() == [bool(test(row)) for row in batch.to_pylist()]
    assert 0 < keep.sum() < len(keep)


def test_a_reader_without_a_filter_wants_all() -> None:
    assert None in Bench("SELECT k, count(*) FROM r [RANGE 5] GROUP BY k").clauses()


def test_a_rows_window_counts_every_row() -> None:
    assert None in Bench("SELECT k FROM r [ROWS 3] WHERE a > 2").clauses()


def test_many_queries_are_left_to_the_shards() -> None:
    bench = Bench()
    params = pa.table({"p": list(range(17))})
    bench.session.query_many("SELECT k FROM r [RANGE 5] WHERE a > $p", params)
    assert None in bench.clauses()


def test_rows_that_fail_are_shipped() -> None:
    clauses = Bench("SELECT k FROM r [RANGE 5] WHERE a + 9223372036854775800 > 5").prefilter()
    batch = pa.RecordBatch.from_pylist(
        [{"k": 1, "a": a, "s": "x", "x": 0.0, "ts": 1} for a in (100, -9223372036854775800, 2)],
        schema().arrow(),
    )
    assert wanted(batch, schema(), clauses).tolist() == [True, False, True]


def test_the_intake_ships_what_is_wanted_and_tells_the_time_of_all() -> None:
    bench = Bench("SELECT k FROM r [RANGE 5] WHERE a > 2")
    (block,) = bench.deployed
    (route,) = block.plan.routes
    intake = Intake(schema(), "ts", 0, None, False, ((route, ("k", "a")),), (bench.prefilter(),))
    batch = rows()
    part = Given(("", 0), pa.Table.from_batches([batch]))
    messages, _ = take_in([part], "r", intake, Moment(0, 0, 1), 2)
    pieces = [piece for m in messages for piece in m.pieces]
    shipped = sum(unpack_batch(data).num_rows for piece in pieces for _, data in piece.routed)
    assert shipped == sum(a is not None and a > 2 for a in batch.column("a").to_pylist())
    assert {m.reached for m in messages} == {399}
    assert messages[0].counts.accepted == 400
