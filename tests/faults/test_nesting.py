"""Deep SQL, also where the caller's own stack is deep: the same answer or the same refusal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from faults.books import clear_stop, close
from penstock.errors import PenstockError

STREAM = "CREATE STREAM r (k INT, a BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100"


def parentheses(n: int) -> str:
    return f"SELECT {'(' * n}a{')' * n} AS v FROM r [RANGE 10]"


def sums(n: int) -> str:
    return f"SELECT a{' + 1' * n} AS v FROM r [RANGE 10]"


def calls(n: int) -> str:
    return f"SELECT {'abs(' * n}a{')' * n} AS v FROM r [RANGE 10]"


def cases(n: int) -> str:
    start = "CASE WHEN k > 100 THEN 0 ELSE " * n
    return f"SELECT {start}a{' END' * n} AS v FROM r [RANGE 10]"


def conditions(n: int) -> str:
    times = n // 2 * 2
    start = "NOT (k = 9 AND " * times
    return f"SELECT a AS v FROM r [RANGE 10] WHERE {start}k < 0{')' * times}"


def choices(n: int) -> str:
    return "SELECT a AS v FROM r [RANGE 10] WHERE " + " OR ".join(f"k = {i}" for i in range(n))


def subqueries(n: int) -> str:
    return "SELECT v FROM (" * n + "SELECT a AS v FROM r [RANGE 10]" + ") AS t" * n


def unions(n: int) -> str:
    return " UNION ALL ".join(["SELECT a AS v FROM r [RANGE 10]"] * min(n, 40))


def joins(n: int) -> str:
    more = "".join(f" JOIN r [RANGE 10] AS t{i} ON t0.k = t{i}.k" for i in range(1, n % 9 + 1))
    return f"SELECT t0.a AS v FROM r [RANGE 10] AS t0{more}"


SHAPES = [parentheses, sums, calls, cases, conditions, choices, subqueries, unions, joins]
DEPTHS = [3, 30, 70, 140, 900]


def at_depth(depth: int, work: Callable[[], Any]) -> Any:
    """Call from a stack that has `depth` frames more."""
    return at_depth(depth - 1, work) if depth else work()


def room() -> int:
    """How many frames are left here."""
    frame, used = sys._getframe(), 0
    while frame.f_back is not None:
        frame, used = frame.f_back, used + 1
    return sys.getrecursionlimit() - used


def life(session: Any, text: str) -> Any:
    """All that may happen to a query; its answer, or how it is refused."""
    try:
        session.sql("EXPLAIN " + text)
        query = session.query(text)
        session.push("r", [{"k": 1, "a": 5, "ts": session.stats()["streams"]["r"]["received"]}])
        answer = query.view().to_pylist()
        assert query.status == "running", session.sql("SHOW QUERIES").to_pylist()
        session.sql(f"EXPLAIN {query.name}")
        query.drop()
        view = session.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        view.drop()
    except PenstockError as error:
        clear_stop(error)
        return error.code
    return len(answer), answer[0]


@pytest.mark.parametrize("shards", [None, 2], ids=["one", "shards"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_deep_caller_sees_the_same(shape: Callable[[int], str], shards: int | None) -> None:
    left = room()
    for depth in DEPTHS if shards is None else DEPTHS[:3:2]:
        seen = []
        for spare in (left - 20, left - 150, 90):  # frames that the caller leaves
            session = penstock.connect(runner="inprocess", shards=shards)
            session.sql(STREAM)
            seen.append(at_depth(left - spare, lambda s=session, d=depth: life(s, shape(d))))
            close(session)
        assert seen[1] == seen[2], (depth, seen)
        # a shallow caller runs on its own stack, and may be refused a little earlier
        assert seen[0] in (seen[2], "PS-SQL-028"), (depth, seen)
        if depth < 30:
            assert not isinstance(seen[0], str), f"{depth} levels are refused: {seen[0]}"


def test_views_over_views(tmp_path: Path) -> None:
    """A tower of views stands, or is refused while it is built; it comes back after a restart."""

    def build() -> int:
        with penstock.connect(runner="inprocess", checkpoint=tmp_path / "c") as session:
            session.sql(STREAM)
            below = "r [RANGE 10]"
            for n in range(400):
                try:
                    session.sql(f"CREATE MATERIALIZED VIEW v{n} AS SELECT a, k FROM {below}")
                except PenstockError as error:
                    clear_stop(error)
                    return n
                below = f"v{n}"
            return 400

    high = at_depth(room() - 90, build)
    assert high > 20
    with penstock.connect(runner="inprocess", checkpoint=tmp_path / "c") as session:
        session.push("r", [{"k": 1, "a": 5, "ts": 1}])
        assert session[f"v{high - 1}"].view().num_rows == 1
