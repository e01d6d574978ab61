"""A class that a table forgets is an error when the module of the table is imported."""

from __future__ import annotations

import importlib
import runpy

import pytest

from penstock.dispatch import case, classes, complete
from penstock.engine import blocks
from penstock.errors import PlanError
from penstock.logical import nodes
from penstock.shards import encoding

TABLES = {
    "penstock.patterns.rules": "update pattern rule",
    "penstock.logical.on_error": "ON ERROR NULL",
    "penstock.optimizer.cost": "cost",
    "penstock.optimizer.estimate": "estimate",
    "penstock.optimizer.input_spreads": "distribution",
    "penstock.optimizer.prune_projection": "answer whether its rows are keyed",
}
"""Modules that say something of every kind of node, and what is missing first for a new one."""


class Novel(nodes.Node):
    """A kind of node that no table knows."""


@pytest.mark.parametrize(("module", "what"), TABLES.items())
def test_a_new_kind_of_node_fails_every_import(
    module: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # imported before, what the module itself imports does not see the new kind
    path = importlib.import_module(module).__file__ or ""
    monkeypatch.setattr(nodes, "Novel", Novel, raising=False)
    with pytest.raises(PlanError, match=f"no {what} for Novel"):
        runpy.run_path(path, run_name=module)


BLOCK_TABLES = {
    "penstock.engine.engine": "way to take a block",
    "penstock.shards.encoding": "way to encode a block",
    "penstock.shards.level1": "way to take a block",
    "penstock.shards.level2": "way to take a block",
}
"""Modules that say something of every kind of block, and what is missing first for a new one."""


@pytest.mark.parametrize(("module", "what"), BLOCK_TABLES.items())
def test_a_new_kind_of_block_fails_every_import(
    module: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = importlib.import_module(module).__file__ or ""
    monkeypatch.setattr(blocks, "Block", blocks.Block | Novel)
    monkeypatch.setattr(encoding, "Encoded", encoding.Encoded | Novel)
    with pytest.raises(PlanError, match=f"no {what} for Novel"):
        runpy.run_path(path, run_name=module)


def test_the_classes_of_a_union() -> None:
    assert classes(int | list[str] | dict[str, int]) == [int, list, dict]


def test_a_complete_table_passes_and_the_missing_classes_are_named() -> None:
    table: dict[type, object] = {}

    @case(table, int, str)
    def plain(value: object) -> str:
        return f"{value}"

    complete(table, [int, str], "text")
    assert table == {int: plain, str: plain}
    with pytest.raises(PlanError, match="no text for float, bytes"):
        complete(table, [int, float, bytes], "text")
