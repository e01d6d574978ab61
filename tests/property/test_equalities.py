"""Joins on several equalities, in which a column may stand more than once, against the oracle."""

from __future__ import annotations

from random import Random

import pytest

from oracle.check import check
from property.cases import CHUNKS, Case, seeds, verify
from property.data import session

COLUMNS = {
    "r": {"k": "INT", "a": "INT"},
    "s": {"k": "INT", "b": "INT"},
    "u": {"k": "INT", "c": "STRING"},
    "t": {"k": "INT", "name": "STRING"},
    "n": {"k": "INT", "w": "INT"},
}
WINDOWS = ("[RANGE 4]", "[RANGE 6 SLIDE 3]", "[ROWS 3]", "[UNBOUNDED]")
FORMS = (
    "SELECT * FROM {left} JOIN {right} ON {on}",
    "SELECT * FROM {left} LEFT JOIN {right} ON {on}",
    "SELECT * FROM {left} FULL JOIN {right} ON {on}",
    "SELECT * FROM {left} SEMI JOIN {right} ON {on}",
    "SELECT * FROM {left} ANTI JOIN {right} ON {on}",
    "SELECT * FROM {left} WHERE EXISTS (SELECT 1 FROM {right} WHERE {on})",
    "SELECT * FROM {left} WHERE NOT EXISTS (SELECT 1 FROM {right} WHERE {on})",
    "SELECT * FROM {left} WHERE x.k IN (SELECT y.k FROM {right} WHERE {on})",
    "SELECT * FROM {left} WHERE x.k NOT IN (SELECT y.k FROM {right} WHERE {on})",
    "SELECT DISTINCT x.k FROM {left} JOIN {right} ON {on}",
)
WITH_NRR = "SELECT x.k, y.k AS l, y.w FROM {left} JOIN {right} ON {on}"


class Draw:
    """Draws a query over some streams and tables, which it notes."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.streams: set[str] = set()
        self.tables: set[str] = set()

    def query(self) -> str:
        """A query whose condition is two or three equalities."""
        left, right = self._rng.choice("rsu"), self._rng.choice("rsutn")
        form = WITH_NRR if right == "n" else self._rng.choice(FORMS)
        windows = WINDOWS[::2] if right == "n" else WINDOWS  # no slide, which delays rows
        return form.format(
            left=self._left(left, windows),
            right=self._named(right, windows, "y"),
            on=" AND ".join(self._equalities(left, right)),
        )

    def _left(self, name: str, windows: tuple[str, ...]) -> str:
        """A source, or one that a join below has made, so that the join above has a plan alone."""
        source = self._named(name, windows, "x")
        if windows is not WINDOWS or self._rng.random() < 0.5:
            return source
        self.tables.add("t")
        second = list(COLUMNS[name])[1]
        inner = f"SELECT z.k, z.{second}, v.name FROM {source[:-1]}z LEFT JOIN t v ON z.k = v.k"
        return f"({inner}) x"

    def _named(self, name: str, windows: tuple[str, ...], alias: str) -> str:
        if name in "tn":
            self.tables.add(name)
            return f"{name} {alias}"
        self.streams.add(name)
        return f"{name} {self._rng.choice(windows)} {alias}"

    def _equalities(self, left: str, right: str) -> list[str]:
        pairs = [
            f"x.{one} = y.{two}"
            for one, kind in COLUMNS[left].items()
            for two, other in COLUMNS[right].items()
            if kind == other
        ]
        return self._rng.sample(pairs, min(len(pairs), self._rng.choice((2, 2, 3))))


def case_of(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    draw = Draw(rng)
    sqls = tuple(draw.query() for _ in range(2))
    return Case(sqls, session(rng, draw.streams, draw.tables, 20))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_joins_on_equalities_are_exact(chunk: int) -> None:
    for seed in seeds(95, chunk, 10 * CHUNKS):
        verify("equalities", case_of(seed), lambda c: check(list(c.sqls), c.scenario))
