"""Membership: the templates of a flow, and the slot of each query in a lineage group.

A query's place is group × MOST_SLOTS + slot. Places are a cache that follows the templates' Q: they
can be rebuilt from Q at any step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64, NEVER
from penstock.delta import Lineage
from penstock.eddy.eddy import Routing
from penstock.eddy.index_policy import IndexPolicy
from penstock.eddy.lineage_group import MOST_SLOTS, LineageGroup
from penstock.expressions.context import Context
from penstock.kernels.grouped_filter_bits import U64
from penstock.kernels.lineage import full
from penstock.logical.lifetime import Lifetime
from penstock.predicates.clauses import Conjunct
from penstock.queries.query_table import QueryTable

_NOWHERE = -1


@dataclass(slots=True)
class FlowTemplate:
    """A template's block in the flow, and the places of its queries."""

    queries: QueryTable
    conjuncts: tuple[Conjunct, ...]
    lifetimes: tuple[Lifetime, ...]  # by alias
    policy: IndexPolicy
    place: I64 = field(default_factory=lambda: np.full(0, _NOWHERE))  # by qid
    version: int = 0  # the version of Q that the places follow
    identity: I64 | None = None  # of that Q
    _spread: tuple[I64, int, list[int], list[int]] | None = None  # with the identity of Q

    @property
    def uses_own_index(self) -> bool:
        """Whether its queries are in an index of its own instead of groups."""
        return self.policy.uses_own_index(len(self.queries))

    def placed(self) -> I64:
        """The queries that have a place."""
        return np.flatnonzero(self.place >= 0)

    def reserve(self, qids: I64) -> None:
        """Make room for the places of these queries."""
        more = int(qids.max(initial=-1)) + 1 - self.place.shape[0]
        if more > 0:
            self.place = np.concatenate([self.place, np.full(more, _NOWHERE)])

    def lengths(self, qids: I64) -> list[int | I64]:
        """The window length of these queries by alias: one number if all agree, else an array."""
        params = self.queries.matrix()
        return [lifetime.lengths(params, qids) for lifetime in self.lifetimes]

    def departures(self, alias: int, ts: I64, qids: I64) -> I64:
        """The expiry of an alias's rows, each for one query."""
        lifetime = self.lifetimes[alias]
        return lifetime.departures(ts, lifetime.lengths(self.queries.matrix(), qids))

    def longest(self) -> list[int]:
        """The length of the longest window by alias."""
        return self._shortest_and_longest()[1]

    @property
    def is_uniform(self) -> bool:
        """Whether all queries have windows of the same lengths."""
        shortest, longest = self._shortest_and_longest()
        return shortest == longest

    def _shortest_and_longest(self) -> tuple[list[int], list[int]]:
        """The window lengths by alias; recomputed only when the queries change."""
        regs, version = self.queries.identity, self.queries.version
        if self._spread is None or self._spread[0] is not regs or self._spread[1] != version:
            lengths = self.lengths(self.queries.live(Lineage.QUERY))
            shortest = [n if isinstance(n, int) else int(n.min(initial=NEVER)) for n in lengths]
            longest = [n if isinstance(n, int) else int(n.max(initial=0)) for n in lengths]
            self._spread = regs, version, shortest, longest
        return self._spread[2], self._spread[3]


class Membership:
    """The templates of a flow by key, and the lineage groups that their queries share."""

    def __init__(self, aliases: int, ctx: Context, routing: Routing) -> None:
        self.templates: dict[int, FlowTemplate] = {}
        self.groups: list[LineageGroup] = []
        self._aliases, self._ctx, self._routing = aliases, ctx, routing
        self._arriving: set[int] = set()  # templates that have queries without a place
        self._longest: list[Lifetime] | None = None  # by alias, over all templates

    def __len__(self) -> int:
        return len(self.templates)

    def queries(self) -> int:
        """The number of queries of all templates."""
        return sum(len(template.queries) for template in self.templates.values())

    def add(self, key: int, template: FlowTemplate) -> None:
        """Add a template."""
        self.templates[key] = template
        self._arriving.add(key)
        self.forget()

    def remove(self, key: int) -> None:
        """Remove a template."""
        template = self.templates.pop(key)
        self._arriving.discard(key)
        self._let_go(template, template.placed())
        self.forget()

    # ---- following Q -----------------------------------------------------------------
    def forget(self) -> None:
        """Drop what was derived from all Q, because some Q may have changed."""
        self._longest = None

    def follow(self) -> None:
        """Update the groups from every Q."""
        for key, template in self.templates.items():
            self._follow(key, template)
        self._arriving.clear()

    def welcome(self) -> None:
        """Give the queries of new templates their places before their first rows arrive."""
        for key in sorted(self._arriving):
            self._follow(key, self.templates[key])
        self._arriving.clear()

    def _follow(self, key: int, template: FlowTemplate) -> None:
        table = template.queries
        if template.identity is not table.identity:
            self._let_go(template, template.placed())
            template.identity, template.version = table.identity, 0
        if template.version != table.version:
            self.forget()
            self._replace(key, template)
            template.version = table.version

    def _replace(self, key: int, template: FlowTemplate) -> None:
        """Remove queries that are gone and place new ones."""
        table, known = template.queries, template.placed()
        if template.uses_own_index:
            self._let_go(template, known)
            return
        live = table.live(Lineage.QUERY)
        template.reserve(live)
        if known.shape[0]:
            dead = np.ones(template.place.shape[0], np.bool_)
            dead[live] = False
            again = table.born()[known] > template.version
            self._let_go(template, known[dead[known] | again])
        self._enter(key, template, live[template.place[live] < 0])

    def _let_go(self, template: FlowTemplate, qids: I64) -> None:
        if not qids.shape[0]:
            return
        for group, slots in zip(self.groups, self._slots(template.place[qids]), strict=True):
            if slots.shape[0]:
                group.remove(slots)
        template.place[qids] = _NOWHERE

    def _enter(self, key: int, template: FlowTemplate, qids: I64) -> None:
        """Place queries in the first group with a free slot."""
        at = 0
        while qids.shape[0]:
            if at == len(self.groups):
                self.groups.append(LineageGroup(self._aliases, self._ctx, self._routing))
            used = len(self.groups[at])
            some, qids = qids[: MOST_SLOTS - used], qids[MOST_SLOTS - used :]
            if some.shape[0]:
                self.groups[at].reserve(used + some.shape[0])
                self._place(key, template, at, some)
            at += 1

    def _place(self, key: int, template: FlowTemplate, at: int, qids: I64) -> None:
        table = template.queries
        slots = self.groups[at].add(
            key, qids, table.matrix()[qids], table.since(Lineage.QUERY)[qids],
            template.lengths(qids), template.conjuncts,
        )  # fmt: skip
        template.place[qids] = at * MOST_SLOTS + slots

    # ---- what is known ---------------------------------------------------------------
    def _slots(self, places: I64) -> list[I64]:
        """The slots of these places, by group."""
        return [places[places // MOST_SLOTS == at] % MOST_SLOTS for at in range(len(self.groups))]

    def masks(self, key: int, qids: I64) -> list[U64]:
        """Bitmaps of the slots of some queries of a template, by group."""
        slots = self._slots(self.templates[key].place[qids])
        return [full(some, group.words) for some, group in zip(slots, self.groups, strict=True)]

    def longest(self) -> list[Lifetime]:
        """The longest lifetime that any query gives a row, by alias."""
        if self._longest is None:
            windows = [template.longest() for template in self.templates.values()]
            self._longest = [Lifetime(max(lengths)) for lengths in zip(*windows, strict=True)]
        return self._longest
