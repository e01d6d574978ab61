"""Files, functions and classes stay small (STYLE.md).

What is larger today stands in a list. The lists can only get shorter: an entry that is within its
limit, or no longer there, fails.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import penstock

ROOT = Path(penstock.__file__).parent
LINES_OF_FILE = 400
LINES_OF_FUNCTION = 60
PUBLIC_METHODS = 20

LARGE_FILES: set[str] = set()
LARGE_FUNCTIONS: set[str] = set()
LARGE_CLASSES: set[str] = set()


def parsed() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text()
        yield path.relative_to(ROOT).as_posix(), text, ast.parse(text)


def public_methods(node: ast.ClassDef) -> int:
    """How many public methods and properties a class has itself."""
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return sum(not name.startswith("_") for name in names)


def test_files_are_short() -> None:
    assert {name for name, text, _ in parsed() if text.count("\n") > LINES_OF_FILE} == LARGE_FILES


def test_functions_are_short() -> None:
    assert {
        f"{name} {node.name}"
        for name, _, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LINES_OF_FUNCTION
    } == LARGE_FUNCTIONS


def test_classes_have_few_public_methods() -> None:
    assert {
        f"{name} {node.name}"
        for name, _, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and public_methods(node) > PUBLIC_METHODS
    } == LARGE_CLASSES
