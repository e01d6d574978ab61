"""Views that have been read, kept in DuckDB from the changes of each batch (DESIGN §5.6 point 6).

A view is a table with the rows of the answer, including duplicates. One transaction applies a batch
to all views and records its number: a batch that comes again is skipped, and an interrupted one
leaves nothing behind. While the store is open, DuckDB locks its file against other processes; after
`shut` any process can read it, with table names as in `_penstock_views`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import NameError_, StateError
from penstock.shards.changes import META

_ADDED = pa.array(["insert", "update_postimage"])
_BATCHES, _VIEWS = "_penstock_batches", "_penstock_views"
_SETUP = f"""
CREATE TABLE IF NOT EXISTS {_BATCHES} (checkpoint VARCHAR, batch BIGINT);
CREATE TABLE IF NOT EXISTS {_VIEWS} (name VARCHAR, table_name VARCHAR, opened BIGINT);
"""


class ViewStore:
    """Served views in a DuckDB file, or in memory.

    The file belongs to one checkpoint: views of another one are dropped. Changes are tables with
    the columns of a changelog.
    """

    def __init__(self, path: Path | None = None, checkpoint: str = "") -> None:
        self._lock = threading.RLock()
        self._tables: dict[str, tuple[str, int]] = {}  # by query: table, opening batch
        self._batch = -1
        self._path = path
        with _explained(path):
            self._db = _connect(path)
            self._load(checkpoint)

    def _load(self, checkpoint: str) -> None:
        self._db.execute(_SETUP)
        found = self._db.execute(f"SELECT name, table_name, opened FROM {_VIEWS}").fetchall()
        self._tables = {name: (table, opened) for name, table, opened in found}
        recorded = self._db.execute(f"SELECT checkpoint, batch FROM {_BATCHES}").fetchall()
        if recorded and recorded[0][0] == checkpoint:
            self._batch = recorded[0][1]
            return
        self.drop()
        with self._transaction():
            self._db.execute(f"DELETE FROM {_BATCHES}")
            self._db.execute(f"INSERT INTO {_BATCHES} VALUES (?, -1)", [checkpoint])

    # ---- what is kept ----------------------------------------------------------------
    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def names(self) -> list[str]:
        """The queries with kept views."""
        return list(self._tables)

    @property
    def batch(self) -> int:
        """The last batch that was taken; -1 before the first."""
        return self._batch

    def open(self, name: str, schema: pa.Schema, rows: pa.Table, batch: int) -> None:
        """Keep a view from now on; `rows` are its answer after `batch`."""
        with self._lock:
            if batch < self._batch:
                raise StateError(
                    f"the answer of {name} is as of batch {batch}, but batch {self._batch} is done",
                    code="PS-VIEW-002",
                    remedy="call view() again",
                )
            self.close(name)
            table = self._free_table(name)
            data = pa.Table.from_arrays(rows.columns, schema=schema)
            with self._transaction(), self._registered("_rows", data):
                self._db.execute(f"CREATE TABLE {_quoted(table)} AS SELECT * FROM _rows")
                self._db.execute(f"INSERT INTO {_VIEWS} VALUES (?, ?, ?)", [name, table, batch])
            self._tables[name] = (table, batch)

    def read(self, name: str) -> pa.Table:
        """The answer after the last batch, in no particular order."""
        with self._lock, _explained(self._path):
            if name not in self._tables:
                raise NameError_(f"no view of {name} is kept", code="PS-VIEW-003")
            relation = self._db.sql(f"SELECT * FROM {_quoted(self._tables[name][0])}")
            return relation.to_arrow_table()

    def close(self, name: str) -> None:
        """Drop the table of a view, if it is kept."""
        with self._lock:
            if name in self._tables:
                self._remove([name])

    def drop(self) -> None:
        """Drop the tables of all views."""
        with self._lock:
            self._remove(self.names())

    def forget_stale(self, batch: int) -> None:
        """Drop views that are behind `batch`, which is done: the end of the file was lost."""
        with self._lock:
            opened = {name: at for name, (_, at) in self._tables.items()}
            self._remove([name for name, at in opened.items() if max(at, self._batch) < batch])

    def shut(self) -> None:
        """Close the file, so that other processes can read it."""
        with self._lock, _explained(self._path):
            db = vars(self).pop("_db", None)  # DuckDB must be closed before the process ends
            if db is not None:
                db.close()

    def _remove(self, names: list[str]) -> None:
        with self._transaction():
            for name in names:
                self._db.execute(f"DROP TABLE IF EXISTS {_quoted(self._tables[name][0])}")
                self._db.execute(f"DELETE FROM {_VIEWS} WHERE name = ?", [name])
        for name in names:
            del self._tables[name]

    def _free_table(self, name: str) -> str:
        """A free table name made from the query's name; DuckDB ignores case."""
        taken = {table.lower() for table, _ in self._tables.values()} | {_BATCHES, _VIEWS}
        while name.lower() in taken:
            name += "_"
        return name

    # ---- changes ---------------------------------------------------------------------
    def apply(self, batch: int, changes: Mapping[str, pa.Table]) -> None:
        """Apply the changes of a batch to every view; a repeated batch is skipped."""
        with self._lock:
            if batch <= self._batch:
                return
            with self._transaction():
                for name, table in changes.items():
                    if table.num_rows and name in self._tables and self._tables[name][1] < batch:
                        self._merge(name, table)
                self._db.execute(f"UPDATE {_BATCHES} SET batch = ?", [batch])
            self._batch = batch

    def _merge(self, name: str, changes: pa.Table) -> None:
        """Delete and insert the net change by value; NULLs are equal, and so are NaNs."""
        own = [c for c in changes.column_names if c not in ("_query", *META)]
        values = [f"c{j}" for j in range(len(own))]
        added = pc.is_in(changes["_change_type"].cast(pa.string()), value_set=_ADDED)
        sign = pc.if_else(added, 1, -1)
        data = pa.Table.from_arrays([*changes.select(own).columns, sign], names=[*values, "sign"])
        listed = ", ".join(values)
        with self._registered("_changes", data):
            self._db.execute(
                "CREATE OR REPLACE TEMP TABLE _net AS SELECT row_number() OVER () AS id, * FROM "
                f"(SELECT {listed}, sum(sign)::BIGINT AS net FROM _changes GROUP BY {listed}) "
                "WHERE net <> 0"
            )
        gone, new = self._db.execute(
            "SELECT coalesce(sum(net) FILTER (net < 0), 0), count(*) FILTER (net > 0) FROM _net"
        ).fetchall()[0]
        table = _quoted(self._tables[name][0])
        if gone:
            self._delete(name, table, list(zip(own, values, strict=True)), -int(gone))
        if new:
            self._db.execute(
                f"INSERT INTO {table} SELECT {listed} FROM "
                f"(SELECT {listed}, unnest(range(net)) FROM _net WHERE net > 0)"
            )

    def _delete(self, name: str, table: str, columns: list[tuple[str, str]], expected: int) -> None:
        """Delete as many copies of each row as the changes say."""
        same = " AND ".join(f"v.{_quoted(own)} IS NOT DISTINCT FROM n.{c}" for own, c in columns)
        copies = (
            "SELECT v.rowid AS place, n.net, row_number() OVER (PARTITION BY n.id) AS copy "
            f"FROM {table} AS v JOIN _net AS n ON {same} WHERE n.net < 0"
        )
        found = self._db.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM ({copies}) WHERE copy <= -net)"
        ).fetchall()[0][0]
        if found != expected:
            raise StateError(
                f"the view of {name} has lost {expected - found} rows that its changes delete",
                code="PS-VIEW-004",
                remedy="drop the query and register it again, and report this as a bug",
            )

    # ---- DuckDB ----------------------------------------------------------------------
    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A context that commits all statements or none."""
        with _explained(self._path):
            self._db.begin()
            try:
                yield
            except BaseException:
                self._db.rollback()
                raise
            self._db.commit()

    @contextmanager
    def _registered(self, name: str, table: pa.Table) -> Iterator[None]:
        """A context that gives an Arrow table a name that SQL can read."""
        self._db.register(name, table)
        try:
            yield
        finally:
            self._db.unregister(name)


def _connect(path: Path | None) -> duckdb.DuckDBPyConnection:
    config = {
        "threads": min(4, os.cpu_count() or 1),
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    return duckdb.connect(str(path) if path else ":memory:", config=config)


@contextmanager
def _explained(path: Path | None = None) -> Iterator[None]:
    """A context that turns errors of DuckDB into errors of Penstock."""
    try:
        yield
    except duckdb.Error as error:
        where = f" in {path}" if path else ""
        raise StateError(
            f"the views{where} cannot be used: {str(error).splitlines()[0]}",
            code="PS-VIEW-001",
            remedy="free space if the disk is full, or end the process that has the file open; "
            "delete the file if it is damaged: Penstock computes the views again"
            if path
            else "check whether the disk is full",
        ) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
