"""Reads and runs golden files: timed input, and what must be seen, as small text tables.

Sections are separated by blank lines; `#` starts a comment line. A section is one of

    statement               push STREAM             advance STREAM|* TIME
    CREATE STREAM …         k a ts                  restore
                            1 NULL 5                late STREAM COUNT
    error CODE                                      quarantine STREAM COUNT
    CREATE …                view NAME | changes NAME | explain NAME | history NAME
                            table, (empty), lines or a SELECT
    many NAME [history]     connect SETTING=VALUE…
    SELECT …
    table of parameters     all NAME
                            table of changes with a column `query`, or (empty)

Changes are `+` insert, `-` delete, `u-` and `u+` the two halves of an update; within one
instant their order is free. EXPLAIN lines must occur in the given order. The queries of `many` are
named by its column `qid`; `all` shows their changes, the names of a row's queries as a,b,c.
`connect` opens the session with settings that change no answer; on Spark it is passed over.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from oracle.fold import META, bag, rows_of, same, show
from penstock.errors import PenstockError

MARKS = {"insert": "+", "delete": "-", "update_preimage": "u-", "update_postimage": "u+"}


@dataclass(frozen=True, slots=True)
class Section:
    """One section: its first line split in words, the lines below, where it stands."""

    words: list[str]
    lines: list[str]
    place: str


def sections(path: Path) -> Iterator[Section]:
    """The sections of a file."""
    block: list[str] = []
    start = 0
    for number, raw in enumerate([*path.read_text().splitlines(), ""], 1):
        line = re.sub(r"^\s*#.*", "", raw).rstrip()
        if line and not block:
            start = number
        if line:
            block.append(line)
        elif block and not raw.strip():
            yield Section(block[0].split(), block[1:], f"{path.name}:{start}")
            block = []


def value(token: str) -> object:
    """A cell: NULL, number, time, or text (quotes optional)."""
    if token == "NULL":
        return None
    if token in ("true", "false"):
        return token == "true"
    if re.fullmatch(r"-?\d+", token):
        return int(token)
    if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+", token):
        return datetime.datetime.fromisoformat(token)
    try:
        return float(token)
    except ValueError:
        return token.strip("'")


def table(lines: list[str]) -> tuple[list[str], list[tuple[object, ...]]]:
    """Header and rows of a text table."""
    if lines == ["(empty)"]:
        return [], []
    return lines[0].split(), [tuple(value(t) for t in line.split()) for line in lines[1:]]


class Golden:
    """One file, run from top to bottom."""

    def __init__(self, path: Path, shards: int | None = None) -> None:
        self.path = path
        self.shards = shards
        self.settings: dict[str, Any] = {"runner": "inprocess"}
        self.session: Any = penstock.connect(**self.settings, shards=shards)
        self.queries: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}

    def run(self) -> None:
        """Run every section."""
        try:
            for section in sections(self.path):
                kind, *words = section.words
                try:
                    getattr(self, f"do_{kind}")(section, *words)
                except (AssertionError, PenstockError) as failure:
                    failure.add_note(f"in {section.place}: {' '.join(section.words)}")
                    raise
        finally:
            self.session.close()

    def do_connect(self, _: Section, *settings: str) -> None:
        """Open the session with settings; before anything else."""
        self.session.close()
        self.settings |= dict(setting.split("=") for setting in settings)
        self.session = penstock.connect(**self.settings, shards=self.shards)

    def do_statement(self, section: Section) -> None:
        """Run a statement."""
        self.session.sql("\n".join(section.lines))

    def do_error(self, section: Section, code: str) -> None:
        """A statement that must be refused."""
        with pytest.raises(PenstockError) as caught:
            self.session.sql("\n".join(section.lines))
        assert caught.value.code.startswith(code), caught.value.code
        assert caught.value.remedy, "an error says what to do"

    def do_push(self, section: Section, stream: str) -> None:
        """Push a batch."""
        names, rows = table(section.lines)
        self.session.push(stream, [dict(zip(names, row, strict=True)) for row in rows])
        self.session.flush()

    def do_advance(self, section: Section, stream: str, ts: str) -> None:
        """A heartbeat."""
        self.session.advance(None if stream == "*" else stream, value(ts))
        self.session.flush()

    def do_history(self, section: Section, name: str) -> None:
        """Register a query with history."""
        self.queries[name] = self.session.query("\n".join(section.lines), history=True)

    def do_many(self, section: Section, name: str, history: str = "") -> None:
        """Register queries together."""
        names, rows = table(section.lines[1:])
        params = [dict(zip(names, row, strict=True)) for row in rows]
        self.groups[name] = self.session.query_many(section.lines[0], params, bool(history))

    def do_all(self, section: Section, name: str) -> None:
        """The changes of queries registered together."""
        found = self.groups[name].changes()
        queries = found.column("_query").to_pylist()
        texts = [q if isinstance(q, str) else ",".join(sorted(q)) for q in queries]
        self._compare(found, section, ["query"], [texts])

    def do_restore(self, section: Section) -> None:
        """Snapshot, close and go on from the snapshot."""
        if self.shards is not None:
            self.session._runner.job.cluster.reload()
            return
        image = self.session.snapshot()
        self.session.close()
        self.session = penstock.connect(**self.settings, snapshot=image)
        for name, group in self.groups.items():
            (one, *_) = (q.name for q in group if q.status != "dropped")
            self.groups[name] = self.session[one].siblings

    def do_view(self, section: Section, name: str) -> None:
        """The answer at the clock."""
        found = self._query(name).view()
        names, rows = table(section.lines)
        assert not names or names == found.column_names
        wanted, seen = bag(rows), bag(rows_of(found))
        assert same(seen, wanted), f"\nfound    {show(seen)}\nexpected {show(wanted)}"

    def do_changes(self, section: Section, name: str) -> None:
        """The changelog since it was last looked at."""
        self._compare(self._query(name).changes(), section, [], [])

    @staticmethod
    def _compare(
        found: pa.Table, section: Section, heads: list[str], cells: list[list[str]]
    ) -> None:
        """Changes with their times and some more columns in front."""
        names, rows = table(section.lines)
        columns = [n for n in found.column_names if n not in META]
        assert not names or names == ["time", "change", *heads, *columns]
        times = found.column("_time").to_pylist()
        marks = [MARKS[k] for k in found.column("_change_type").to_pylist()]
        front = list(zip(times, marks, *cells, strict=True))
        data = rows_of(found, skip=META)
        seen = [(*before, *row) for before, row in zip(front, data, strict=True)]
        text = "\n".join("  ".join("NULL" if v is None else str(v) for v in row) for row in seen)
        assert times == sorted(times, key=lambda t: (t is not None, t)), f"out of order:\n{text}"
        assert same(bag(seen), bag(rows)), f"found:\n{text}"

    def do_explain(self, section: Section, name: str) -> None:
        """Lines of the plan."""
        text = self._query(name).explain()
        at = 0
        for line in section.lines:
            pattern = r"\s+".join(re.escape(word) for word in line.split())
            found = re.compile(pattern).search(text, at)
            assert found, f"no line {line!r} in\n{text}"
            at = found.end()

    def do_late(self, section: Section, stream: str, count: str) -> None:
        """Number of late rows."""
        assert self.session.late(stream).num_rows == int(count)

    def do_quarantine(self, section: Section, stream: str, count: str) -> None:
        """Number of quarantined rows, each with a reason."""
        found = self.session.quarantine(stream)
        assert found.num_rows == int(count)
        assert all(found.column("_reason").to_pylist())

    def _query(self, name: str) -> Any:
        return self.queries.get(name) or self.session[name]
