"""The form of our prose: lines of documents are short, and code is not described as a person."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PERSONS = re.compile(r"\b(who|whose|whom|nobody|somebody|anyone)\b", re.IGNORECASE)
IMPORTS = re.compile(r"^```text imports\n.*?^```", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a module with their lines."""
    source = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def personified(path: Path) -> list[str]:
    return [f"{name(path)}:{line}" for line, text in texts(path) if PERSONS.search(text)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_of_documents_are_short(page: Path) -> None:
    """Rows of a table, and lines of the list of imports, cannot be broken."""
    lines = IMPORTS.sub("", page.read_text()).splitlines()
    assert not [line for line in lines if len(line) > 120 and not line.lstrip().startswith("|")]


def test_objects_are_not_described_as_persons() -> None:
    assert not [place for path in SOURCE.rglob("*.py") for place in personified(path)]
