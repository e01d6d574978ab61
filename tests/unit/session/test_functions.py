"""Functions that are registered again: who calls which, in process, on shards and afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.session.functions import functions_of

SQL = "SELECT f(k) AS n FROM s [RANGE 100] WHERE k > {}"
VIEW = "CREATE MATERIALIZED VIEW q{} AS {}"
Open = Callable[[Any], Any]


def plus(more: float, values: pa.Array) -> pa.Array:
    """`values` and `more`; a function that can be pickled."""
    return pc.add(values, more)


def _in_process(old: Any) -> Any:
    image = old.snapshot() if old is not None else None
    return penstock.connect(runner="inprocess", snapshot=image)


def _on_shards(old: Any) -> Any:
    if old is None:
        return penstock.connect(runner="inprocess", shards=2)
    old._runner.job.cluster.reload()
    return old


def _opened(way: str, folder: Path) -> Open:
    if way == "checkpoint":
        return lambda old: penstock.connect(runner="inprocess", checkpoint=folder)
    return {"in process": _in_process, "shards": _on_shards}[way]


@pytest.mark.parametrize("way", ["in process", "checkpoint", "shards"])
def test_each_query_calls_the_function_it_was_registered_with(way: str, tmp_path: Path) -> None:
    opened = _opened(way, tmp_path / "cp")
    ps = opened(None)
    ps.sql("CREATE STREAM s (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
    for turn in (1, 2, 3):
        ps.register_udf("f", partial(plus, 10 * turn), ["BIGINT"], "BIGINT")
        ps.sql(VIEW.format(turn, SQL.format(turn)))
    ps.register_udf("F", partial(plus, 0.5), ["DOUBLE"], "DOUBLE")
    ps.sql(VIEW.format(4, SQL.format(0)))

    def shown() -> list[list[float]]:
        return [sorted(row["n"] for row in ps[f"q{n}"].view().to_pylist()) for n in (1, 2, 3, 4)]

    ps.push("s", [{"k": 5, "ts": 1}])
    assert shown() == [[15], [25], [35], [5.5]]
    if way == "checkpoint":
        ps.close()
    ps = opened(ps)
    ps.push("s", [{"k": 6, "ts": 2}])
    assert shown() == [[15, 16], [25, 26], [35, 36], [5.5, 6.5]]
    ps.register_udf("f", partial(plus, 40), ["BIGINT"], "BIGINT")
    ps.sql(VIEW.format(5, SQL.format(7)))
    ps.push("s", [{"k": 9, "ts": 3}])
    assert ps["q5"].view().to_pylist() == [{"n": 49}]
    assert shown() == [[15, 16, 19], [25, 26, 29], [35, 36, 39], [5.5, 6.5, 9.5]]
    ps.close()


def test_a_function_that_no_query_calls_is_replaced() -> None:
    with penstock.connect(runner="inprocess") as ps:
        ps.sql("CREATE STREAM s (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
        books, known = ps._books, ps._books.catalog.udfs
        for turn in range(3):
            ps.register_udf("f", partial(plus, turn), ["BIGINT"], "BIGINT")
        assert [udf.name for udf in known.values()] == ["f"]
        first = ps.query(SQL.format(0))
        ps.register_udf("f", partial(plus, 7), ["BIGINT"], "BIGINT")
        second = ps.query(SQL.format(0))
        assert functions_of(books.queries.registry) == {"f", "f@2"}
        assert "f@2" in second.explain()
        first.drop()
        ps.register_udf("f", partial(plus, 8), ["BIGINT"], "BIGINT")
        assert sorted(udf.name for udf in known.values()) == ["f@2", "f@3"]
        ps.push("s", [{"k": 1, "ts": 1}])
        assert second.view().to_pylist() == [{"n": 8}]


def test_the_same_function_again_changes_nothing() -> None:
    with penstock.connect(runner="inprocess") as ps:
        ps.sql("CREATE STREAM s (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
        for turn in (0, 1):
            ps.register_udf("f", pc.negate, ["BIGINT"], "BIGINT")
            ps.query(SQL.format(turn))
        assert len(ps._books.queries.registry.templates) == 1


def test_a_failure_names_the_function_as_the_text_does() -> None:
    with penstock.connect(runner="inprocess") as ps:
        ps.sql("CREATE STREAM s (k BIGINT, ts BIGINT) TIMESTAMP BY ts")
        ps.register_udf("f", pc.negate, ["BIGINT"], "BIGINT")
        ps.query(SQL.format(0))
        ps.register_udf("f", lambda k: k[:0], ["BIGINT"], "BIGINT")
        broken = ps.query(SQL.format(0))
        ps.push("s", [{"k": 1, "ts": 1}])
        with pytest.raises(penstock.PenstockError, match=r"failed: f: returned 0 values"):
            broken.view()
