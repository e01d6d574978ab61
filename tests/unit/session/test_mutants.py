"""Whatever the text, sql() answers or raises a PenstockError in words of ours."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

import mutants
import pytest
from sqlglot import exp

import penstock
from penstock.errors import PenstockError

_CLASSES = [name for name in vars(exp) if re.search("[a-z][A-Z]", name)]
_FOREIGN = re.compile(r"\b(" + "|".join(_CLASSES) + r")\b|sqlglot|<class|<Token", re.IGNORECASE)
_ROWS = [
    {"k": 1, "a": 2, "x": 0.5, "s": "two", "d": "1.25"},
    {"k": None, "a": None, "x": None, "s": None, "d": None},
    {"k": -1, "a": 2**62, "x": 1e300, "s": "", "d": "99999999.99"},
]


@pytest.mark.parametrize("shards", [None, 2])
def test_mutated_statements_raise_nothing_but_errors_of_ours(shards: int | None) -> None:
    ran, refused = 0, []
    for text in _in_fresh_sessions(shards, 15 if shards else 30):
        try:
            text.run()
            ran += 1
        except PenstockError as error:
            refused.append((str(error), text.sql))
    assert ran > 10
    assert len(refused) > 50
    assert not [pair for pair in refused if _FOREIGN.search(pair[0])]


class _Trial:
    def __init__(self, ps: penstock.Session, sql: str, at: int) -> None:
        self.ps, self.sql, self.at = ps, sql, at

    def run(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            result = self.ps.sql(self.sql)
            if isinstance(result, penstock.Query):
                self.ps.push("r", [{**row, "ts": self.at} for row in _ROWS])
                result.changes()
                result.drop()


def _in_fresh_sessions(shards: int | None, sessions: int) -> Iterator[_Trial]:
    for seed in range(sessions):
        with penstock.connect(runner="inprocess", shards=shards) as ps:
            ps.sql(mutants.SETUP)
            for at, sql in enumerate(mutants.statements(seed, 15)):
                yield _Trial(ps, sql, at)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k // 2 AS h FROM r [RANGE 5]",
        "SELECT k FROM r [RANGE 5] WHERE k =",
        "SELECT k FROM r [RANGE 5] :x at > 1",
        "SELECT k FROM r [RANGE 5] UNION BY NAME SELECT k FROM t",
        "SELECT k & 1 FROM r [RANGE 5]",
        "SELECT s AT TIME ZONE 'UTC' FROM r [RANGE 5]",
        "SELECT s -> 'a' FROM r [RANGE 5]",
        "SELECT a[1] FROM r [RANGE 5]",
        "SELECT k FROM r [RANGE 5] TABLESAMPLE (10)",
        "SELECT k FROM UNNEST(k)",
        "SELECT k FROM",
        "SELECT TRIM(BOTH FROM s) FROM",
        "CREATE MATERIALIZED VIEW w AS",
        "UPDATE t SET b = b //",
        "DELETE FROM t WHERE",
        "VALUES (1)",
        "SELECT v.() c FROM v",
        "SELECT k FROM r [RANGE 5] WHERE r.() = 1",
    ],
)
def test_no_message_names_a_class_of_the_parser(sql: str) -> None:
    with penstock.connect(runner="inprocess") as ps:
        ps.sql(mutants.SETUP)
        with pytest.raises(PenstockError) as caught:
            ps.sql(sql)
    assert not _FOREIGN.search(str(caught.value)), str(caught.value)
    assert caught.value.remedy
