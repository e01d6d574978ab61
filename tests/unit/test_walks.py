"""The walks of ARCHITECTURE.md and the files of docs/contributing.md are those of the code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine import build

ROOT = Path(__file__).parents[2]
CODE = Path(penstock.__file__).parent
WALK = re.compile(r"^```text walk\n(.*?)^```", re.MULTILINE | re.DOTALL)
Step = tuple[str, str]
SQL = "SELECT k, count(*) AS n FROM s [RANGE 10] WHERE v > 3 GROUP BY k"


def walks() -> list[list[Step]]:
    """File and function of each step."""
    texts = WALK.findall((ROOT / "ARCHITECTURE.md").read_text())
    return [[(line.split()[0], line.split()[1]) for line in t.splitlines()] for t in texts]


def functions(path: Path) -> set[str]:
    """The functions of a file and the methods of its classes."""
    tree = ast.parse(path.read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


@contextmanager
def called() -> Iterator[list[Step]]:
    """The functions of the package that are called, in order."""
    found: list[Step] = []

    def note(frame: Any, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(CODE):
            found.append((path.relative_to(CODE).as_posix(), frame.f_code.co_qualname))

    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("walk", walks())
def test_steps_of_walks_are_functions(walk: list[Step]) -> None:
    for file, function in walk:
        assert function in functions(CODE / file), f"{file} has no {function}"


def follows(walk: list[Step], calls: list[Step]) -> None:
    at = 0
    for step in walk:
        assert step in calls[at:], f"{step} is not called after the steps before it"
        at = calls.index(step, at)


@pytest.fixture
def session() -> Iterator[penstock.Session]:
    with penstock.connect(runner="inprocess") as made:
        made.sql("CREATE STREAM s (k BIGINT, v BIGINT, ts BIGINT) TIMESTAMP BY ts")
        yield made


def test_a_row_walks_as_the_map_says(session: penstock.Session) -> None:
    session.query(SQL)
    session.push("s", [{"k": 1, "v": 5, "ts": 1}])
    with called() as calls:
        session.push("s", [{"k": 1, "v": 5, "ts": 2}])
    follows(walks()[0], calls)


def test_a_query_walks_as_the_map_says(session: penstock.Session) -> None:
    build.spec_of.cache_clear()  # other tests of this process plan the same text
    with called() as calls:
        session.query(SQL)
    follows(walks()[2], calls)


def test_files_named_to_contributors_exist() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text()
    paths = re.findall(r"`((?:src|tests)/[\w/.]+)`", text)
    assert len(paths) > 20
    for path in paths:
        assert (ROOT / path).exists(), path
