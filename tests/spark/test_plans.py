"""Every golden plan on Spark: all files in one session, with 1, 2 and 4 shards.

The in-process session gets the same calls. At every instant the changes must come to the same,
and so must the views.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from golden.runner import Golden
from oracle.fold import Values, same, show
from spark.goldens import FILES, Calls, net, renamed
from spark.reading import views

FLUSH_EVERY = 3  # rounds of calls


@dataclass(frozen=True, slots=True)
class Seen:
    """What a query showed: its changes, netted; its view, unless it has none."""

    changes: Counter[Values]
    view: Counter[Values] | None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("golden")
    made = [renamed(path, n, directory) for n, path in enumerate(FILES)]
    for path in made:  # they still say the same under other names
        Golden(path).run()
    return made


@pytest.fixture(scope="module")
def expected(files: list[Path]) -> dict[str, Seen]:
    with penstock.connect(runner="inprocess") as session:
        return watch(session, files)


def watch(session: Any, files: list[Path]) -> dict[str, Seen]:
    """The calls of all files in turns, few of which wait, and what every query shows."""
    scripts = [Calls(path, session) for path in files]
    for n, _ in enumerate(zip_longest(*(script.run() for script in scripts))):
        if n % FLUSH_EVERY == 0:
            session.flush()
    session.flush()
    queries = {
        f"{script.path.stem} {n} {query.name}": (query, "on_commit" not in script.path.stem)
        for script in scripts
        for n, query in enumerate(script.queries)
    }
    held = views(session, [query for query, _ in queries.values()])
    return {
        key: Seen(net(query.changes(), by_time), held.get(query))
        for key, (query, by_time) in queries.items()
    }


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_answers_are_those_of_one_engine(
    spark: SparkSession, files: list[Path], expected: dict[str, Seen], shards: int
) -> None:
    session = penstock.connect(spark=spark, shards=shards)
    try:
        found = watch(session, files)
        batches = session.progress()
    finally:
        session.close()
    assert len(files) >= 40
    assert len(expected) >= 60
    assert len(batches) >= 5
    assert found.keys() == expected.keys()
    wrong = []
    for key, wanted in expected.items():
        seen = found[key]
        if not same_net(seen.changes, wanted.changes):
            wrong.append(f"{key}: {show(seen.changes)} instead of {show(wanted.changes)}")
        if not same_view(seen.view, wanted.view):
            wrong.append(f"{key} holds {seen.view} instead of {wanted.view}")
    assert not wrong, "\n".join(wrong)


def same_view(left: Counter[Values] | None, right: Counter[Values] | None) -> bool:
    """Equality of views; a query may have none."""
    if left is None or right is None:
        return left is right
    return same(left, right)


def same_net(left: Counter[Values], right: Counter[Values]) -> bool:
    """Equality of signed bags."""
    return same(+left, +right) and same(-left, -right)
