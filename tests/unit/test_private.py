"""No module reads another object's private attributes; the packages that still do, do no more."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import penstock

ROOT = Path(penstock.__file__).parent
OWN = ("self", "cls", "other")
"""Names of objects of the same class."""
PUBLIC = ("_replace", "_getframe")
"""Names of Python's own that are public in spite of the underscore."""
MOST = {"kernels": 2, "spark": 19, "sql": 14, "state": 26}
"""How many such places a package has, of attributes of Spark and sqlglot too; all others: none."""


def places(path: Path) -> Iterator[str]:
    """Where a module reads `x._name` of an object that is not its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Attribute) or node.attr in PUBLIC:
            continue
        owner = node.value
        own = isinstance(owner, ast.Name) and owner.id in OWN
        inherited = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
        private = node.attr.startswith("_") and not node.attr.startswith("__")
        if private and not own and not inherited:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"


def package(place: str) -> str:
    return place.split("/")[0].split(".py:")[0]


def test_private_attributes_stay_private() -> None:
    found = [place for path in sorted(ROOT.rglob("*.py")) for place in places(path)]
    more = Counter(map(package, found)) - Counter(MOST)
    assert not more, [place for place in found if package(place) in more]
