"""A flow: all select-project-join blocks of one span, run together (CACQ §3; DESIGN §5.7).

The templates of a flow differ in filters, window lengths and output columns. Before the templates
read their results, the engine runs one step of the flow: the rows that the clock has reached pass
through filters and SteMs once, for the queries of all templates. The only state of a flow is its
position in each log; the rows of SteMs are in the source logs. Everything else is a cache that
follows the Q of the templates.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.delta import Lineage
from penstock.eddy.eddy import Routing
from penstock.eddy.flow_report import FlowReport
from penstock.eddy.membership import FlowTemplate, Membership
from penstock.eddy.results import Matches, Results
from penstock.eddy.router import Router
from penstock.eddy.stem_step import StemStep
from penstock.expressions.context import Context
from penstock.expressions.hidden import Totals
from penstock.optimizer.span import Span
from penstock.state.arena import Scope
from penstock.state.source_log import SourceLog
from penstock.stems.log_view import LogView
from penstock.stems.stems import Stems

_NOWHERE = -1


class Flow:
    """One span, its templates and its positions in the logs."""

    def __init__(
        self, span: Span, logs: list[SourceLog], stems: Stems, ctx: Context, scope: Scope,
        routing: Routing = "tickets",
    ) -> None:  # fmt: skip
        self.span, self.logs, self.scope = span, logs, scope
        self._registry = stems
        self._stems = [self._acquire(alias) for alias in range(len(span))]
        self._membership = Membership(len(span), ctx, routing)
        self._router = Router(logs, self._membership, self._stems, ctx)
        self.report = FlowReport(span, self._membership, self._stems, routing)
        self._needs: tuple[int, dict[str, int]] | None = None  # at an instant, in the current step
        self._results = Results(len(span))
        self._failure: Exception | None = None
        self._first = False
        scope.array("position", len(span), fill=_NOWHERE)
        self._before = self._positions().copy()

    def _acquire(self, alias: int) -> StemStep:
        stream, log = self.span.streams[alias], self.logs[alias]
        keys = self.span.keys(alias)
        stems = {key: self._registry.acquire(stream, log, *key) for key in keys}
        return StemStep(self.span, alias, stems)

    # ---- templates -------------------------------------------------------------------
    @property
    def members(self) -> dict[int, FlowTemplate]:
        """The templates by key."""
        return self._membership.templates

    def add(self, key: int, template: FlowTemplate) -> None:
        """Add a template."""
        self._membership.add(key, template)
        self._needs = None

    def remove(self, key: int) -> None:
        """Remove a template; after the last one, release the SteMs and the state."""
        self._membership.remove(key)
        self._needs = None
        if not self.members:
            for step in self._stems:
                for stem in step.stems.values():
                    self._registry.release(stem)
            self.scope.free()

    # ---- the step --------------------------------------------------------------------
    def begin(self) -> None:
        """Begin a step of the engine: the Q of templates may have changed."""
        self._membership.forget()
        self._needs = None

    def step(self, now: int) -> None:
        """Route the rows up to `now`.

        An error is kept and raised when a template asks for results.
        """
        self._results, self._failure, self._needs = Results(len(self.span)), None, None
        try:
            self._step(now)
        except Exception as error:
            self._failure = error

    def _step(self, now: int) -> None:
        positions = self._positions()
        self._membership.welcome()
        self._first = bool(positions[0] == _NOWHERE)
        self._before = self._discarded() if self._first else positions.copy()
        if now == BEGINNING:
            positions[:] = self._before
            return
        ends = self._ends(now)
        if not self._first and not np.count_nonzero(ends > positions):
            return
        self._membership.follow()
        if self._first:  # the first step looks existing rows up instead of routing them
            self._before = ends
        self._results = self._router.arrive(self._before, ends)
        positions[:] = ends

    def _positions(self) -> I64:
        return cast(I64, self.scope["position"])

    def _discarded(self) -> I64:
        return np.array([log.discarded for log in self.logs])

    def _ends(self, now: int) -> I64:
        return np.array([log.position(now, after=True) for log in self.logs])

    # ---- the results of the step -----------------------------------------------------
    def has_results(self, key: int) -> bool:
        """Whether the step found rows for a template."""
        return self._failure is not None or self._results.has(key)

    def matches(self, key: int) -> Matches:
        """The matches of a template in this step; they can be taken once."""
        self._check()
        return self._results.take(key)

    def arrived(self) -> tuple[int, int]:
        """The positions of the first alias's rows in this step."""
        self._check()
        return int(self._before[0]), int(self._positions()[0])

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def faults(self, key: int) -> dict[int, str]:
        """The queries of the template that failed in this step, with the reasons."""
        return self._results.faults.pop(key, {})

    def hidden(self, key: int) -> Totals:
        """The failures that this step hid from the template's queries."""
        return self._results.hidden.pop(key, Totals())

    # ---- what holds at the clock -----------------------------------------------------
    @property
    def before(self) -> I64:
        """The positions at the start of the step, by alias."""
        return self._before

    @property
    def taken(self) -> I64 | None:
        """The positions after the step, by alias; None before the first step."""
        positions = self._positions()
        return None if positions[0] == _NOWHERE else positions

    def looking_back(self, key: int, qids: I64) -> I64:
        """The new queries of a template that must see rows of earlier steps.

        In the first step these may be any queries, later only queries with history.
        """
        if self._first:
            return qids
        since = self.members[key].queries.since(Lineage.QUERY)
        return np.asarray(qids[since[qids] == 0])

    def held(self, key: int, now: int, qids: I64, until: I64) -> Matches:
        """The matches live at `now`, from rows before `until`, for some queries of a template."""
        self._membership.follow()
        found = self._router.look_up(key, qids, now, self._positions(), until)
        self._results.blame(key, found.faults.get(key, {}))
        return found.take(key)

    def views(self) -> list[LogView]:
        """Views of the logs' rows."""
        return self._router.views()

    # ---- what is needed and known ----------------------------------------------------
    def needs(self, now: int) -> dict[str, int]:
        """The first position of each stream's log that some template still needs."""
        if self._needs is None or self._needs[0] != now:
            self._needs = now, self._needed(now)
        return self._needs[1]

    def _needed(self, now: int) -> dict[str, int]:
        positions = self._positions().tolist()
        held = len(self.span) > 1 and now != BEGINNING
        floors = self._router.floors(now) if held else positions
        found: dict[str, int] = {}
        for stream, position, floor in zip(self.span.streams, positions, floors, strict=True):
            least = min(position, floor)
            found[stream] = min(found.get(stream, least), least)
        return found
