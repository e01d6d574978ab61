"""What is said of queries that have failed, at every entrance; the same on every runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.errors import QueryFailed

STREAM = "CREATE STREAM f (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts"
REASON = "picky: ValueError: 9 is too much"


def picky(values: pa.Array) -> pa.Array:
    """A function that does not take all values."""
    if 9 in values.to_pylist():
        raise ValueError("9 is too much")
    return values


def told(session: Any, function: Callable[[pa.Array], pa.Array] = picky) -> dict[str, str]:
    """What reads of failed queries say, each of them the first of its query.

    Workers of Spark cannot import this module: they need a function that is defined in a test.
    """
    session.sql(STREAM)
    session.register_udf("picky", function, ["BIGINT"], "BIGINT")
    text = "SELECT k, picky(a) AS a FROM f [RANGE 10]"
    seen, unseen, shown = (session.query(f"{text} WHERE k < {n}") for n in (7, 8, 9))
    many = session.query_many(
        f"{text} WHERE k < $n", [{"n": 5, "qid": "m5"}, {"n": 6, "qid": "m6"}]
    )
    session.push("f", [{"k": 1, "a": 2, "ts": 1}])
    assert shown.view().to_pylist() == [{"k": 1, "a": 2}]
    assert many.view().num_rows == 2
    session.push("f", [{"k": 2, "a": 9, "ts": 2}])
    found = {"view": _said(seen.view), "view of many": _said(many.view)}
    for name, handle in (("changes", unseen), ("changes of many", many)):
        kinds = handle.changes()["_change_type"].to_pylist()
        assert kinds.count("insert") == kinds.count("delete") > 0  # all it had shown
        found[name] = _said(handle.changes)
    found["view again"] = _said(shown.view)
    found["view of one of many"] = _said(many[1].view)
    assert {q.status for q in (seen, unseen, shown, *many)} == {"failed"}
    assert session.query(text.replace("picky(a)", "a")).status != "failed"
    return found


def expected(names: dict[str, str]) -> dict[str, str]:
    """What they should say, of queries by their names."""
    remedy = (
        "\n  remedy: drop it and register it again: corrected, or with ON ERROR NULL or SKIP ROW"
    )
    return {
        what: f"[PS-RUN-001] query {name} failed: {REASON}{remedy}" for what, name in names.items()
    }


NAMES = {
    "view": "q1", "view of many": "m5", "changes": "q2", "changes of many": "m5",
    "view again": "q3", "view of one of many": "m6",
}  # fmt: skip


def _said(read: Any) -> str:
    try:
        return str(read())
    except QueryFailed as error:
        return str(error)
