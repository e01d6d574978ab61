"""Registry: which templates and queries exist, by name (DESIGN §5.7).

Queries whose answers are equal by definition (same template, same parameters, same point of
registration or both with history) are one row of Q with several subscribers.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from penstock.delta import Emission
from penstock.errors import NameError_
from penstock.frozen import record
from penstock.logical.nodes import Node
from penstock.optimizer.emit import Emit
from penstock.schema import Schema

RowKey = tuple[int, int, tuple[int, ...]]
"""Template, first visible epoch (0 with history), parameter words."""


@record
class TemplateInfo:
    """What the session knows of a template."""

    key: int
    template: Node  # as bound and lifted: its identity
    plan: Node  # as optimised: what runs
    emits: tuple[tuple[Node, Emit], ...]  # how its keyed operators let rows leave
    params: Schema
    emission: Emission
    unit_time: bool
    monotonic: bool
    longest: int | None  # the longest window; None when one is not bounded in time


@dataclass(slots=True)
class QueryInfo:
    """A registered query."""

    name: str
    text: str
    template: int
    qid: int
    row: RowKey
    registered_at: int
    history: bool
    failure: str | None = None


@dataclass(slots=True)
class Registry:
    """Templates, queries and who shares what."""

    templates: dict[int, TemplateInfo] = field(default_factory=dict)
    queries: dict[str, QueryInfo] = field(default_factory=dict)
    next_template: int = 1
    next_name: int = 1
    _by_node: dict[tuple[Node, Emission], int] = field(default_factory=dict)
    _rows: dict[RowKey, int] = field(default_factory=dict)  # qid
    _members: dict[tuple[int, int], str | dict[str, None]] = field(default_factory=dict)
    _by_template: dict[int, dict[str, QueryInfo]] = field(default_factory=dict)

    def find_template(self, node: Node, emission: Emission) -> TemplateInfo | None:
        """The template with this logical plan and way to emit."""
        key = self._by_node.get((node, emission))
        return None if key is None else self.templates[key]

    def add_template(self, info: TemplateInfo) -> None:
        """Register a template."""
        self.templates[info.key] = info
        self._by_node[info.template, info.emission] = info.key
        self.next_template = max(self.next_template, info.key + 1)

    def fresh_name(self, taken: Container[str] = ()) -> str:
        """A name for an anonymous query that no query, nor anything in `taken`, has."""
        while True:
            name = f"q{self.next_name}"
            self.next_name += 1
            if name not in self.queries and name not in taken:
                return name

    def qid_of(self, row: RowKey) -> int | None:
        """The row of Q that already serves such a query."""
        return self._rows.get(row)

    def add_query(self, info: QueryInfo) -> None:
        """Register a query under its name."""
        if info.name in self.queries:
            raise NameError_(
                f"there is already a query called {info.name}",
                code="PS-NAME-002",
                remedy="choose another name, or drop the query first",
            )
        self.queries[info.name] = info
        self._by_template.setdefault(info.template, {})[info.name] = info
        self._rows[info.row] = info.qid
        place = (info.template, info.qid)
        members = self._members.setdefault(place, info.name)
        if isinstance(members, dict):
            members[info.name] = None
        elif members != info.name:
            self._members[place] = {members: None, info.name: None}

    def fail(self, template: int, qid: int, reason: str) -> list[str]:
        """Mark the queries of a row of Q as failed; the row is no longer theirs."""
        names = self.members(template, qid)
        self._members.pop((template, qid), None)
        for name in names:
            info = self.queries[name]
            info.failure = reason
            info.qid = -1
            self._rows.pop(info.row, None)
        return names

    def remove_query(self, name: str) -> bool:
        """Forget a query; whether its row of Q has no subscriber left."""
        info = self.queries.pop(name)
        del self._by_template[info.template][name]
        if info.failure is not None:
            return True
        members = self._members[info.template, info.qid]
        if isinstance(members, dict):
            del members[name]
            if members:
                return False
        del self._rows[info.row], self._members[info.template, info.qid]
        return True

    def forget_template(self, key: int) -> None:
        """Drop a template that has no queries."""
        info = self.templates.pop(key)
        del self._by_node[info.template, info.emission]
        self._by_template.pop(key, None)

    def members(self, template: int, qid: int) -> list[str]:
        """Names of the queries served by a row of Q."""
        members = self._members.get((template, qid), {})
        return [members] if isinstance(members, str) else list(members)

    def subscribers(self, template: int, qid: int) -> int:
        """How many queries a row of Q serves."""
        members = self._members.get((template, qid), {})
        return 1 if isinstance(members, str) else len(members)

    def count(self, template: int) -> int:
        """How many queries a template has."""
        return len(self._by_template.get(template, {}))

    def of_template(self, key: int) -> list[QueryInfo]:
        """The queries of a template."""
        return list(self._by_template.get(key, {}).values())
