"""How EXPLAIN and reports name the SteMs of each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.eddy.flows import Flows
from penstock.expressions.context import Context, Failures
from penstock.logical.nodes import Join, JoinKind, Range, Scan
from penstock.logical.stem_kind import StemKind
from penstock.physical.draft import PlanSpec
from penstock.physical.join_specs import WindowJoinSpec
from penstock.physical.joined_windows import joined_windows
from penstock.physical.sharing import Sharing
from penstock.schema import Field, Schema
from penstock.state.arena import Arena
from penstock.state.source_log import SourceLog
from penstock.state.strings import StringTable
from penstock.types import BIGINT

SCHEMA = Schema((Field("b", BIGINT), Field("c", BIGINT), Field("d", BIGINT), Field("ts", BIGINT)))


@pytest.mark.parametrize(
    ("columns", "kind", "words"),
    [
        ((0,), StemKind.HASH, "(b)"),
        ((0, 2), StemKind.HASH, "(b, d)"),
        ((1,), StemKind.ORDERED, "(c) in order"),
        ((0, 1), StemKind.KEYED, "(b) in order of c"),
        ((0, 2, 1), StemKind.KEYED, "(b, d) in order of c"),
        ((1,), StemKind.KEYED, "in order of c"),
    ],
)
def test_explain_says_how_a_stem_finds_rows(
    columns: tuple[int, ...], kind: StemKind, words: str
) -> None:
    scans = [Scan(name, SCHEMA, Range(9), (0, 1, 2)) for name in "rs"]
    node = Join(*scans, JoinKind.INNER, ((0, 0),))
    windows = joined_windows(node)
    assert windows is not None
    found = replace(windows[0], columns=columns, kind=kind), windows[1]
    spec = WindowJoinSpec.of(node, found, None)
    note = Sharing([(PlanSpec((spec,)), 1)]).note(spec)
    assert note == f"join of 1 template; stem r {words} (1 reader); stem s (b) (1 reader)"


def test_a_report_says_the_kind_of_each_stem() -> None:
    arena = Arena()
    flows = Flows(arena, Context(StringTable(arena.scope("strings")), {}, Failures()))
    log = SourceLog(arena.scope("streams/r"), SCHEMA, 0)
    log.add(np.zeros((5, 3), np.int64), np.arange(3), 1)
    log.advance(3)
    asked = (((0,), StemKind.HASH), ((1,), StemKind.ORDERED), ((0, 1), StemKind.KEYED))
    for key in asked:
        flows.stems.acquire("r", log, *key).build(3)
    found = [
        {name: stem[name] for name in ("stream", "columns", "kind", "readers", "rows")}
        for stem in flows.report()["stems"]
    ]
    same = {"stream": "r", "readers": 1, "rows": 3}
    assert found == [
        same | {"columns": ["b"], "kind": "hash"},
        same | {"columns": ["c"], "kind": "ordered"},
        same | {"columns": ["b", "c"], "kind": "keyed"},
    ]
