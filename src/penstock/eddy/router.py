"""The router of a flow: sends rows through the lineage groups and sorts the results by template.

A result is found once: its last row in the order of (time, alias, position) probes only earlier
rows, and rows of earlier steps come before all rows of this step.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64
from penstock.eddy.lineage_batch import Entrants, LineageBatch
from penstock.eddy.lineage_group import LineageGroup
from penstock.eddy.membership import Membership
from penstock.eddy.results import Matches, Results
from penstock.eddy.stem_step import StemStep
from penstock.eddy.verdict import settle
from penstock.expressions.context import Context
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import explode, order_rows
from penstock.state.source_log import SourceLog
from penstock.stems.log_view import LogView

_BATCH = 4096  # most rows that enter at once
_MOST_WAITING = 1 << 20  # a SteM that is further behind is built


class Router:
    """Routes rows of the logs through the lineage groups and SteMs."""

    def __init__(
        self, logs: list[SourceLog], membership: Membership, stems: list[StemStep], ctx: Context
    ) -> None:
        self._logs, self._membership, self._stems, self._ctx = logs, membership, stems, ctx

    def views(self) -> list[LogView]:
        """Views of the logs' rows; a flow over one stream does not store them."""
        if len(self._logs) == 1:
            return [LogView.passing(self._logs[0])]
        return [LogView.of(log) for log in self._logs]

    def floors(self, instant: int) -> list[int]:
        """The first position that a window may contain at an instant, by alias."""
        lifetimes = self._membership.longest()
        return [life.first(log, instant) for life, log in zip(lifetimes, self._logs, strict=True)]

    # ---- rows that arrive ------------------------------------------------------------
    def arrive(self, starts: I64, ends: I64) -> Results:
        """The results of the rows at [starts, ends), alias by alias."""
        results = Results(len(self._logs))
        if not any(map(len, self._membership.groups)):
            return results
        views, size = self.views(), self._batch_size()
        for alias in range(len(self._logs)):
            until = int(ends[alias])
            for at in range(int(starts[alias]), until, size):
                entry = self._entrants(alias, at, min(at + size, until), starts, views)
                if entry is not None:
                    self._build(ends, entering=alias)
                    self._route(entry, self._everyone(), results)
        self._catch_up(ends)
        self._count_hidden(results)
        return results

    def _everyone(self) -> list[U64]:
        return [group.mask for group in self._membership.groups]

    def _batch_size(self) -> int:
        """The number of rows that enter at once.

        Large where the eddy has nothing to choose or learn.
        """
        groups = self._membership.groups
        simple = len(self._logs) == 1 and all(len(group.steps) < 2 for group in groups)
        return 16 * _BATCH if simple else _BATCH

    def _entrants(
        self, alias: int, start: int, end: int, old: I64, views: list[LogView]
    ) -> Entrants | None:
        """Rows that enter; None if no earlier row of another alias can be a partner."""
        base = views[alias].base
        instants, positions = views[alias].ts[start - base : end - base], np.arange(start, end)
        if len(views) == 1:
            return Entrants(alias, positions, instants, [positions], [start], views)
        floors, limits = self.floors(int(instants[0])), [positions] * len(views)
        for other, view in enumerate(views):
            if other == alias:
                continue
            after, least = other < alias, int(old[other])
            if max(view.position(int(instants[-1]), after=after), least) <= floors[other]:
                return None
            limits[other] = view.positions(instants, least, after=after)
        return Entrants(alias, positions, instants, limits, floors, views)

    def _count_hidden(self, results: Results) -> None:
        for group in self._membership.groups:
            for key, hid in group.hidden.items():
                results.hide(key, hid)
            group.hidden.clear()

    # ---- rows that are there ---------------------------------------------------------
    def look_up(self, key: int, qids: I64, now: int, built: I64, until: I64) -> Results:
        """The matches live at `now` for some queries of a template, from rows before `until`.

        SteMs are built up to `built`. Rows of the first alias enter and probe the others.
        """
        self._build(built, entering=0)
        masks, results = self._membership.masks(key, qids), Results(len(self._logs))
        views, floors, end = self.views(), self.floors(now), int(until[0])
        for at in range(floors[0], end, _BATCH):
            entering = np.arange(at, min(at + _BATCH, end))
            n = entering.shape[0]
            limits = [np.full(n, int(limit)) for limit in until]
            entry = Entrants(0, entering, np.full(n, now), limits, floors, views)
            self._route(entry, masks, results)
        for group in self._membership.groups:
            group.hidden.clear()  # these rows were counted when they arrived
        return results

    # ---- SteMs -----------------------------------------------------------------------
    def _build(self, ends: I64, entering: int) -> None:
        """Build the SteMs that rows of an alias may probe."""
        for step in self._stems:
            if step.alias != entering:
                for stem in step.stems.values():
                    stem.build(int(ends[step.alias]))

    def _catch_up(self, ends: I64) -> None:
        """Build SteMs that have not been probed for long, so that their next probe is not slow."""
        for step in self._stems:
            for stem in step.stems.values():
                if stem.waiting(int(ends[step.alias])) > _MOST_WAITING:
                    stem.build(int(ends[step.alias]))

    # ---- the way ---------------------------------------------------------------------
    def _route(self, entry: Entrants, masks: list[U64], results: Results) -> None:
        """Route rows through every group, for the queries of the group's mask."""
        for group, mask in zip(self._membership.groups, masks, strict=True):
            if np.count_nonzero(mask):
                for batch in group.route(entry, self._stems, mask):
                    self._collect(group, batch, results)

    def _collect(self, group: LineageGroup, batch: LineageBatch, results: Results) -> None:
        templates = self._membership.templates
        settle(group, batch, templates, self._ctx, results.faults)
        instants, places, bits = self._in_place(batch)
        rows, slots = explode(bits)
        found = Matches(np.take(places, rows, axis=1), instants[rows], group.qid[slots])
        results.add(found, group.member[slots])

    def _in_place(self, batch: LineageBatch) -> tuple[I64, I64, U64]:
        """Instants, positions and lineage of the rows, sorted by time and positions.

        Sorting here is cheaper than after the rows are multiplied by query.
        """
        places = np.vstack([batch.positions[alias] for alias in range(len(self._logs))])
        instants, bits = batch.instants(), batch.bits
        if len(self._logs) > 1:
            moved, order = order_rows(instants, places)
            if moved:
                return instants[order], np.take(places, order, axis=1), bits[order]
        return instants, places, bits
