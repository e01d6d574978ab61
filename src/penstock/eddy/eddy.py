"""The eddy: the order in which a batch of rows visits routing steps (CACQ §3, §4).

A step (CACQ: a module) earns a ticket for each query it removes from a row. If the row must still
visit another step that serves its queries, it earns a fifth of a ticket, because that visit is not
saved. It loses a ticket for each query it adds (a SteM may return more rows than it got). Tickets
fade, so that old observations lose weight. The next step is drawn by lot among the steps that are
ready, with weight (tickets per cost) squared: the first step finds most to reject, so without the
square a second-best step would stay first. The cost of a step is the least time per row of its last
visits, because longer times include other processes; it plays the part of back-pressure in an eddy
with queues. Some draws ignore tickets, so that a step that has become good is noticed. The order of
visits changes no result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Routing = Literal["tickets", "fixed", "random", "optimal"]
ROUTINGS: tuple[Routing, ...] = ("tickets", "fixed", "random", "optimal")

_MEMORY = 5_000  # after so many rows, half of the tickets have faded
_TOO_EARLY = 0.2  # tickets for a query removed from a row that goes on
_BLIND = 0.01  # share of draws that ignore tickets
_RECENT = 8  # number of last visits; the least cost counts
_KNOWN = 3  # visits before a cost is used: the first ones may load code
_FEW = 1024  # with fewer rows, the visit itself dominates the cost
_CHEAP = 200.0  # ns per row; cheaper steps count as equally cheap


@dataclass(slots=True)
class Score:
    """The statistics of one step."""

    tickets: float = 1.0
    visits: int = 0  # rows
    tested: int = 0  # pairs of row and query before the visits
    passed: int = 0  # pairs after the visits
    costs: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))  # ns per row

    @property
    def selectivity(self) -> float:
        """The share of pairs that pass; above 1 for a SteM that multiplies rows."""
        return self.passed / self.tested if self.tested else 1.0

    @property
    def cost(self) -> float:
        """The recent time per row in ns."""
        return min(self.costs) if len(self.costs) >= _KNOWN else 0.0


@dataclass(slots=True)
class Eddy:
    """Routes one kind of rows; steps are identified by a key."""

    routing: Routing = "tickets"
    seed: int = 0
    rows: int = 0  # that have entered
    visits: int = 0  # visits of rows to steps
    scores: dict[Hashable, Score] = field(default_factory=dict)
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def score(self, key: Hashable) -> Score:
        """The score of a step; a new step gets a new score."""
        score = self.scores.get(key)
        if score is None:
            score = self.scores[key] = Score()
        return score

    def forget(self, keys: set[Hashable]) -> None:
        """Remove the scores of steps that are gone."""
        for key in keys & self.scores.keys():
            del self.scores[key]

    # ---- choosing --------------------------------------------------------------------
    def choose(self, ready: Sequence[Hashable]) -> int:
        """Choose which of the ready steps (in a fixed order) the batch visits next.

        Return its index.
        """
        if len(ready) == 1 or self.routing == "fixed":
            return 0
        if self.routing == "random":
            return int(self._random.integers(len(ready)))
        scores = [self.score(key) for key in ready]
        if self.routing == "optimal":
            return _best(scores)
        if self._random.random() < _BLIND:
            return int(self._random.integers(len(ready)))
        weights = [(max(s.tickets, 1.0) / max(s.cost, _CHEAP)) ** 2 for s in scores]
        draw = self._random.random() * sum(weights)
        for at, weight in enumerate(weights):
            draw -= weight
            if draw < 0:
                return at
        return len(ready) - 1

    # ---- learning --------------------------------------------------------------------
    def enter(self, rows: int) -> None:
        """Count rows that enter, and let tickets fade."""
        self.rows += rows
        fade = 0.5 ** (rows / _MEMORY)
        for score in self.scores.values():
            score.tickets = max(1.0, score.tickets * fade)

    def learn(
        self, key: Hashable, visited: int, tested: int, passed: int, too_early: int, ns: int
    ) -> None:
        """Update a score after a visit: visiting rows, pairs before and after, time taken.

        `too_early` is the number of rejected pairs that belong to rows that go on.
        """
        score = self.score(key)
        earned = tested - passed - (1.0 - _TOO_EARLY) * too_early
        score.tickets = max(1.0, score.tickets + earned)
        score.visits += visited
        score.tested += tested
        score.passed += passed
        self.visits += visited
        if visited:
            score.costs.append(ns / (visited + _FEW))

    @property
    def visits_per_row(self) -> float:
        """The average number of visits per row."""
        return self.visits / self.rows if self.rows else 0.0

    def shares(self) -> dict[Hashable, float]:
        """Each step's share of all tickets."""
        total = sum(s.tickets for s in self.scores.values())
        return {key: s.tickets / total for key, s in self.scores.items()}


def _best(scores: list[Score]) -> int:
    """The step that removes most queries per cost, over all visits so far."""
    for at, score in enumerate(scores):
        if not score.visits:
            return at  # a step without statistics first

    def gain(score: Score) -> float:
        return (score.tested - score.passed) / score.visits / max(score.cost, _CHEAP)

    return max(range(len(scores)), key=lambda at: gain(scores[at]))
