"""Registry: which templates and queries exist, by name (DESIGN §5.7).

Queries registered together are a group: common properties are stored once, the others in arrays
by place in the group. So a million queries are a few arrays, not a million objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Emission
from penstock.frozen import record
from penstock.logical.nodes import Node
from penstock.logical.strategy import UPA, Strategy
from penstock.logical.windows import Length
from penstock.patterns.edge import Emit
from penstock.queries.names import Names, number_of, numbered
from penstock.schema import Schema

Identity = tuple[Node, Emission, Strategy]


@record
class TemplateInfo:
    """The session's record of a template."""

    key: int
    template: Node  # as bound and lifted: its identity
    plan: Node  # as optimised: what runs
    emits: tuple[tuple[Node, Emit], ...]  # how its keyed operators let rows leave
    params: Schema
    emission: Emission
    unit_time: bool
    monotonic: bool
    windows: tuple[Length, ...] | None  # their lengths; None when one is not bounded in time
    views: tuple[str, ...] = ()  # that it follows
    strategy: Strategy = UPA

    @property
    def identity(self) -> Identity:
        """The values that no two templates have in common."""
        return self.template, self.emission, self.strategy


@dataclass(slots=True, eq=False)
class Group:
    """Queries registered together, by place: their names, their rows of Q, which were dropped."""

    template: int
    text: str
    names: Names
    qids: I64
    registered_at: int
    history: bool
    number: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    dropped: Bool = field(init=False)  # by a user; their last changes may still arrive
    gone: Bool = field(init=False)  # no longer found by name
    left: int = field(init=False)  # how many are not gone

    def __post_init__(self) -> None:
        self.left = len(self.names)
        self.dropped, self.gone = np.zeros((2, self.left), np.bool_)

    def __len__(self) -> int:
        return len(self.names)

    def there(self) -> I64:
        """The places of the queries that are not gone."""
        return np.flatnonzero(~self.gone)

    def running(self, places: I64) -> I64:
        """The given places without those of failed queries."""
        if not self.failures:
            return places
        return places[~np.isin(places, list(self.failures))]

    def served_by(self, qids: set[int]) -> I64:
        """The places of running queries with one of these rows of Q."""
        if len(self) == 1 and int(self.qids[0]) not in qids:  # most groups have one query
            return np.empty(0, np.int64)
        there = self.there()
        return self.running(there[np.isin(self.qids[there], list(qids))])


Chosen = list[tuple[Group, I64]]
"""Some queries: groups, and places in them."""


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """One query of a group."""

    group: Group
    at: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.group.names[self.at]

    @property
    def template(self) -> int:
        """The key of its template."""
        return self.group.template

    @property
    def qid(self) -> int:
        """Its row of Q."""
        return int(self.group.qids[self.at])

    @property
    def failure(self) -> str | None:
        """Why it failed, if it did."""
        return self.group.failures.get(self.at)


@dataclass(slots=True)
class Registry:
    """Templates and queries."""

    templates: dict[int, TemplateInfo] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    next_template: int = 1
    next_name: int = 1
    next_group: int = 1
    followed: dict[str, set[int]] = field(default_factory=dict)
    """By view, the templates that follow its changes."""
    _count: int = 0
    _by_node: dict[Identity, int] = field(default_factory=dict)
    _named: dict[str, tuple[Group, int]] = field(default_factory=dict)
    _numbered: list[Group] = field(default_factory=list)  # groups with consecutive names
    _by_template: dict[int, dict[int, Group]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)  # of queries, by template

    def __len__(self) -> int:
        """How many queries there are."""
        return self._count

    # ---- templates -------------------------------------------------------------------
    def find_template(
        self, node: Node, emission: Emission, strategy: Strategy = UPA
    ) -> TemplateInfo | None:
        """The template with this logical plan, way to emit and strategy."""
        key = self._by_node.get((node, emission, strategy))
        return None if key is None else self.templates[key]

    def add_template(self, info: TemplateInfo) -> None:
        """Register a template."""
        self.templates[info.key] = info
        self._by_node[info.identity] = info.key
        self.next_template = max(self.next_template, info.key + 1)
        for view in info.views:
            self.followed.setdefault(view, set()).add(info.key)

    def forget_template(self, key: int) -> None:
        """Drop a template without queries; a new template with the same plan may exist."""
        info = self.templates.pop(key)
        if self._by_node[info.identity] == key:
            del self._by_node[info.identity]
        for view in info.views:
            self.followed[view].discard(key)
            if not self.followed[view]:
                del self.followed[view]

    # ---- names -----------------------------------------------------------------------
    def fresh_names(self, count: int, taken: Collection[str] = ()) -> Names:
        """Unused names for anonymous queries, also not in `taken`.

        They count as used once a group has them, so a call that fails leaves no gap.
        """
        wanted = range(self.next_name, self.next_name + count)
        while (clash := self._last_clash(wanted, taken)) is not None:
            wanted = range(clash + 1, clash + 1 + count)
        return Names(None, wanted.start, count)

    def _last_clash(self, wanted: range, taken: Collection[str]) -> int | None:
        """The last of some numbers with a name in use."""
        if len(wanted) < len(self._named) + len(taken):
            numbers = (n for n in wanted if (name := numbered(n)) in self._named or name in taken)
        else:
            found = map(number_of, (*self._named, *taken))
            numbers = (n for n in found if n is not None and n in wanted)
        return max(numbers, default=None)

    def find(self, name: str) -> QueryInfo | None:
        """The query of a name."""
        place = self._named.get(name) or self._counted(name)
        return None if place is None or place[0].gone[place[1]] else QueryInfo(*place)

    def _counted(self, name: str) -> tuple[Group, int] | None:
        number = number_of(name) if self._numbered else None
        if number is None:
            return None
        at = bisect_right(self._numbered, number, key=lambda group: group.names.first) - 1
        if at < 0:
            return None
        group = self._numbered[at]
        place = number - group.names.first
        return (group, place) if place < len(group) else None

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    # ---- queries ---------------------------------------------------------------------
    def add(self, group: Group) -> None:
        """Register queries under their names, which must be unused."""
        group.number = self.next_group
        self.next_group += 1
        self.groups[group.number] = group
        self._by_template.setdefault(group.template, {})[group.number] = group
        self._counts[group.template] = self.count(group.template) + len(group)
        self._count += len(group)
        if group.names.given is None:
            self.next_name = group.names.first + len(group)
        if group.names.given is None and len(group) > 1:
            self._numbered.append(group)
        else:
            self._named.update((name, (group, at)) for at, name in enumerate(group.names))

    def remove(self, chosen: Chosen) -> None:
        """Forget queries."""
        for group, places in chosen:
            group.gone[places] = True
            group.left -= places.shape[0]
            self._count -= places.shape[0]
            self._counts[group.template] -= places.shape[0]
            if group.names.given is not None or len(group) == 1:
                for name in group.names.at(places):
                    del self._named[name]
            if not group.left:
                self._forget_group(group)

    def _forget_group(self, group: Group) -> None:
        del self.groups[group.number], self._by_template[group.template][group.number]
        if group.names.given is None and len(group) > 1:
            self._numbered.remove(group)
        if not self._counts[group.template]:
            del self._counts[group.template], self._by_template[group.template]

    def of_template(self, key: int) -> Iterator[Group]:
        """The groups of a template."""
        yield from self._by_template.get(key, {}).values()

    def count(self, template: int) -> int:
        """How many queries a template has."""
        return self._counts.get(template, 0)

    def some_names(self, template: int, most: int) -> list[str]:
        """The names of a template's first queries."""
        found: list[str] = []
        for group in self.of_template(template):
            found += group.names.at(group.there()[: most - len(found)])
            if len(found) == most:
                break
        return found

    def members(self, template: int, qids: I64) -> Chosen:
        """The queries that rows of Q serve."""
        wanted = set(qids.tolist())
        found = [(group, group.served_by(wanted)) for group in self.of_template(template)]
        return [(group, places) for group, places in found if places.shape[0]]

    @staticmethod
    def fail(chosen: Chosen, reason: str) -> None:
        """Mark queries as failed; they lose their rows of Q."""
        for group, places in chosen:
            group.failures.update(dict.fromkeys(places.tolist(), reason))
