"""Cases from seeds, the tally of what was checked, and a small minimiser for what failed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from oracle.scenario import Action, Push, Scenario
from penstock.errors import PlanError, UnsupportedError
from property.data import STREAMS, session
from property.plans import Plans

PROFILE = os.environ.get("PENSTOCK_PROFILE", "ci")
FACTOR = {"quick": 0.05, "ci": 1.0, "nightly": 50.0}[PROFILE]
CHUNKS = 20
"""Randomised tests are cut into this many pytest cases."""

tally: Counter[str] = Counter()
"""What was checked, for the summary at the end of the run."""
refusals: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class Case:
    """Some queries and one session."""

    sqls: tuple[str, ...]
    scenario: Scenario


def case(seed: int, queries: int = 1, depth: int | None = None, rows: int = 0) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    plans = Plans(rng)
    depths = [rng.choice((0, 1, 1, 2, 2, 3)) if depth is None else depth for _ in range(queries)]
    sqls = tuple(plans.query(d) for d in depths)
    streams = plans.streams or {rng.choice(sorted(STREAMS))}
    scenario = session(rng, streams, plans.tables, rows or rng.randint(12, 30))
    return Case(sqls, scenario)


def seeds(base: int, chunk: int, total: int) -> range:
    """The seeds of one chunk of `total` cases (scaled by the profile)."""
    size = max(1, round(total * FACTOR / CHUNKS))
    first = base * 10_000_000 + chunk * size
    return range(first, first + size)


def refused(name: str, work: Callable[[], object]) -> bool:
    """Run `work`; True when the engine declined the plan, which is counted, not failed.

    A refusal says what to do instead; a PlanError that does not is a bug.
    """
    try:
        work()
    except (UnsupportedError, PlanError) as refusal:
        if not refusal.remedy:
            raise
        refusals[refusal.message.split(":")[0][:80]] += 1
        tally[f"{name}: refused"] += 1
        return True
    return False


def verify(name: str, subject: Case, test: Callable[[Case], object], shrink: bool = True) -> None:
    """Test a case; on failure report the smallest one found that still fails the same way."""
    try:
        if not refused(name, lambda: test(subject)):
            tally[name] += len(subject.sqls)
    except Exception as e:
        if not shrink:
            raise
        small = minimise(subject, test, type(e))
        try:
            test(small)
        except type(e) as smaller:
            script = small.scenario.script(list(small.sqls))
            smaller.add_note(f"minimal case:\n{script}")
            raise
        raise


def minimise(subject: Case, test: Callable[[Case], object], kind: type[Exception]) -> Case:
    """Greedily drop queries, actions and rows while `test` keeps failing with `kind`."""

    def fails(candidate: Case) -> bool:
        try:
            test(candidate)
        except Exception as e:  # any other failure is another bug
            return type(e) is kind
        return False

    budget = 150
    progress = True
    while progress and budget > 0:
        progress = False
        for smaller in _smaller(subject):
            budget -= 1
            if budget <= 0:
                break
            if fails(smaller):
                subject, progress = smaller, True
                break
    return subject


def _smaller(subject: Case) -> list[Case]:
    found = []
    indexed = any(hasattr(a, "index") for a in subject.scenario.actions)
    if len(subject.sqls) > 1 and not indexed:
        found += [Case((sql,), subject.scenario) for sql in subject.sqls]
    actions = subject.scenario.actions
    for i in range(len(actions) - 1, -1, -1):
        if not hasattr(actions[i], "index"):
            found.append(_with(subject, actions[:i] + actions[i + 1 :]))
    for i, action in enumerate(actions):
        if isinstance(action, Push) and len(action.rows) > 1:
            for j in range(len(action.rows)):
                fewer = Push(action.stream, action.rows[:j] + action.rows[j + 1 :])
                found.append(_with(subject, (*actions[:i], fewer, *actions[i + 1 :])))
    return found


def _with(subject: Case, actions: tuple[Action, ...]) -> Case:
    return Case(subject.sqls, replace(subject.scenario, actions=actions))
