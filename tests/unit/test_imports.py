"""Packages import only what the list in ARCHITECTURE.md allows, and only spark/ knows Spark.

A line of the list is `package: what it imports`. Each line may name only packages of lines above
it. The list is compared with the code in both directions: an import that is missing from the list
fails, and so does an entry that no import uses. Lines of packages leave out the modules of
`penstock` itself, which all may use.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent
MAP = ROOT.parents[1] / "ARCHITECTURE.md"
ABOVE_ALL = {"__init__", "__main__", "warm"}
"""Modules of the package itself that may import any layer."""
MODULES = sorted(ROOT.rglob("*.py"))
BASE = {path.stem for path in MODULES if path.parent == ROOT} - ABOVE_ALL


def listed() -> dict[str, frozenset[str]]:
    """What each package may import, from the fenced block `text imports` of ARCHITECTURE.md."""
    lines = iter(MAP.read_text().splitlines())
    assert "```text imports" in lines
    rows = [line.partition(":") for line in takewhile(lambda line: line != "```", lines)]
    return {name: frozenset(allowed.split()) for name, _, allowed in rows}


EDGES = listed()


def layer(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from the top"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(path: Path) -> Iterator[str]:
    """The packages of ours that a module imports."""
    for name in imported(path):
        root, *parts = name.split(".")
        if root == "penstock" and parts and parts[0] != layer(path):
            yield parts[0]


def real_edges() -> Mapping[str, set[str]]:
    """What packages import of other packages, and the modules of `penstock` of each other."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path in MODULES:
        found = {name for name in own_imports(path) if name != "__version__"}
        edges[layer(path)] |= found - BASE if path.parent != ROOT else found
    return edges


REAL = real_edges()


def test_the_list_names_every_package_once() -> None:
    assert EDGES.keys() == REAL.keys() - ABOVE_ALL


def test_a_package_stands_below_all_that_it_imports() -> None:
    names = list(EDGES)
    for at, name in enumerate(names):
        assert EDGES[name] <= set(names[:at]), f"{name} imports what is listed below it"


@pytest.mark.parametrize("name", EDGES)
def test_the_list_and_the_imports_agree(name: str) -> None:
    known = dict.fromkeys([*EDGES, *REAL])
    line = f"{name}: {' '.join(n for n in known if n in REAL[name])}"
    assert EDGES[name] == REAL[name], f"ARCHITECTURE.md would say: {line}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_foreign_imports_stay_in_their_layer(path: Path) -> None:
    own = layer(path)
    roots = {name.split(".")[0] for name in imported(path)}
    assert "pyspark" not in roots or own == "spark", "only spark/ imports pyspark"
    assert "pyarrow" not in roots or own != "kernels", "kernels never see Arrow"
    assert not roots & {"click"} or own == "cli", "only cli/ imports click"
