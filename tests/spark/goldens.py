"""The golden files as calls of one session: every file with relation names of its own.

Names are replaced in the whole text of a file, so that it says the same about other relations;
running the replaced text by itself shows that it does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from golden.runner import Section, sections, table, value
from oracle.fold import Values, changes_of

HERE = Path(__file__).parent.parent / "golden"
FILES = sorted(HERE.rglob("*.slt"))
_CREATE = re.compile(r"\bCREATE\s+(?:STREAM|TABLE|MATERIALIZED\s+VIEW|SINK)\s+(\w+)", re.IGNORECASE)
_HISTORY = re.compile(r"^history\s+(\w+)", re.MULTILINE)


def renamed(path: Path, number: int, directory: Path) -> Path:
    """A copy of a golden file in which every name that it declares ends in `number`."""
    text = path.read_text()
    names = sorted({*_CREATE.findall(text), *_HISTORY.findall(text)})
    if names:
        words = re.compile(rf"\b({'|'.join(names)})\b")
        text = words.sub(lambda m: f"{m[1]}_{number}", text)
    made = directory / f"{number}_{path.name}"
    made.write_text(text)
    return made


@dataclass(slots=True)
class Calls:
    """The calls of one file on a session, and the queries that came of them."""

    path: Path
    session: Any
    queries: list[Any] = field(default_factory=list)
    _streams: list[str] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    def run(self) -> Iterator[None]:
        """Make the calls, one at a time; what the file expects is not looked at."""
        for section in sections(self.path):
            call: Callable[..., None] | None = getattr(self, f"_{section.words[0]}", None)
            if call is not None:
                call(section, *section.words[1:])
                yield

    def _statement(self, section: Section) -> None:
        text = "\n".join(section.lines)
        self._streams += re.findall(r"CREATE\s+STREAM\s+(\w+)", text, re.IGNORECASE)
        made = self.session.sql(text)
        if hasattr(made, "changes"):
            self.queries.append(made)

    def _history(self, section: Section, name: str) -> None:
        self.queries.append(self.session.query("\n".join(section.lines), history=True))

    def _many(self, section: Section, name: str, history: str = "") -> None:
        names, rows = table(section.lines[1:])
        params = [dict(zip(names, row, strict=True)) for row in rows]
        self.queries += self.session.query_many(section.lines[0], params, bool(history))

    def _push(self, section: Section, stream: str) -> None:
        names, rows = table(section.lines)
        self.session.push(stream, [dict(zip(names, row, strict=True)) for row in rows])

    def _advance(self, section: Section, stream: str, ts: str) -> None:
        for name in self._streams if stream == "*" else [stream]:
            self.session.advance(name, value(ts))


def net(changes: pa.Table, by_time: bool) -> Counter[Values]:
    """What changes come to at each instant, or in all."""
    found: Counter[Values] = Counter()
    for change in changes_of(changes):
        found[(change.time if by_time else None, *change.row)] += change.sign
    return Counter({row: n for row, n in found.items() if n})
