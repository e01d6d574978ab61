"""The form of our prose: short lines, no code described as a person, summaries with a subject."""

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
MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PERSONS = re.compile(r"\b(who|whose|whom|nobody|somebody|anyone)\b", re.IGNORECASE)
VAGUE = re.compile(r"(what|it|they|that|those|this)\b", re.IGNORECASE)
IMPORTS = re.compile(r"^```text imports\n.*?^```", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings of modules, classes, functions, attributes and constants with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names of functions and classes, in words."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text.replace("_", " ")


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String constants of several words, such as messages and remedies, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def found(path: Path, texts: Iterator[tuple[int, str]], words: re.Pattern[str]) -> list[str]:
    return [f"{name(path)}:{line}: {text[:60]}" for line, text in texts if words.search(text)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_of_documents_are_short(page: Path) -> None:
    """Rows of a table, and lines of the list of imports, cannot be broken."""
    lines = IMPORTS.sub("", page.read_text()).splitlines()
    assert not [line for line in lines if len(line) > 120 and not line.lstrip().startswith("|")]


def test_objects_are_not_described_as_persons() -> None:
    """Neither in comments and docstrings nor in messages and names."""
    places: list[str] = []
    for path in MODULES:
        source = path.read_text()
        tree = ast.parse(source)
        places += found(path, comments(source), PERSONS)
        places += found(path, sentences(tree), PERSONS)
        places += found(path, names(tree), PERSONS)
    assert not places


def test_summaries_name_their_subject() -> None:
    """A docstring does not begin with a pronoun ("What is kept", "Those of a query")."""
    places: list[str] = []
    for path in MODULES:
        texts = ((line, text.lstrip()) for line, text in docstrings(ast.parse(path.read_text())))
        first = ((line, text) for line, text in texts if VAGUE.match(text))
        places += [f"{name(path)}:{line}: {text[:60]}" for line, text in first]
    assert not places


def test_pages_do_not_describe_code_as_a_person() -> None:
    """A page may say "who" of users, and "whose" of anything."""
    persons = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)
    assert not [name(page) for page in PAGES if persons.search(page.read_text())]
