"""What a session should know after each step: accepted rows, watermarks, table contents.

A plain re-implementation of admission and clocks (DESIGN §3) in Python lists. Steps are
counted from 1; step 0 is the state before any action.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from oracle.windows import BEGINNING, FOREVER, Row

Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class StreamDef:
    """A stream of a test: columns as (name, SQL type); time is a BIGINT column."""

    name: str
    columns: tuple[tuple[str, str], ...]
    time: str = "ts"
    delay: int = 0
    retain: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def ddl(self) -> str:
        """The statement that declares it."""
        body = ", ".join(f"{n} {t}" for n, t in self.columns)
        delay = f" DELAY {self.delay}" if self.delay else ""
        retain = f" RETAIN {self.retain}" if self.retain else ""
        return f"CREATE STREAM {self.name} ({body}) TIMESTAMP BY {self.time}{delay}{retain}"


@dataclass(frozen=True, slots=True)
class TableDef:
    """A table of a test; its first column is the key of DELETE and UPDATE."""

    name: str
    columns: tuple[tuple[str, str], ...]
    nonretroactive: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def ddl(self) -> str:
        """The statement that declares it."""
        body = ", ".join(f"{n} {t}" for n, t in self.columns)
        return f"CREATE TABLE {self.name} ({body}){' NONRETROACTIVE' * self.nonretroactive}"


@dataclass(slots=True)
class Version:
    """A table row and the steps between which it is there."""

    values: Values
    start: int
    end: int = FOREVER


@dataclass(slots=True)
class World:
    """The expected state of a session, step by step."""

    streams: dict[str, StreamDef]
    tables: dict[str, TableDef]
    rows: dict[str, list[Row]] = field(default_factory=dict)
    late: dict[str, list[Values]] = field(default_factory=dict)
    versions: dict[str, list[Version]] = field(default_factory=dict)
    marks: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {name: [] for name in self.streams}
        self.late = {name: [] for name in self.streams}
        self.versions = {name: [] for name in self.tables}
        self.marks = [dict.fromkeys(self.streams, BEGINNING)]

    @property
    def step(self) -> int:
        """The number of steps done."""
        return len(self.marks) - 1

    def tick(self) -> int:
        """Begin a step; returns its number."""
        self.marks.append(dict(self.marks[-1]))
        return self.step

    def clock(self, streams: frozenset[str], step: int | None = None) -> int:
        """The least watermark of `streams` at the end of `step` (default: now)."""
        marks = self.marks[-1 if step is None else step]
        return min((marks[name] for name in streams), default=BEGINNING)

    def push(self, stream: str, rows: list[Values]) -> None:
        """Admit a batch: late rows are those older than the watermark at its start."""
        step = self.tick()
        definition = self.streams[stream]
        at = definition.names.index(definition.time)
        mark = self.marks[step - 1][stream]
        accepted = [r for r in rows if r[at] >= mark]  # type: ignore[operator]
        self.late[stream] += [r for r in rows if r[at] < mark]  # type: ignore[operator]
        for position, values in enumerate(accepted):
            self.rows[stream].append(Row(values, int(str(values[at])), step, position))
        newest = max((int(str(r[at])) for r in accepted), default=BEGINNING)
        self.marks[step][stream] = max(mark, newest - definition.delay)

    def advance(self, stream: str | None, ts: int) -> None:
        """A heartbeat of one stream or of all."""
        step = self.tick()
        for name in [stream] if stream else list(self.streams):
            self.marks[step][name] = max(self.marks[step][name], ts)

    def insert(self, table: str, rows: list[Values]) -> None:
        """INSERT INTO."""
        step = self.tick()
        self.versions[table] += [Version(values, step) for values in rows]

    def delete(self, table: str, key: object) -> None:
        """DELETE … WHERE key = …"""
        step = self.tick()
        for version in self._current(table):
            if version.values[0] == key:
                version.end = step

    def update(self, table: str, key: object, value: object) -> None:
        """UPDATE … SET second column = value WHERE key = …"""
        step = self.tick()
        for version in self._current(table):
            if version.values[0] == key:
                version.end = step
                changed = (key, value, *version.values[2:])
                self.versions[table].append(Version(changed, step))

    def _current(self, table: str) -> list[Version]:
        return [v for v in self.versions[table] if v.end == FOREVER]
