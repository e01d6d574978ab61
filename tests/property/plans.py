"""Random plans as SQL text, built from the blocks of the dialect and nested.

A block is asked for a *signature*, the types of its columns (I INT, L BIGINT, D DOUBLE,
S STRING), so that set operations always fit. Columns of every block are called c0, c1, ….
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from property.data import STREAMS, TABLES

LETTERS = {"INT": "I", "BIGINT": "L", "DOUBLE": "D", "STRING": "S"}
SIGNATURES = ("I", "I", "II", "II", "IL", "ID", "IS", "S", "III", "D", "LIS")


@dataclass(frozen=True, slots=True)
class Col:
    """A column in scope, as written, and its type letter."""

    text: str
    type: str


Scope = list[Col]


@dataclass(slots=True)
class Plans:
    """A source of random queries; remembers which streams and tables they used."""

    rng: Random
    streams: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)
    unbounded: bool = True
    scale: int = 1
    names: int = 0

    # ---- entry ---------------------------------------------------------------------------
    def query(self, depth: int = 3) -> str:
        """A query of random signature."""
        return self.relation(self.rng.choice(SIGNATURES), depth)

    def relation(self, signature: str, depth: int) -> str:
        """A query of the given signature."""
        kind = self.rng.random()
        if depth > 0 and kind < 0.18:
            return self._set_operation(signature, depth)
        if depth > 0 and kind < 0.25:
            return self._with(signature, depth)
        return self._block(signature, depth)

    def _name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # ---- combinations --------------------------------------------------------------------
    def _set_operation(self, signature: str, depth: int) -> str:
        word = self.rng.choice(("UNION", "INTERSECT", "EXCEPT"))
        every = " ALL" if self._chance(0.5) else ""
        left = self.relation(signature, depth - 1)
        right = self.relation(signature, depth - 1)
        return f"({left}) {word}{every} ({right})"

    def _with(self, signature: str, depth: int) -> str:
        name, inner = self._name(), self.rng.choice(("II", "IS", "IL"))
        body = self.relation(inner, depth - 1)
        one, two = self._name(), self._name()
        scope = self._columns(one, inner)
        text = f"{name} {one}"
        if self._chance(0.5):
            scope = scope + self._columns(two, inner)
            text += f" JOIN {name} {two} ON {one}.c0 = {two}.c0"
        items = self._items(signature, scope)
        return f"WITH {name} AS ({body}) SELECT {items} FROM {text}{self._where(scope, 0)}"

    def _columns(self, alias: str, signature: str) -> Scope:
        return [Col(f"{alias}.c{i}", t) for i, t in enumerate(signature)]

    # ---- one SELECT ----------------------------------------------------------------------
    def _block(self, signature: str, depth: int) -> str:
        text, scope = self._from(depth)
        where = self._where(scope, depth)
        if self._chance(0.35):
            return self._grouped(signature, text, scope, where)
        distinct = "DISTINCT " if self._chance(0.2) else ""
        return f"SELECT {distinct}{self._items(signature, scope)} FROM {text}{where}"

    def _items(self, signature: str, scope: Scope) -> str:
        return ", ".join(f"{self._value(t, scope)} AS c{i}" for i, t in enumerate(signature))

    def _from(self, depth: int) -> tuple[str, Scope]:
        kind = self.rng.random()
        text, scope = self._source(depth)
        if kind < 0.42:
            return text, scope
        if kind < 0.50:
            return self._with_table(text, scope)
        if kind < 0.54:
            return self._with_nrr()
        if kind < 0.60:
            other, columns = self._source(depth)
            word = self.rng.choice(("SEMI", "ANTI"))
            return f"{text} {word} JOIN {other} ON {self._on(scope, columns)}", scope
        if kind < 0.62:
            other, columns = self._source(0)
            return f"{text} CROSS JOIN {other}", scope + columns
        word = self.rng.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        text, scope = self._joined(text, scope, word, depth)
        if self._chance(0.25):
            text, scope = self._joined(text, scope, "JOIN", 0)
        return text, scope

    def _joined(self, text: str, scope: Scope, word: str, depth: int) -> tuple[str, Scope]:
        other, columns = self._source(min(depth, 1))
        on = self._on(scope, columns)
        return f"{text} {word} {other} ON {on}", scope + columns

    def _source(self, depth: int) -> tuple[str, Scope]:
        alias = self._name()
        if self._chance(0.04):
            return self._windowed(alias)
        if depth > 0 and self._chance(0.22):
            signature = self.rng.choice(("II", "IL", "IS", "IID"))
            body = self.relation(signature, depth - 1)
            return f"({body}) {alias}", self._columns(alias, signature)
        stream = self.rng.choice(sorted(STREAMS))
        self.streams.add(stream)
        columns = [Col(f"{alias}.{n}", LETTERS[t]) for n, t in STREAMS[stream].columns]
        return f"{stream} [{self.window()}] {alias}", columns

    def _windowed(self, alias: str) -> tuple[str, Scope]:
        """A time window over a subquery without state."""
        stream, inner = self.rng.choice(sorted(STREAMS)), self._name()
        self.streams.add(stream)
        scope = [Col(f"{inner}.{n}", LETTERS[t]) for n, t in STREAMS[stream].columns]
        items = self._items("IL", scope)
        body = f"SELECT {items} FROM {stream} {inner} WHERE {self._simple(scope)}"
        window = self.rng.choice(("RANGE 3", "RANGE 6", "NOW", "RANGE 4 SLIDE 2"))
        return f"({body}) [{window}] {alias}", self._columns(alias, "IL")

    def window(self, slide: bool = True) -> str:
        """A random window."""
        kind = self.rng.random()
        if kind < 0.5:
            return f"RANGE {self.scale * self.rng.choice((1, 2, 3, 4, 5, 8))}"
        if kind < 0.65 and slide:
            step = self.rng.randint(1, 4) * self.scale
            return f"RANGE {step + self.rng.choice((0, 0, 1, 3, 4)) * self.scale} SLIDE {step}"
        if kind < 0.77:
            return f"ROWS {self.rng.randint(1, 4) * self.scale}"
        if kind < 0.89:
            return f"PARTITION BY k ROWS {self.rng.randint(1, 2)}"
        return "UNBOUNDED" if self.unbounded and self._chance(0.4) else "NOW"

    def _table(self) -> tuple[str, Scope]:
        self.tables.add("t")
        alias = self._name()
        return f"t {alias}", [Col(f"{alias}.{n}", LETTERS[t]) for n, t in TABLES["t"].columns]

    def _with_table(self, text: str, scope: Scope) -> tuple[str, Scope]:
        table, columns = self._table()
        word = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if self._chance(0.2):
            return f"{table} {word} {text} ON {self._on(columns, scope)}", columns + scope
        return f"{text} {word} {table} ON {self._on(scope, columns)}", scope + columns

    def _with_nrr(self) -> tuple[str, Scope]:
        # A sliding boundary delays a row after its arrival; an NRR asks when it arrived.
        self.tables.add("n")
        first, last = self._name(), self._name()
        self.streams.add("r")
        scope = [Col(f"{first}.k", "I"), Col(f"{first}.a", "I")]
        text = f"r [{self.window(slide=False)}] {first}"
        if self._chance(0.4):
            other = self._name()
            self.streams.add("s")
            text += f" JOIN s [{self.window(slide=False)}] {other} ON {other}.k = {first}.k"
            scope.append(Col(f"{other}.b", "I"))
        text += f" JOIN n {last} ON {first}.k = {last}.k"
        return text, [*scope, Col(f"{last}.w", "I")]

    def _on(self, left: Scope, right: Scope) -> str:
        conditions = []
        if self._chance(0.8):
            conditions.append(f"{self._pick(left, 'I')} = {self._pick(right, 'I')}")
        if not conditions or self._chance(0.25):
            conditions.append(self._band(left, right))
        if self._chance(0.2):
            op = self.rng.choice(("<", "<=", "<>", ">"))
            conditions.append(f"{self._pick(left, 'I')} {op} {self._pick(right, 'I')}")
        return " AND ".join(conditions)

    def _band(self, left: Scope, right: Scope) -> str:
        type_ = "L" if self._has(left, "L") and self._has(right, "L") else "I"
        a, b = self._pick(left, type_), self._pick(right, type_)
        low, high = self.rng.randint(0, 2), self.rng.randint(0, 2)
        if self._chance(0.3):
            return f"{b} {self.rng.choice(('<', '<=', '>', '>='))} {a} + {low}"
        return f"{b} BETWEEN {a} - {low} AND {a} + {high}"

    # ---- aggregation ---------------------------------------------------------------------
    def _grouped(self, signature: str, text: str, scope: Scope, where: str) -> str:
        keys = [c for c in scope if c.type in "IS"]
        if self._chance(0.1):
            keys = [Col(f"{self._pick(scope, 'I')} % 2", "I")]
        self.rng.shuffle(keys)
        keys = keys[: self.rng.choice((0, 1, 1, 1, 2))]
        columns = [self._aggregate_or_key(t, scope, keys) for t in signature]
        items = [f"{text} AS c{i}" for i, text in enumerate(columns)]
        by = f" GROUP BY {', '.join(k.text for k in keys)}" if keys else ""
        having = f" HAVING {self._having(scope)}" if self._chance(0.3 if keys else 0.1) else ""
        distinct = "DISTINCT " if self._chance(0.05) else ""
        return f"SELECT {distinct}{', '.join(items)} FROM {text}{where}{by}{having}"

    def _aggregate_or_key(self, type_: str, scope: Scope, keys: Scope) -> str:
        own = [k.text for k in keys if k.type == type_]
        if own and self._chance(0.7):
            return self.rng.choice(own)
        return self._aggregate(type_, scope)

    def _aggregate(self, type_: str, scope: Scope) -> str:
        number = self._pick(scope, "I")
        if type_ == "L":
            distinct = "DISTINCT " if self._chance(0.3) else ""
            calls = ("count(*)", f"count({distinct}{number})", f"sum({distinct}{number})")
            call = self.rng.choice(calls)
        elif type_ == "D":
            fn = self.rng.choice(("avg", "stddev", "median", "sum"))
            arg = self._pick(scope, "D")
            call = f"{fn}({arg})"
        elif type_ == "S" and not self._has(scope, "S"):
            return "CAST(count(*) AS STRING)"
        else:
            call = f"{self.rng.choice(('min', 'max'))}({self._pick(scope, type_)})"
        return call + (f" FILTER (WHERE {self._simple(scope)})" if self._chance(0.2) else "")

    def _having(self, scope: Scope) -> str:
        op = self.rng.choice((">", ">=", "=", "<", "<>"))
        return f"{self._aggregate('L', scope)} {op} {self.rng.randint(0, 3)}"

    # ---- predicates ----------------------------------------------------------------------
    def _where(self, scope: Scope, depth: int) -> str:
        conditions = [self._predicate(scope, 1) for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2)))]
        if self._chance(0.18):
            conditions.append(self._subquery(scope, depth))
        self.rng.shuffle(conditions)
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _predicate(self, scope: Scope, depth: int) -> str:
        kind = self.rng.random()
        if depth and kind < 0.15:
            return f"({self._predicate(scope, 0)} OR {self._predicate(scope, 0)})"
        if depth and kind < 0.22:
            return f"NOT ({self._predicate(scope, 0)})"
        return self._simple(scope)

    def _simple(self, scope: Scope) -> str:
        x, n = self._pick(scope, "I"), self.rng.randint(0, 4)
        kind = self.rng.randrange(14)
        if kind == 13 and self._has(scope, "S"):
            text = self._pick(scope, "S")
            return self.rng.choice((f"{text} LIKE 'a%'", f"{text} = 'b'", f"{text} > ''"))
        if kind == 12 and self._has(scope, "D"):
            return f"{self._pick(scope, 'D')} > {self.rng.choice(('1e-1', '2e-1', '15e-1'))}"
        forms = (
            f"{x} BETWEEN {n - 2} AND {n}", f"{x} IN ({n}, {n - 1}, 7)", f"{x} IS NULL",
            f"{x} IS NOT NULL", f"{x} % 2 = {n % 2}", f"{x} + {self._pick(scope, 'I')} > {n}",
            f"{x} NOT IN ({n}, {n + 1})", f"{x} IS NOT DISTINCT FROM {self._pick(scope, 'I')}",
            f"{x} IS DISTINCT FROM {n}",
        )  # fmt: skip
        if kind < len(forms):
            return forms[kind]
        op = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
        other = str(n) if self._chance(0.7) else self._pick(scope, "I")
        return f"{x} {op} {other}"

    def _subquery(self, scope: Scope, depth: int) -> str:
        negation = "NOT " if self._chance(0.5) else ""
        x = self._pick(scope, "I")
        if self._chance(0.3) and depth > 0:
            return f"{x} {negation}IN ({self.relation('I', depth - 1)})"
        source, columns = self._table() if self._chance(0.15) else self._source(0)
        if self._chance(0.05):
            return f"{negation}EXISTS (SELECT 1 FROM {source} WHERE {self._simple(columns)})"
        if self._chance(0.4):
            value = self._pick(columns, "I")
            where = f" WHERE {self._correlated(scope, columns)}" if self._chance(0.4) else ""
            return f"{x} {negation}IN (SELECT {value} FROM {source}{where})"
        return f"{negation}EXISTS (SELECT 1 FROM {source} WHERE {self._correlated(scope, columns)})"

    def _correlated(self, scope: Scope, columns: Scope) -> str:
        text = f"{self._pick(columns, 'I')} = {self._pick(scope, 'I')}"
        if self._chance(0.3):
            text += f" AND {self._pick(columns, 'I')} > {self._pick(scope, 'I')}"
        if self._chance(0.3):
            text += f" AND {self._simple(columns)}"
        return text

    # ---- values --------------------------------------------------------------------------
    def _has(self, scope: Scope, type_: str) -> bool:
        return any(c.type == type_ for c in scope)

    def _pick(self, scope: Scope, type_: str) -> str:
        """A column of the type, or one cast to it."""
        fitting = [c.text for c in scope if c.type == type_]
        if fitting:
            return self.rng.choice(fitting)
        integers = [c.text for c in scope if c.type == "I"]
        if not integers:
            return {"I": "1", "L": "CAST(1 AS BIGINT)", "D": "1e0", "S": "'a'"}[type_]
        words = {"L": "BIGINT", "D": "DOUBLE", "S": "STRING", "I": "INT"}
        return f"CAST({self.rng.choice(integers)} AS {words[type_]})"

    def _value(self, type_: str, scope: Scope) -> str:
        """A select item: mostly a column, sometimes computed."""
        x = self._pick(scope, type_)
        if self._chance(0.7):
            return x
        y = self._pick(scope, type_)
        n = self.rng.randint(0, 3)
        forms = {
            "I": (f"{x} + {n}", f"coalesce({x}, {n})", f"{x} * 2 - {y}", f"abs({x})", f"-{x}",
                  f"CASE WHEN {self._simple(scope)} THEN {x} ELSE {n} END", f"{x} % 3",
                  f"greatest({x}, {y})", f"least({x}, {n})", f"nullif({x}, {y})",
                  f"CASE {x} WHEN {n} THEN {y} WHEN 1 THEN 7 END"),
            "L": (f"{x} + 1", f"coalesce({x}, {y})"),
            "D": (f"{x} / 2", f"{x} * 5e-1", f"coalesce({x}, 1e0)", f"{x} + {y}"),
            "S": (f"upper({x})", f"{x} || 'z'", f"coalesce({x}, 'none')", f"{x} || {y}"),
        }  # fmt: skip
        return self.rng.choice(forms[type_])
