"""Served views against a bag in memory: batches, repeats, restarts and interruptions."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import types as t
from penstock.errors import NameError_, StateError
from penstock.schema import Field, Schema
from penstock.session.changelog import Changelog
from penstock.session.view_store import ViewStore

SCHEMA = Schema(
    (
        Field("k", t.INT),
        Field("big", t.BIGINT),
        Field("x", t.DOUBLE),
        Field("f", t.FLOAT),
        Field("s", t.STRING),
        Field("price", t.decimal(18, 2)),
        Field("day", t.DATE),
        Field("at", t.TIMESTAMP),
        Field("yes", t.BOOLEAN),
        Field("select", t.INT),
    )
)
ARROW = SCHEMA.arrow()
NAN = math.nan
POOL: list[list[Any]] = [
    [None, 0, 1],
    [None, -(2**63), 2**63 - 1],
    [None, 0.5, NAN, math.inf],
    [None, 0.25, NAN],
    [None, "", "a", 'é"\\\x00', "x" * 40],
    [None, Decimal("-1234567890123456.78"), Decimal("0.10")],
    [None, dt.date(1969, 12, 31)],
    [None, dt.datetime(1960, 1, 1, 0, 0, 0, 1), dt.datetime(2100, 1, 1)],
    [None, True, False],
    [None, 7],
]
Row = tuple[Any, ...]


def random_row(rng: np.random.Generator) -> Row:
    """Few distinct rows, so that there are many copies."""
    chosen = [values[0] for values in POOL]
    for j in rng.choice(len(POOL), 2, replace=False):
        chosen[j] = POOL[j][rng.integers(len(POOL[j]))]
    return tuple(chosen)


def key(row: Row) -> Row:
    """The row as a key: NaN is not equal to itself in Python."""
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


def bag(table: pa.Table) -> Counter[Row]:
    return Counter(key(tuple(row.values())) for row in table.to_pylist())


def rows_table(rows: list[Row]) -> pa.Table:
    columns = [[row[j] for row in rows] for j in range(len(ARROW))]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ARROW, strict=True)], ARROW)


def changes_table(changes: list[tuple[str, Row]], batch: int) -> pa.Table:
    rows = rows_table([row for _, row in changes])
    n = rows.num_rows
    kinds = pa.array([kind for kind, _ in changes], pa.string())
    meta = [pa.array(["q"] * n, pa.string()), kinds, pa.nulls(n), [batch] * n, list(range(n))]
    names = ["_query", "_change_type", "_time", "_batch", "_seq", *ARROW.names]
    return pa.table([*meta, *rows.columns], names).cast(
        Changelog(SCHEMA, False).columns(many=False)
    )


class Model:
    """The answer as a list of rows."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows = [random_row(rng) for _ in range(rng.integers(30))]

    def bag(self) -> Counter[Row]:
        return Counter(map(key, self.rows))

    def change(self) -> list[tuple[str, Row]]:
        """Insertions, deletions and replacements of rows that are there, some of them transient."""
        made: list[tuple[str, Row]] = []
        for _ in range(self.rng.integers(25)):
            word = self.rng.choice(["insert", "delete", "update"])
            if word != "insert" and not self.rows:
                continue
            if word == "insert":
                self.rows.append(random_row(self.rng))
                made.append(("insert", self.rows[-1]))
                continue
            gone = self.rows.pop(self.rng.integers(len(self.rows)))
            made.append(("delete" if word == "delete" else "update_preimage", gone))
            if word == "update":
                self.rows.append(random_row(self.rng))
                made.append(("update_postimage", self.rows[-1]))
        return made


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kept", ["memory", "file"])
def test_random_changes_of_several_views(tmp_path: Path, kept: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "views.duckdb" if kept == "file" else None
    store = ViewStore(path)
    models: dict[str, Model] = {}
    for batch in range(1, 31):
        if batch % 9 == 1:
            name = f"view {batch}"
            models[name] = Model(rng)
            store.open(name, ARROW, rows_table(models[name].rows), batch - 1)
        changes = {name: changes_table(m.change(), batch) for name, m in models.items()}
        store.apply(batch, changes)
        if rng.random() < 0.3:
            store.apply(batch, changes)
        if path is not None and batch % 7 == 0:
            store.shut()
            store = ViewStore(path)
            assert store.batch == batch
        assert {name: bag(store.read(name)) for name in store.names()} == {
            name: m.bag() for name, m in models.items()
        }
    assert len(models) == 4
    assert store.read("view 1").schema == ARROW
    store.shut()


ONE, TWO = (rows_table([r]).to_pylist()[0] for r in ((1,) + (None,) * 9, (2,) + (None,) * 9))


def insert(row: dict[str, Any], batch: int) -> pa.Table:
    return changes_table([("insert", tuple(row.values()))], batch)


def opened(path: Path | None = None, *names: str) -> ViewStore:
    store = ViewStore(path)
    for name in names:
        store.open(name, ARROW, rows_table([tuple(ONE.values())]), 4)
    return store


def test_an_interrupted_batch_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "views.duckdb"
    store = opened(path, "a", "b")
    changes = {name: insert(TWO, 5) for name in ("a", "b")}
    merge = ViewStore._merge

    def failing(self: ViewStore, name: str, table: pa.Table) -> None:
        merge(self, name, table)
        if name == "b":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ViewStore, "_merge", failing)
        with pytest.raises(KeyboardInterrupt):
            store.apply(5, changes)
    assert [store.read(n).to_pylist() for n in ("a", "b")] == [[ONE], [ONE]]
    assert store.batch == -1
    store.shut()
    store = ViewStore(path)
    store.apply(5, changes)
    assert [store.read(n).num_rows for n in ("a", "b")] == [2, 2]
    store.shut()


def test_a_process_that_dies_in_a_batch_leaves_the_batch_before(tmp_path: Path) -> None:
    path = tmp_path / "views.duckdb"
    opened(path, "a").shut()
    script = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_view_store import TWO, ViewStore, insert
store = ViewStore(Path({str(path)!r}))
store.apply(5, {{"a": insert(TWO, 5)}})
merge = ViewStore._merge
def die(self, name, table):
    merge(self, name, table)
    os._exit(7)
ViewStore._merge = die
store.apply(6, {{"a": insert(TWO, 6)}})
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
    store = ViewStore(path)
    assert store.batch == 5
    assert store.read("a").num_rows == 2
    store.shut()


def test_a_deletion_of_what_is_not_there_is_refused_and_undone() -> None:
    store = opened(None, "a", "b")
    wrong = changes_table([("delete", tuple(TWO.values()))], 5)
    with pytest.raises(StateError, match="PS-VIEW-004"):
        store.apply(5, {"a": insert(TWO, 5), "b": wrong})
    assert store.read("a").to_pylist() == [ONE]
    store.apply(5, {"a": insert(TWO, 5)})
    assert store.read("a").num_rows == 2


def test_changes_that_do_not_fit_are_refused_and_undone() -> None:
    store = opened(None, "a")
    wrong = insert(TWO, 5).drop_columns(["k"])
    with pytest.raises(StateError, match="PS-VIEW-001"):
        store.apply(5, {"a": wrong})
    store.apply(5, {"a": insert(TWO, 5)})
    assert store.read("a").num_rows == 2


def test_one_of_several_copies_goes() -> None:
    store = opened(None, "a")
    row = tuple(ONE.values())
    store.apply(5, {"a": changes_table([("insert", row)] * 3 + [("delete", row)], 5)})
    assert store.read("a").to_pylist() == [ONE] * 3
    store.apply(6, {"a": changes_table([("delete", row)] * 2, 6)})
    assert store.read("a").to_pylist() == [ONE]


def test_a_view_takes_batches_after_its_opening_only() -> None:
    store = opened(None, "a")
    store.apply(4, {"a": insert(TWO, 4)})
    assert store.read("a").num_rows == 1
    store.apply(6, {})
    with pytest.raises(StateError, match="PS-VIEW-002"):
        store.open("late", ARROW, rows_table([]), 5)


def test_names_that_duckdb_confuses_are_kept_apart(tmp_path: Path) -> None:
    names = ["hot", "Hot", 'a "b"; --', "_penstock_views", "select"]
    store = opened(tmp_path / "v.duckdb", *names)
    store.apply(5, {"Hot": insert(TWO, 5)})
    store.shut()
    store = ViewStore(tmp_path / "v.duckdb")
    assert store.names() == names
    assert [store.read(n).num_rows for n in names] == [1, 2, 1, 1, 1]
    store.close("hot")
    store.close("never there")
    assert "hot" not in store
    assert store.read("Hot").num_rows == 2
    with pytest.raises(NameError_, match="PS-VIEW-003"):
        store.read("hot")
    store.open("hot", ARROW, rows_table([]), 5)
    assert store.read("hot").num_rows == 0
    store.drop()
    assert store.names() == []
    store.shut()


def test_views_of_another_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "v.duckdb"
    store = ViewStore(path, "one")
    store.open("a", ARROW, rows_table([]), 8)
    store.apply(9, {})
    store.shut()
    store = ViewStore(path, "one")
    assert (store.names(), store.batch) == (["a"], 9)
    store.shut()
    store = ViewStore(path, "two")
    assert (store.names(), store.batch) == ([], -1)
    store.shut()


def test_a_file_that_is_in_use_or_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "v.duckdb"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StateError, match="PS-VIEW-001"):
        ViewStore(path)
    path.unlink()
    store = opened(path, "a")
    script = (
        "from pathlib import Path; from penstock.session.view_store import ViewStore; "
        f"ViewStore(Path({str(path)!r}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert "PS-VIEW-001" in other.stderr
    store.shut()
