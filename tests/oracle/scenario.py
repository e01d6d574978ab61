"""Scenarios: what is done to a session, as data, and as a script anyone can run."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracle.translate import literal
from oracle.world import StreamDef, TableDef, Values, World


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of one stream, as one batch."""

    stream: str
    rows: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """A heartbeat of one stream, or of all (None)."""

    stream: str | None
    ts: int


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO a table."""

    table: str
    rows: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE by the table's first column."""

    table: str
    key: object


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE the table's second column by its first."""

    table: str
    key: object
    value: object


@dataclass(frozen=True, slots=True)
class Register:
    """Start query number `index`."""

    index: int
    history: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop query number `index`."""

    index: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Snapshot the session, close it, go on from the snapshot."""


Action = Push | Advance | Insert | Delete | Update | Register | Drop | Restore


@dataclass(frozen=True, slots=True)
class Scenario:
    """Streams, tables and the actions of one session.

    Queries that no action registers are registered before the first one.
    """

    streams: tuple[StreamDef, ...]
    tables: tuple[TableDef, ...] = ()
    actions: tuple[Action, ...] = field(default=())

    def world(self) -> World:
        """The state before any action."""
        return World({s.name: s for s in self.streams}, {t.name: t for t in self.tables})

    def ddl(self) -> list[str]:
        """The statements that declare streams and tables."""
        return [s.ddl() for s in self.streams] + [t.ddl() for t in self.tables]

    def script(self, sqls: list[str]) -> str:
        """The scenario as a Python script."""
        lines = ["import penstock", "ps = penstock.connect(runner='inprocess')"]
        lines += [f"ps.sql({text!r})" for text in self.ddl()]
        later = {a.index for a in self.actions if isinstance(a, Register)}
        lines += [f"q{i} = ps.query({s!r})" for i, s in enumerate(sqls) if i not in later]
        for action in self.actions:
            lines.append(self._line(action, sqls))
        lines += [f"print(q{i}.changes(), q{i}.view())" for i in range(len(sqls))]
        return "\n".join(lines)

    def _line(self, action: Action, sqls: list[str]) -> str:
        match action:
            case Push(stream, rows):
                return f"ps.push({stream!r}, {self.dicts(stream, rows)!r})"
            case Advance(None, ts):
                return f"ps.advance(ts={ts})"
            case Advance(stream, ts):
                return f"ps.advance({stream!r}, {ts})"
            case Register(index, history):
                return f"q{index} = ps.query({sqls[index]!r}, history={history})"
            case Drop(index):
                return f"q{index}.drop()"
            case Restore():
                return "ps = penstock.connect(runner='inprocess', snapshot=ps.snapshot())"
            case _:
                return f"ps.sql({self.dml(action)!r})"

    def dicts(self, stream: str, rows: tuple[Values, ...]) -> list[dict[str, object]]:
        """Rows as `push` takes them."""
        names = next(s.names for s in self.streams if s.name == stream)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def dml(self, action: Action) -> str:
        """A table action as SQL."""
        match action:
            case Insert(table, rows):
                values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
                return f"INSERT INTO {table} VALUES {values}"
            case Delete(table, key):
                return f"DELETE FROM {table} WHERE {self._key(table)} = {literal(key)}"
            case Update(table, key, value):
                second = next(t.names[1] for t in self.tables if t.name == table)
                where = f"{self._key(table)} = {literal(key)}"
                return f"UPDATE {table} SET {second} = {literal(value)} WHERE {where}"
        raise TypeError(f"not a table action: {action}")

    def _key(self, table: str) -> str:
        return next(t.names[0] for t in self.tables if t.name == table)


def follow(world: World, action: Action) -> None:
    """What the action does to the expected state."""
    match action:
        case Push(stream, rows):
            world.push(stream, list(rows))
        case Advance(stream, ts):
            world.advance(stream, ts)
        case Insert(table, rows):
            world.insert(table, list(rows))
        case Delete(table, key):
            world.delete(table, key)
        case Update(table, key, value):
            world.update(table, key, value)
        case _:
            world.tick()
