"""Which blocks of the log are one step."""

from __future__ import annotations

import numpy as np

from penstock.engine import blocks as b
from penstock.logical.nodes import TableScan
from penstock.optimizer.distribution import Distributed
from penstock.schema import Schema
from penstock.shards import entries as e

ADD = e.AddQueries(1, np.array([0]), b"", False, 1)
PLAN = TableScan("t", Schema(()), False, ())
DEPLOY = e.Deploy(1, Distributed(PLAN, (), None, ()), Schema(()), False, (), (), ())
DROP = b.DropQueries(1, np.array([0]))
PUSH = e.Push("r", b"", 5)
READ = e.Read(7, 1, np.array([0]))


def _steps(*entries: tuple[e.EntryBlock, ...]) -> list[tuple[int, list[str]]]:
    made = (e.LogEntry(number, blocks) for number, blocks in enumerate(entries, 1))
    return [(n, [type(block).__name__ for block in blocks]) for n, blocks in e.steps(made)]


def test_queries_that_follow_each_other_are_one_step_with_their_templates() -> None:
    assert _steps((ADD,), (ADD,), (ADD, ADD)) == [(3, ["AddQueries"] * 4)]
    assert _steps((ADD,), (DEPLOY, ADD, ADD), (DEPLOY, ADD), (PUSH,)) == [
        (4, ["AddQueries", "Deploy", "AddQueries", "AddQueries", "Deploy", "AddQueries"]),
        (4, ["Push"]),
    ]


def test_all_else_is_a_step_of_its_own() -> None:
    assert _steps((ADD,), (DROP, READ), (PUSH,), (ADD, PUSH)) == [
        (2, ["AddQueries"]),
        (2, ["DropQueries"]),
        (2, ["Read"]),
        (3, ["Push"]),
        (4, ["AddQueries"]),
        (4, ["Push"]),
    ]
    assert _steps() == []


def test_queries_that_go_one_after_another_are_one_step_and_one_block_per_template() -> None:
    other = b.DropQueries(2, np.array([0]))
    drops = tuple(b.DropQueries(1, np.array(qids)) for qids in ([3], [1, 5], [2]))
    made = (e.LogEntry(n, (block,)) for n, block in enumerate((*drops, other, DROP, ADD, DROP), 1))
    first, *others = [blocks for _, blocks in e.steps(made)]
    dropped = [(d.template, d.qids.tolist()) for d in first if isinstance(d, b.DropQueries)]
    assert dropped == [(1, [0, 1, 2, 3, 5]), (2, [0])]
    assert others == [[ADD], [DROP]]


def test_queries_between_which_no_row_came_see_rows_from_the_same_epoch_on() -> None:
    def add(since: int) -> e.AddQueries:
        return e.AddQueries(1, np.array([since]), b"", False, since)

    made = ((add(1),), (DEPLOY, add(2)), (DROP,), (add(4),), (PUSH,), (add(6),), (add(7),))
    entries = (e.LogEntry(number, blocks) for number, blocks in enumerate(made, 1))
    blocks = [block for _, step in e.steps(entries) for block in step]
    assert [block.since for block in blocks if isinstance(block, e.AddQueries)] == [1, 1, 1, 6, 6]
