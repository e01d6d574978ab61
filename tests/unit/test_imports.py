"""Imports point one way (DESIGN §5), and only the Spark runner knows Spark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

ROOT = Path(penstock.__file__).parent
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "secret",
        "errors",
        "dispatch",
        "frozen",
        "types",
        "schema",
        "arrays",
        "delta",
        "changes",
        "roomy",
    ),
    ("kernels",),
    ("state",),
    ("logical",),
    ("expressions",),
    ("predicates",),
    ("sql", "patterns"),
    ("optimizer",),
    ("queries",),
    ("indexes", "stems"),
    ("eddy",),
    ("physical",),
    ("engine",),
    ("shards",),
    ("spark", "inprocess"),
    ("session",),
    ("cli", "console"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ABOVE_ALL = {"__init__", "__main__", "warm"}
"""Modules of the package itself that may import any layer."""
MODULES = sorted(ROOT.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports from the top"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_has_a_layer() -> None:
    assert {layer(path) for path in MODULES} <= RANK.keys() | ABOVE_ALL


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = layer(path)
    if own in ABOVE_ALL:
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "penstock" and len(parts) > 1 and parts[1] in RANK:
            assert RANK[parts[1]] <= RANK[own], f"{own} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_foreign_imports_stay_in_their_layer(path: Path) -> None:
    own = layer(path)
    roots = {name.split(".")[0] for name in imported(path)}
    assert "pyspark" not in roots or own == "spark", "only spark/ imports pyspark"
    assert "pyarrow" not in roots or own != "kernels", "kernels never see Arrow"
    assert not roots & {"click"} or own == "cli", "only cli/ imports click"
