"""Random templates over two streams: bands, keys, ranges and whatever an index cannot look up.

A piece of text has places for column names and for constants. A constant stays a parameter of the
template or is written out, so one grammar makes templates for `query_many` and single texts.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from oracle.scenario import Action, Advance, Push, Scenario
from oracle.translate import bind
from oracle.world import StreamDef, Values

COLUMNS = (
    ("k", "INT"), ("i", "INT"), ("a", "BIGINT"), ("m", "DECIMAL(10,2)"), ("d", "DATE"),
    ("t", "TIMESTAMP"), ("f", "DOUBLE"), ("c", "STRING"), ("ts", "BIGINT"),
)  # fmt: skip
U = StreamDef("u", (("k", "INT"), ("ts", "BIGINT")), retain=1000)
DAY = datetime.date(2024, 2, 27)
NOON = datetime.datetime(2024, 2, 27, 12)
FAR = 2**61  # three of it still fit
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 0.2, 0.3, 1e308, -1e308, 5e-324)
WORDS = ("a", "b", "ab", "")
MODES = ("identical", "nested", "clustered", "scattered")

Params = dict[str, object]


def number_as(kind: str, n: int, rng: Random) -> object:
    """A constant of a kind: the kind of a column, or `days` and `micros` for differences."""
    match kind:
        case "m":
            return Decimal(n) / 4
        case "d":
            return DAY + datetime.timedelta(max(-9, min(9, n)))
        case "t":
            return NOON + datetime.timedelta(seconds=max(-9, min(9, n)))
        case "micros":
            return n * 1_000_000 + rng.choice((0, 0, 1, -1))
        case "f":
            return rng.choice(SPECIAL) if rng.random() < 0.2 else n / 10
        case "c":
            return rng.choice(WORDS)
    return n


@dataclass(frozen=True, slots=True)
class Place:
    """A constant: its name in the template, its kind, and which end of its interval it is."""

    name: str
    kind: str
    end: int


@dataclass(frozen=True, slots=True)
class Template:
    """A query with `$name` constants; DuckDB reads `oracle`, which says the same."""

    text: str
    oracle: str
    places: tuple[Place, ...]
    mode: str
    per_row: bool = False

    def params(self, rng: Random, n: int) -> list[Params]:
        """The constants of n queries."""
        return [self._one(rng) for _ in range(n)]

    def _one(self, rng: Random) -> Params:
        low, high = _interval(rng, self.mode)
        found: Params = {}
        for place in self.places:
            if place.kind == "w":
                found[place.name] = rng.randint(1, 6)
                continue
            n = (low, high)[place.end]
            if rng.random() < 0.04 and place.kind in ("a", "f"):
                n = rng.choice((FAR, -FAR))
            value = number_as(place.kind, n, rng)
            found[place.name] = None if rng.random() < 0.05 else value
        return found

    def sql(self, params: Params) -> str:
        """What DuckDB runs."""
        return bind(self.oracle, params)

    def single(self, params: Params) -> str:
        """The text with its constants written out."""
        return bind(self.text, params)


def _interval(rng: Random, mode: str) -> tuple[int, int]:
    if rng.random() < 0.08:
        return 2, 1  # empty
    match mode:
        case "identical":
            return -1, 1
        case "nested":
            n = rng.randint(0, 6)
            return -n, n
        case "clustered":
            at = rng.choice((-4, 0, 3))
            return at - rng.randint(0, 2), at + rng.randint(0, 2)
    low = rng.randint(-8, 8)
    return low, low + rng.randint(0, 3)


# ---- pieces --------------------------------------------------------------------------
# {x} and {y} are the sides' columns; {0} and {1} are the low and the high constant.
SPELLINGS = (
    "{y} - {x} BETWEEN {0} AND {1}",
    "{x} - {y} BETWEEN {0} AND {1}",
    "{y} - {x} > {0} AND {y} - {x} < {1}",
    "{0} <= {y} - {x} AND {1} > {y} - {x}",
    "{y} - {x} >= {0}",
    "{x} - {y} < {1}",
    "{y} - {x} = {1}",
    "abs({y} - {x}) <= {1}",
    "abs({x} - {y}) < {1}",
    "{1} >= abs({y} - {x})",
    "abs({y} - {x}) < {1} AND {x} - {y} <= {0}",
    "{y} - {x} >= {0} AND {x} - {y} >= {0}",
    "NOT ({y} - {x} > {1})",
    "{y} - {x} <> {1}",
    "{y} - {x} BETWEEN - {1} AND {1}",
    "- {1} <= {x} - {y}",
)
MOVED = (
    "{y} BETWEEN {x} + {0} AND {x} + {1}",
    "{x} > {y} - {1}",
    "{x} - {0} <= {y} AND {y} < {x} + {1}",
    "{0} + {x} < {y}",
    "{y} = {x} + {0}",
    "{y} >= {x} AND {y} <= {x} + {1}",
    "-{x} + {y} <= {1}",
    "{y} - {x} - {0} <= {1}",
    "{y} - {0} > {x} + {1}",
    "{y} BETWEEN {x} + (- {1}) AND - {0} + {x}",
)
SIMPLE = SPELLINGS[:8]
RANGES = (
    "{v} > {0}", "{v} <= {1}", "{v} BETWEEN {0} AND {1}", "{v} >= {0} AND {v} < {1}", "{v} = {1}",
    "{1} >= {v}",
)  # fmt: skip
RESIDUALS = (
    ("i", "{v} IN ({0}, {1})"),
    ("i", "{v} <> {0}"),
    ("a", "({v} < {0} OR {v} > {1})"),
    ("a", "({v} IS NULL OR {v} > {0})"),
    ("f", "({v} > {0} OR {v} <> {v})"),
    ("i", "abs({v}) <= {1}"),
    ("i", "{v} % 3 = {1} % 3"),
    ("c", "{v} LIKE 'a%'"),
    ("c", "{v} = {0}"),
    ("c", "{v} >= {0}"),
    ("c", "{v} IS NOT NULL"),
    ("m", "{v} IS NULL"),
    ("i", "coalesce({v}, {0}) < {1}"),
    ("a", "{v} - {w} <= {1}"),
    ("t", "{v} < TIMESTAMP '2024-02-27 12:00:02'"),
    ("i", "({v} > {0}) IS TRUE"),
)
ACROSS = (
    ("i", "{x} + {y} > {0}"),
    ("c", "coalesce({x}, '') <> {y}"),
    ("i", "greatest({x}, {y}) <= {1}"),
    ("i", "({x} < {0} OR {y} > {1})"),
    ("m", "({x} > {0} OR {y} IS NULL)"),
    ("i", "{x} * {y} <> {0}"),
    ("a", "{x} <> {y}"),
    ("f", "{x} <= {y}"),
    ("t", "{y} <= {x} + INTERVAL 2 SECONDS"),
    ("t", "{y} - {x} <= INTERVAL 2 SECONDS"),
    ("d", "{y} >= {x} - 1"),
    ("f", "{y} BETWEEN {x} - {1} AND {x} + {1}"),
    ("i", "({y} - {x} <= {0} OR {y} - {x} > {1})"),
)


WRAPS = (
    "SELECT x.k, x.a, x.f, y.a AS b, y.f AS g FROM {join}",
    "SELECT x.i, x.m, y.d, y.t, y.c FROM {join}",
    "SELECT x.k, y.k AS l FROM {join}",
    "SELECT DISTINCT x.k, y.i FROM {join}",
    "SELECT x.k AS g, count(*) AS n, sum(y.i) AS s, max(y.m) AS h FROM {join} GROUP BY x.k",
    "SELECT count(*) AS n, min(x.d) AS d FROM {join}",
    "SELECT x.k AS c FROM {join} EXCEPT ALL SELECT k AS c FROM u [RANGE 4]",
    "SELECT x.k AS c FROM {join} EXCEPT SELECT k AS c FROM u [RANGE 4]",
    "SELECT x.a, y.a AS b FROM {join} AND NOT EXISTS (SELECT 1 FROM u [RANGE 3] v WHERE v.k = x.k)",
    "SELECT y.k AS c FROM {join} UNION ALL SELECT k AS c FROM u [RANGE 2]",
    "SELECT x.k, y.i, v.k AS l FROM u [RANGE 3] v, {join} AND v.k = y.k",
    "WITH j AS (SELECT x.k, y.i FROM {join}) SELECT j.k, v.k AS l FROM j, u [RANGE 3] v "
    "WHERE v.k = j.i",
    "SELECT j.n, j.k FROM (SELECT x.k, x.i + y.i AS n FROM {join}) j WHERE j.n > 0",
)


class Texts:
    """Draws templates."""

    def __init__(self, rng: Random, literals: float = 0.2) -> None:
        self._rng, self._literals = rng, literals
        self._places: list[Place] = []

    def template(self, band: bool | None = None) -> Template:
        """A query over two aliases of streams."""
        rng = self._rng
        self._places = []
        return self._of(self._pieces(rng.random() < 0.7 if band is None else band), band)

    def pure(self) -> Template:
        """A query PER ROW that asks nothing of pairs but a band, and perhaps a key."""
        self._places = []
        keys = [self._same("x.k = y.k")] if self._rng.random() < 0.3 else []
        wraps = WRAPS if self._rng.random() < 0.2 else WRAPS[:3]
        made = self._of([self._band(), *keys], True, wraps, longest=12)
        return made if made.per_row else self.pure()

    def _of(
        self, pieces: list[tuple[str, str]], band: bool | None,
        wraps: Sequence[str] = WRAPS, longest: int = 6,
    ) -> Template:  # fmt: skip
        """A query of these conditions."""
        rng = self._rng
        mode, wrap = rng.choice(MODES), rng.choice(wraps)
        left = self._source("r", "x", longest)
        sources = f"{left}, {self._source(rng.choice('rsss'), 'y', longest)}"
        rng.shuffle(pieces)
        text, oracle = (
            wrap.format(join=f"{sources} WHERE {' AND '.join(p[at] for p in pieces)}")
            for at in (0, 1)
        )
        if not self._places:
            return self.template(band)
        emit = rng.choice(("", "", " EMIT CHANGES", " EMIT ON COMMIT"))
        per_row = bool(emit) and rng.random() < 0.5
        suffix = " PER ROW" if per_row else ""
        return Template(text + emit + suffix, oracle + emit, tuple(self._places), mode, per_row)

    def totals(self) -> Template:
        """A query for counts and sums of pairs, mostly of a kind that needs no pairs."""
        rng = self._rng
        self._places = []
        pieces = self._total_pieces()
        rng.shuffle(pieces)
        sources = f"{self._source('r', 'x', 6)}, {self._source(rng.choice('rss'), 'y', 6)}"
        chosen = ", ".join(rng.sample(TOTALS, rng.randint(1, 4)))
        having = f" HAVING {self._filled('count(*) > {1}', 'i')}" if rng.random() < 0.2 else ""
        text, oracle = (
            f"SELECT {chosen} FROM {sources} WHERE {' AND '.join(p[at] for p in pieces)}{having}"
            for at in (0, 1)
        )
        if not self._places:
            return self.totals()
        emit = rng.choice(("", "", " EMIT CHANGES", " EMIT ON COMMIT"))
        per_row = bool(emit) and rng.random() < 0.3
        suffix = " PER ROW" if per_row else ""
        mode = rng.choice(MODES)
        return Template(text + emit + suffix, oracle + emit, tuple(self._places), mode, per_row)

    def _total_pieces(self) -> list[tuple[str, str]]:
        """A band, or an equality and a range of one side or either; sometimes more than these."""
        rng = self._rng
        if rng.random() < 0.6:
            pieces = [self._band()]
            if rng.random() < 0.4:
                pieces.append(self._same("x.k = y.k"))
        else:
            pieces = [self._same("x.k = y.k")]
            for side in rng.choice(("x", "y", "xy")):
                kind = rng.choice("iaamdtf")
                text = self._filled(rng.choice(RANGES), kind, v=f"{side}.{kind}")
                pieces.append(self._same(text))
        if rng.random() < 0.1:
            pieces.append(self._of_side(*rng.choice(RESIDUALS)))
        return pieces

    def _pieces(self, band: bool) -> list[tuple[str, str]]:
        """The conditions, as the engine and as DuckDB read them."""
        rng = self._rng
        pieces = [self._band()] if band else []
        if not band or rng.random() < 0.4:
            pieces.append(self._same("x.k = y.k"))
        if rng.random() < 0.2:
            pieces.append(self._same("x.i = y.i"))
        if band and rng.random() < 0.1:
            pieces.append(self._band())
        ranges = rng.randint(0, 2) if band else rng.randint(1, 3)
        pieces += [self._of_side(rng.choice("iaamdtf"), rng.choice(RANGES)) for _ in range(ranges)]
        if rng.random() < 0.3:
            pieces.append(self._of_side(*rng.choice(RESIDUALS)))
        if rng.random() < 0.2:
            kind, piece = rng.choice(ACROSS)
            text = self._filled(piece, kind, x=f"x.{kind}", y=f"y.{kind}")
            pieces.append(self._same(text))
        return pieces

    @staticmethod
    def _same(text: str) -> tuple[str, str]:
        return text, text

    def _band(self) -> tuple[str, str]:
        rng = self._rng
        column = rng.choice("iaaammdtff")
        if column in "dt":
            kind = {"d": "days", "t": "micros"}[column]
            text = self._filled(rng.choice(SIMPLE), kind, x=f"x.{column}", y=f"y.{column}")
            if column == "d":
                return text, text
            return text, text.replace("x.t", "epoch_us(x.t)").replace("y.t", "epoch_us(y.t)")
        moved = column != "f" or rng.random() < 0.2
        spelling = rng.choice((*SPELLINGS, *MOVED) if moved else SPELLINGS)
        other = rng.choice("ia") if column in "ia" else column
        text = self._filled(spelling, column, x=f"x.{column}", y=f"y.{other}")
        return text, text

    def _of_side(self, kind: str, piece: str) -> tuple[str, str]:
        side = self._rng.choice("xy")
        return self._same(self._filled(piece, kind, v=f"{side}.{kind}", w=f"{side}.i"))

    def _filled(self, piece: str, kind: str, **names: str) -> str:
        constants = [self._constant(kind, end) if f"{{{end}}}" in piece else "" for end in (0, 1)]
        return piece.format(*constants, **names)

    def _constant(self, kind: str, end: int) -> str:
        rng = self._rng
        place = Place(f"p{len(self._places)}", kind, end)
        if rng.random() < self._literals:
            low, high = _interval(rng, "scattered")
            n = (low, high)[end]
            if kind == "m" and rng.random() < 0.5:  # a decimal of another scale
                return rng.choice((f"{n}", f"{n}.5", f"{n}.255"))
            return bind("$v", {"v": number_as(kind, n, rng)})
        self._places.append(place)
        return f"${place.name}"

    def _source(self, stream: str, alias: str, longest: int) -> str:
        rng = self._rng
        length = rng.randint(1, longest)
        window = rng.choice(
            (
                *(f"RANGE {length}",) * 8,
                "NOW",
                "UNBOUNDED",
                "$w",
                "$w",
                f"RANGE {length + 1} SLIDE 2",
            )
        )
        if window == "$w":
            self._places.append(Place(f"p{len(self._places)}", "w", 0))
            window = f"RANGE ${self._places[-1].name}"
        return f"{stream} [{window}] {alias}"


TOTALS = (
    "count(*) AS n", "sum(y.i) AS s", "sum(x.m) AS m", "avg(x.a) AS v", "avg(y.m) AS w",
    "count(y.c) AS c", "count(x.f) AS f", "sum(x.k) AS k", "1 + sum(y.k) AS h",
)  # fmt: skip


# ---- input ---------------------------------------------------------------------------
def _row(rng: Random, ts: int) -> Values:
    def some(value: object) -> object:
        return None if rng.random() < 0.08 else value

    n = [rng.randint(-3, 4) for _ in range(5)]
    return (
        some(rng.randrange(3)),
        some(rng.randint(-2, 3)),
        some(rng.choice((FAR, -FAR)) if rng.random() < 0.04 else n[0]),
        some(Decimal(n[1]) / 4),
        some(DAY + datetime.timedelta(n[2])),
        some(NOON + datetime.timedelta(seconds=n[3], microseconds=rng.choice((0, 0, 1)))),
        some(rng.choice(SPECIAL) if rng.random() < 0.3 else n[4] / 10),
        some(rng.choice(WORDS)),
        ts,
    )


def _arrivals(rng: Random, count: int) -> Iterator[tuple[str, int]]:
    ts = 0
    for _ in range(count):
        ts += rng.choice((0, 0, 0, 1, 1, 2, 5))
        yield rng.choice("rrrsssu"), max(0, ts - rng.choice((0, 0, 0, 1, 2)))


def scenario(rng: Random, count: int) -> Scenario:
    """Streams r and s of all types, and u, with about `count` rows."""
    delay = rng.choice((0, 2, 4))
    streams = (*(StreamDef(n, COLUMNS, delay=delay, retain=1000) for n in "rs"), U)
    waiting: dict[str, list[Values]] = {"r": [], "s": [], "u": []}
    actions: list[Action] = []
    newest = 0

    def push(name: str) -> None:
        if waiting[name]:
            actions.append(Push(name, tuple(waiting[name])))
            waiting[name] = []

    for name, ts in _arrivals(rng, count):
        newest = max(newest, ts)
        waiting[name].append((rng.randrange(3), ts) if name == "u" else _row(rng, ts))
        if rng.random() < 0.3:
            push(rng.choice("rsu"))
        if rng.random() < 0.06:
            actions.append(Advance(rng.choice((None, "r", "s", "u")), newest))
    for name in "rsu":
        push(name)
    actions.append(Advance(None, newest + rng.choice((0, 2, 9))))
    return Scenario(streams, (), tuple(actions))
