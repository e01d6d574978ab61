"""The eddy: in which order a batch of rows visits the routing steps that are ready (CACQ §3, §4).

A step (CACQ: a module) earns a ticket for each query it removes from a row, a fifth of one if the
row must still visit another step that serves its queries (the step came too early to spare that
visit), and loses one for each it adds (a SteM may return more than it got). Tickets fade, so that
old lessons are forgotten. A lottery among the steps that are ready is weighted by tickets per
cost, squared (a step must win two draws): the first step finds most to reject, so without the
square a second-best one would stay ahead. Costs are the back-pressure of an eddy without queues;
the least of the last visits counts, since the others include time of other processes. Now and
then the draw ignores tickets, so that a step that has become good is noticed. The order of visits
changes no result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Routing = Literal["tickets", "fixed", "random", "optimal"]
ROUTINGS: tuple[Routing, ...] = ("tickets", "fixed", "random", "optimal")

_MEMORY = 5_000  # rows after which half of the tickets have faded
_TOO_EARLY = 0.2  # of a ticket, for a query taken from a row that goes on
_BLIND = 0.01  # share of draws without tickets
_RECENT = 8  # visits of which the least cost counts
_KNOWN = 3  # visits before a cost is believed: the first ones may load code
_FEW = 1024  # so few rows cost little beside the visit itself
_CHEAP = 200.0  # ns per row below which steps cost the same


@dataclass(slots=True)
class Score:
    """What is known of one step."""

    tickets: float = 1.0
    visits: int = 0  # rows
    tested: int = 0  # pairs of row and query that came
    passed: int = 0  # pairs that left
    costs: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))  # ns per row

    @property
    def selectivity(self) -> float:
        """Share of pairs that pass; above 1 for a SteM that multiplies rows."""
        return self.passed / self.tested if self.tested else 1.0

    @property
    def cost(self) -> float:
        """Time per row in ns, lately."""
        return min(self.costs) if len(self.costs) >= _KNOWN else 0.0


@dataclass(slots=True)
class Eddy:
    """Routing of one kind of rows; steps are known by a key."""

    routing: Routing = "tickets"
    seed: int = 0
    rows: int = 0  # that entered
    visits: int = 0  # of steps by rows
    scores: dict[Hashable, Score] = field(default_factory=dict)
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def score(self, key: Hashable) -> Score:
        """The score of a step, a new one for a new step."""
        score = self.scores.get(key)
        if score is None:
            score = self.scores[key] = Score()
        return score

    def forget(self, keys: set[Hashable]) -> None:
        """Forget steps that are gone."""
        for key in keys & self.scores.keys():
            del self.scores[key]

    # ---- choosing --------------------------------------------------------------------
    def choose(self, ready: Sequence[Hashable]) -> int:
        """Which of the steps (in a fixed order) the batch visits next."""
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
        """Count rows that enter; tickets fade."""
        self.rows += rows
        fade = 0.5 ** (rows / _MEMORY)
        for score in self.scores.values():
            score.tickets = max(1.0, score.tickets * fade)

    def learn(
        self, key: Hashable, visited: int, tested: int, passed: int, too_early: int, ns: int
    ) -> None:
        """Learn from the visit of a batch: rows that visited, pairs before and after, time taken.

        `too_early` says how many of the rejected pairs are of rows that go on.
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
        """How many steps a row has visited on average."""
        return self.visits / self.rows if self.rows else 0.0

    def shares(self) -> dict[Hashable, float]:
        """Each step's share of all tickets."""
        total = sum(s.tickets for s in self.scores.values())
        return {key: s.tickets / total for key, s in self.scores.items()}


def _best(scores: list[Score]) -> int:
    """The step that removes most queries from a row for its cost, by all visits so far."""
    for at, score in enumerate(scores):
        if not score.visits:
            return at  # nothing is known of it yet

    def gain(score: Score) -> float:
        return (score.tested - score.passed) / score.visits / max(score.cost, _CHEAP)

    return max(range(len(scores)), key=lambda at: gain(scores[at]))
