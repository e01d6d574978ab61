"""Which blocks of the log are one step."""

from __future__ import annotations

import numpy as np

from penstock.delta import EVERY_CHANGE
from penstock.engine import blocks as b
from penstock.logical.nodes import TableScan
from penstock.optimizer.distribution import undivided
from penstock.schema import Schema
from penstock.shards.encoding import Encoded
from penstock.shards.entries import LogEntry, steps


def add(since: int) -> b.AddQueries[bytes]:
    return b.AddQueries(1, b"", False, np.array([since]), since)


ADD = add(1)
PLAN = TableScan("t", Schema(()), False, ())
TEMPLATE = b.AddTemplate(1, undivided(PLAN), Schema(()), EVERY_CHANGE)
DROP = b.DropQueries(1, np.array([0]))
ROWS = b.Rows("r", b"", 5)
READ = b.Read(7, 1, np.array([0]))


def _steps(*entries: tuple[Encoded, ...]) -> list[list[Encoded]]:
    return list(steps(LogEntry(number, blocks) for number, blocks in enumerate(entries, 1)))


def _names(*entries: tuple[Encoded, ...]) -> list[list[str]]:
    return [[type(block).__name__ for block in blocks] for blocks in _steps(*entries)]


def test_queries_that_follow_each_other_are_one_step_with_their_templates() -> None:
    assert _names((ADD,), (ADD,), (ADD, ADD)) == [["AddQueries"] * 4]
    assert _names((ADD,), (TEMPLATE, ADD, ADD), (TEMPLATE, ADD), (ROWS,)) == [
        ["AddQueries", "AddTemplate", "AddQueries", "AddQueries", "AddTemplate", "AddQueries"],
        ["Rows"],
    ]


def test_all_else_is_a_step_of_its_own() -> None:
    assert _names((ADD,), (DROP, READ), (ROWS,), (ADD, ROWS)) == [
        ["AddQueries"], ["DropQueries"], ["Read"], ["Rows"], ["AddQueries"], ["Rows"],
    ]  # fmt: skip
    assert _names() == []


def test_queries_that_go_one_after_another_are_one_step_and_one_block_per_template() -> None:
    other = b.DropQueries(2, np.array([0]))
    drops = tuple(b.DropQueries(1, np.array(qids)) for qids in ([3], [1, 5], [2]))
    first, *others = _steps(*((block,) for block in (*drops, other, DROP, ADD, DROP)))
    dropped = [(d.template, d.qids.tolist()) for d in first if isinstance(d, b.DropQueries)]
    assert dropped == [(1, [0, 1, 2, 3, 5]), (2, [0])]
    assert others == [[ADD], [DROP]]


def test_queries_between_which_no_row_came_see_rows_from_the_same_epoch_on() -> None:
    made = _steps((add(1),), (TEMPLATE, add(2)), (DROP,), (add(4),), (ROWS,), (add(6),), (add(7),))
    blocks = [block for step in made for block in step]
    assert [block.since for block in blocks if isinstance(block, b.AddQueries)] == [1, 1, 1, 6, 6]


def test_the_epoch_of_rows_is_the_number_of_their_entry() -> None:
    blocks = [block for step in _steps((ROWS,), (ADD, ROWS), (DROP,), (ROWS,)) for block in step]
    assert [block.epoch for block in blocks if isinstance(block, b.Rows)] == [1, 2, 4]
