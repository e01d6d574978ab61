"""The two sources of a flow's rows: the flow's lineage groups, or the template's own index.

Both return rows of the template's queries in the same form: output columns, expiry and lineage.
`arrived` returns the rows of the current step, `held` the rows that the logs still hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Clock, Delta, Lineage
from penstock.eddy.flow import Flow
from penstock.eddy.membership import FlowTemplate
from penstock.eddy.results import Matches
from penstock.kernels.lineage import join_rows
from penstock.kernels.rows import select_columns
from penstock.optimizer.flow_block import Block
from penstock.optimizer.span import AliasColumn

if TYPE_CHECKING:
    from penstock.physical.match import MatchOp
    from penstock.physical.scan import ScanOp
    from penstock.state.sets import SetTable
    from penstock.stems.log_view import LogView

MakeIndex = Callable[[], "tuple[ScanOp, MatchOp]"]


class FlowMatches(Protocol):
    """The rows of a flow that the queries of one template take."""

    def has_input(self) -> bool:
        """Whether the flow's step found rows for the template."""

    def arrived(self, clock: Clock) -> Delta:
        """The results of the flow's step."""

    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """The results live at `now`, from log rows before `until` (by alias).

        `qids` limits the queries; None means all.
        """


class OwnMatches(FlowMatches, Protocol):
    """Rows that the template's own index finds."""

    def notes(self) -> list[str]:
        """For EXPLAIN: what the index has learnt."""

    def how(self) -> str:
        """For EXPLAIN: how queries are matched."""

    def close(self) -> None:
        """Release what is shared."""


class MatchedRows:
    """Turns matches into rows of a plan: output columns, expiry and lineage."""

    def __init__(
        self, flow: Flow, template: FlowTemplate, block: Block, sets: SetTable | None
    ) -> None:
        self._flow, self._template = flow, template
        self._own_windows, self._sets = block.own_windows, sets
        self._width, self._runs = len(block.output), _runs(block.output)

    @property
    def sets(self) -> SetTable | None:
        """The table of query sets, if the rows carry these."""
        return self._sets

    def delta_of_pairs(self, found: Matches) -> Delta:
        """The rows of matches that have the codes of sets instead of queries.

        All queries have windows of the same lengths.
        """
        if not len(found):
            return Delta.empty(self._width)
        views = self._flow.views()
        return self._rows(found, self._shared_expiry(found, views), found.qids, views)

    def delta(self, found: Matches) -> Delta:
        """The rows of matches, without those that expire before they begin."""
        if not len(found):
            return Delta.empty(self._width)
        views = self._flow.views()
        exp = self._expiry(found, views)
        if self._sets is None:
            return self._rows(found, exp, found.qids, views)
        heads = found.heads(exp)
        if self._own_windows and len(heads) > len(found.heads(found.instants)):
            order = np.lexsort((found.qids, exp, *found.positions[::-1], found.instants))
            found, exp = found.take(order), exp[order]
            heads = found.heads(exp)
        codes = self._sets.intern(np.append(heads, len(found)), found.qids)
        return self._rows(found.take(heads), exp[heads], codes, views)

    def living(self, found: Matches) -> Matches:
        """The matches with all rows inside the windows of the query."""
        exp = self._expiry(found, self._flow.views())
        alive = exp > found.instants
        return found if alive.all() else found.take(np.flatnonzero(alive))

    def living_pairs(self, found: Matches) -> Matches:
        """The same where all queries have windows of the same lengths."""
        alive = self._shared_expiry(found, self._flow.views()) > found.instants
        return found if alive.all() else found.take(np.flatnonzero(alive))

    def _shared_expiry(self, found: Matches, views: list[LogView]) -> I64:
        """The expiry of each pair, if all queries have windows of the same lengths."""
        exp, lengths = np.full(len(found), NEVER), self._template.longest()
        for alias, (view, lifetime) in enumerate(zip(views, self._template.lifetimes, strict=True)):
            if lifetime.ends:
                ts = view.ts[found.positions[alias] - view.base]
                np.minimum(exp, lifetime.departures(ts, lengths[alias]), out=exp)
        return exp

    def _expiry(self, found: Matches, views: list[LogView]) -> I64:
        """The expiry of each result: the earliest expiry of its rows."""
        exp = np.full(len(found), NEVER)
        for alias, (view, lifetime) in enumerate(zip(views, self._template.lifetimes, strict=True)):
            if lifetime.ends:
                ts = view.ts[found.positions[alias] - view.base]
                np.minimum(exp, self._template.departures(alias, ts, found.qids), out=exp)
        return exp

    def _rows(self, found: Matches, exp: I64, lin: I64, views: list[LogView]) -> Delta:
        n = len(found)
        rows = np.empty((1 + self._width, n), np.int64)
        rows[0] = 0
        for alias, columns, first in self._runs:
            view = views[alias]
            join_rows(rows, view.rows, found.positions[alias], view.base, columns, first)
        return Delta(rows, found.instants, exp, np.ones(n, np.int8), lin)


class GroupMatches:
    """Results from the flow's lineage groups, which templates share."""

    def __init__(self, flow: Flow, key: int, template: FlowTemplate, made: MatchedRows) -> None:
        self._flow, self._key, self._template, self._made = flow, key, template, made

    def has_input(self) -> bool:
        """Whether the groups found rows for the template."""
        return self._flow.has_results(self._key)

    def arrived(self, clock: Clock) -> Delta:
        """The matches of the step; at commit only those alive at the clock."""
        delta = self._made.delta(self._flow.matches(self._key))
        return delta.alive(clock.now) if clock.at_commit else delta

    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """Route the rows of the logs again, for these queries only."""
        if qids is None:
            qids = self._template.queries.live(Lineage.QUERY)
        return self._made.delta(self._flow.held(self._key, now, qids, until))


class IndexMatches:
    """Results from the template's own index: rows of one stream matched with very many queries."""

    def __init__(
        self, flow: Flow, template: FlowTemplate, _: MatchedRows, *, block: Block,
        make_index: MakeIndex,
    ) -> None:  # fmt: skip
        self._flow, self._template, self._block = flow, template, block
        self._make_index = make_index
        columns = block.scans[0].columns
        chosen = tuple(columns.index(column) for _, column in block.output)
        self._chosen = None if chosen == tuple(range(len(columns))) else chosen

    @cached_property
    def _index(self) -> tuple[ScanOp, MatchOp]:
        """The scan and the match, built on first use because few templates need them."""
        return self._make_index()

    def has_input(self) -> bool:
        """Whether the step took rows."""
        start, end = self._flow.arrived()
        return start < end

    def arrived(self, clock: Clock) -> Delta:
        """Match the rows of the step; at commit only those alive at the clock."""
        scan, match = self._index
        rows = scan.rows_at(*self._flow.arrived())
        with match.counting():
            return self._matched(rows, match.match_live, clock.now if clock.at_commit else None)

    def held(self, now: int, until: I64, qids: I64 | None) -> Delta:
        """Match the rows that the log still holds."""
        scan, match = self._index
        rows = scan.rows_at(scan.log.discarded, int(until[0]))
        if qids is None:
            return self._matched(rows, match.match_live, now)
        return self._matched(rows, lambda delta: match.match(delta, qids), now)

    def _matched(self, delta: Delta, match: Callable[[Delta], Delta], at: int | None) -> Delta:
        """Match rows and gather the output columns; with `at`, only rows alive at that time."""
        if self._block.own_windows:
            delta = match(delta)
            delta = delta.with_(exp=self._template.departures(0, delta.ts, delta.lin))
            delta = delta if at is None else delta.alive(at)
        else:
            delta = match(delta if at is None else delta.alive(at))
        if self._chosen is None:
            return delta
        return delta.with_(rows=select_columns(delta.rows, self._chosen))

    def notes(self) -> list[str]:
        """For EXPLAIN: the index learns nothing."""
        return []

    def how(self) -> str:
        """For EXPLAIN: how queries are matched."""
        return self._index[1].how()

    def close(self) -> None:
        """Do nothing: nothing is shared."""


def _runs(output: tuple[AliasColumn, ...]) -> list[tuple[int, I64, int]]:
    """Runs of adjacent output columns of one alias: (alias, its columns, position of the first)."""
    runs, first = [], 0
    for alias, places in groupby(output, key=itemgetter(0)):
        columns = np.array([column for _, column in places], np.int64)
        runs.append((alias, columns, first))
        first += columns.shape[0]
    return runs
