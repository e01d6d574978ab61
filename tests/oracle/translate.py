"""From the dialect to DuckDB's SQL, by scanning text: shares no code with the parser under test.

Every windowed stream and every table becomes a subquery over a helper table whose rows carry
the interval of points they live on; the point asked for is the marker AT.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from decimal import Decimal

from oracle.windows import Window, parse_window
from oracle.world import StreamDef, TableDef

AT = "__at.__t"
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_]\w*|\s+|\[[^\]]*\]|\$\w+|.", re.S)
_AFTER_RELATION = frozenset(
    {
        "ON", "WHERE", "GROUP", "HAVING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS",
        "SEMI", "ANTI", "UNION", "INTERSECT", "EXCEPT", "EMIT",
    }
)  # fmt: skip
_TAIL = re.compile(r"\s+(EMIT\s+(CHANGES|ON\s+COMMIT)|WITH\s+HISTORY)\s*$", re.I)


@dataclass(frozen=True, slots=True)
class Reference:
    """A stream under a window, or a table (window None); `helper` names its DuckDB table."""

    relation: str
    window: Window | None
    helper: str


@dataclass(slots=True)
class Translation:
    """DuckDB text with AT markers, and what its helper tables must hold."""

    text: str
    references: list[Reference]
    streams: frozenset[str]
    uses_nrr: bool


@dataclass(slots=True)
class _Scan:
    """One pass over the tokens of a query."""

    streams: dict[str, StreamDef]
    tables: dict[str, TableDef]
    views: dict[str, str]
    tokens: list[str]
    uses_nrr: bool
    out: list[str] = field(default_factory=list)
    references: dict[tuple[str, Window | None], Reference] = field(default_factory=dict)
    drivers: list[list[str]] = field(default_factory=lambda: [[]])
    outer: list[Window | None] = field(default_factory=lambda: [None])
    pending_on: str = ""

    def run(self) -> str:
        """Translate all tokens."""
        i = 0
        while i < len(self.tokens):
            i = self._step(i)
        return "".join(self.out)

    def _step(self, i: int) -> int:
        token = self.tokens[i]
        upper = token.upper()
        if upper == "FROM":
            self.drivers[-1] = []
        elif token == "(":
            self.drivers.append([])
            self.outer.append(self._window_behind(i) or self.outer[-1])
        elif token == ")":
            self.drivers.pop()
            if self.outer.pop() and self._text(self._next(i)).startswith("["):
                self.out.append(token)
                return self._next(i) + 1
        elif upper == "ON" and self.pending_on:
            self.out.append(f"ON {self.pending_on} AND")
            self.pending_on = ""
            return i + 1
        elif self._is_relation(i):
            return self._relation(i)
        self.out.append(token)
        return i + 1

    def _next(self, i: int) -> int:
        """The next token that is not blank."""
        i += 1
        while i < len(self.tokens) and self.tokens[i].isspace():
            i += 1
        return i

    def _window_behind(self, i: int) -> Window | None:
        """The window of the subquery that opens at `i`.

        Time windows commute with selections, so it goes to the streams inside.
        """
        depth = 0
        for j in range(i, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[j], 0)
            if depth == 0:
                behind = self._text(self._next(j))
                if not behind.startswith("["):
                    return None
                window = parse_window(behind[1:-1])
                if window.kind == "rows":
                    raise ValueError("a window that counts rows does not move below a subquery")
                return window
        return None

    def _text(self, i: int) -> str:
        return self.tokens[i] if i < len(self.tokens) else ""

    def _is_relation(self, i: int) -> bool:
        name = self.tokens[i].lower()
        if name not in self.streams and name not in self.tables and name not in self.views:
            return False
        before = next((t for t in reversed(self.tokens[:i]) if not t.isspace()), "")
        return before.upper() in ("FROM", "JOIN", ",") and self._text(self._next(i)) != "."

    def _relation(self, i: int) -> int:
        name = self.tokens[i].lower()
        after = self._next(i)
        window = None
        if self._text(after).startswith("["):
            window = parse_window(self.tokens[after][1:-1])
            after = self._next(after)
        elif name in self.streams:
            window = self.outer[-1] or Window("unbounded")
        if self._text(after).upper() == "AS":
            after = self._next(after)
        alias = self._text(after)
        if re.match(r"[A-Za-z_]", alias) and alias.upper() not in _AFTER_RELATION:
            after += 1
        else:
            alias = name
        self.out.append(f"{self._body(name, window, alias)} AS {alias} ")
        return after

    def _body(self, name: str, window: Window | None, alias: str) -> str:
        if name in self.views:
            return f"({self._nested(self.views[name])})"
        helper = f"__w{len(self.references)}"
        reference = self.references.setdefault((name, window), Reference(name, window, helper))
        if name in self.tables and self.tables[name].nonretroactive:
            return self._nrr(reference, alias)
        names = list((self.streams | self.tables)[name].names)
        if name in self.streams:
            self.drivers[-1].append(alias)
            names += ["__j"] * self.uses_nrr
        source = f"SELECT {', '.join(names)} FROM {reference.helper}"
        return f"({source} WHERE __s <= {AT} AND {AT} < __e)"

    def _nrr(self, reference: Reference, alias: str) -> str:
        joined = [f"{driver}.__j" for driver in self.drivers[-1]]
        when = joined[0] if len(joined) == 1 else f"greatest({', '.join(joined)})"
        self.pending_on = f"{alias}.__s < {when} AND {when} < {alias}.__e"
        return f"(SELECT * FROM {reference.helper})"

    def _nested(self, sql: str) -> str:
        tokens, out = self.tokens, self.out
        self.tokens, self.out = _tokens(sql), []
        text = self.run()
        self.tokens, self.out = tokens, out
        return text


def _tokens(sql: str) -> list[str]:
    while _TAIL.search(sql):
        sql = _TAIL.sub("", sql)
    return _TOKEN.findall(sql.strip().rstrip(";"))


def translate(
    sql: str,
    streams: dict[str, StreamDef],
    tables: dict[str, TableDef],
    views: dict[str, str] | None = None,
) -> Translation:
    """The DuckDB form of a query of the dialect."""
    tokens = _tokens(sql)
    words = {t.lower() for t in tokens}
    uses_nrr = any(t.nonretroactive and t.name in words for t in tables.values())
    scan = _Scan(streams, tables, views or {}, tokens, uses_nrr)
    text = scan.run()
    references = list(scan.references.values())
    used = frozenset(r.relation for r in references if r.relation in streams)
    return Translation(text, references, used, uses_nrr)


def bind(sql: str, params: dict[str, object]) -> str:
    """The query with its `$name` parameters written as literals."""
    return re.sub(r"\$(\w+)", lambda m: literal(params[m[1]]), sql)


def literal(value: object) -> str:
    """A Python value as SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(10,2))"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)
