"""Cuts a plan into the parts for level 1 and level 2 of a sharded job (docs/design/0004-spark.md).

For each operator, `optimizer/input_spreads.py` lists how its inputs may be spread so that its rows
come out spread as wanted: hashed on columns, anywhere (each row on one shard), all on every shard,
or all on one. A search over these alternatives finds a placement that moves no rows, else one with
one cut, else one on a single shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.errors import PlanError
from penstock.logical.nodes import (
    GroupBy,
    Node,
    Project,
    Received,
    Rows,
    Scan,
    ViewScan,
    Windowed,
)
from penstock.logical.reads import views_of
from penstock.optimizer.distribution import Distributed, Route, Send, Spread
from penstock.optimizer.input_spreads import (
    ANY,
    Known,
    Wants,
    hash_on,
    hashes,
    input_spreads,
    scan_spread,
)
from penstock.optimizer.rewrite import over, width
from penstock.optimizer.split_aggregate import split
from penstock.patterns.rules import is_table

Step = Wants | Literal["cut", "split"]

_NOTHING: Known = {}
Views = Mapping[int, Distributed]
"""The distributed plans of templates by key, for plans that read their views."""
_NO_VIEWS: Views = {}


def distribute(
    plan: Node, home: int, known: Known = _NOTHING, views: Views = _NO_VIEWS
) -> Distributed:
    """Decide where each part of an optimized, lowered plan runs.

    `home` is the shard of "one" spreads. A scan that may be anywhere uses a hash route of its
    stream that exists already. Views are read where their answers are, so a view's only shard
    becomes home.
    """
    homes = [views[view.template].home for view in views_of(plan)]
    search = _Search(plan, next((h for h in homes if h is not None), home), views)
    made = _best(search, known)
    hashed: dict[str, set[Spread]] = {s: set(spreads) for s, spreads in known.items()}
    for route in made.routes:
        hashed.setdefault(route.stream, set()).add(route.spread)
    again = any(r.spread == ANY and hashes(hashed[r.stream]) for r in made.routes)
    return _best(search, hashed) if again else made


def _best(search: _Search, known: Known) -> Distributed:
    """The best placement: one level, else two levels, else one shard of level 1."""
    plan, one = search.plan, search.one
    if search.level1(plan, ANY) is not None:
        return _Builder(search, known).one_level(ANY, None)
    if not is_table(plan):
        for want, home in ((ANY, None), (one, one.shard)):
            if search.level2(plan, want) is not None:
                made = _Builder(search, known).two_levels(want, home)
                bare = [_is_bare(send.node) for send in made.sends]
                if home is None or not bare or not all(bare):
                    return made
    if search.level1(plan, one) is None and views_of(plan):
        raise _spread_view(plan)
    return _Builder(search, known).one_level(one, one.shard)


def _spread_view(plan: Node) -> PlanError:
    """The error for a plan that needs rows of a view on shards that do not have them."""
    view = views_of(plan)[0].view
    return PlanError(
        f"this query needs the rows of view {view} on other shards",
        code="PS-PLAN-008",
        remedy="register the query before the view's streams have rows: both are then "
        f"planned together; or write the definition of {view} into the query, WITH HISTORY",
    )


def _is_bare(node: Node) -> bool:
    """Whether level 1 would only pass the rows of a stream on."""
    if isinstance(node, Scan):
        return not isinstance(node.window, Rows)
    return isinstance(node, Project) and _is_bare(node.input)


# ---- the search ----------------------------------------------------------------------
@dataclass(slots=True)
class _Search:
    """For each node and wanted spread, the first alternative that works for the whole subtree."""

    plan: Node
    home: int
    views: Views = field(default_factory=dict)
    _first: dict[tuple[Node, Spread], Wants | None] = field(default_factory=dict)
    _second: dict[tuple[Node, Spread], Step | None] = field(default_factory=dict)

    @property
    def one(self) -> Spread:
        """Everything on the home shard."""
        return Spread("one", shard=self.home)

    def level1(self, node: Node, want: Spread) -> Wants | None:
        """How to spread the inputs if no row may move again; None if that is impossible."""
        key = node, want
        if key not in self._first:
            self._first[key] = self._level1(node, want)
        return self._first[key]

    def _level1(self, node: Node, want: Spread) -> Wants | None:
        if isinstance(node, Scan):
            return None if scan_spread(node, want, _NOTHING) is None else ()
        if isinstance(node, ViewScan):
            return () if self._has_view(node, want, 1) else None
        for wants in input_spreads(node, want):
            pairs = zip(node.inputs, wants, strict=True)
            if all(self.level1(child, w) is not None for child, w in pairs):
                return wants
        return None

    def _has_view(self, node: ViewScan, want: Spread, level: int) -> bool:
        """Whether the rows of a view are in a level, spread as wanted."""
        plan = self.views[node.template]
        there = want.kind == "any" or (want.kind == "one" and want.shard == plan.home)
        return plan.levels == level and there

    def level2(self, node: Node, want: Spread) -> Step | None:
        """The same for rows that level 1 sends to level 2.

        Called only if one level is not enough.
        """
        key = node, want
        if key not in self._second:
            self._second[key] = self._level2(node, want)
        return self._second[key]

    def _level2(self, node: Node, want: Spread) -> Step | None:
        if self.level1(node, ANY) is not None:
            return "cut"
        if isinstance(node, ViewScan):
            return () if self._has_view(node, want, 2) else None
        if isinstance(node, Scan | Windowed):
            return None  # sent rows are out of order, and count windows need the order
        if self._can_split(node, want):
            return "split"
        for wants in input_spreads(node, want):
            pairs = zip(node.inputs, wants, strict=True)
            if all(self.level2(child, w) is not None for child, w in pairs):
                return wants
        return None

    def _can_split(self, node: Node, want: Spread) -> bool:
        if not isinstance(node, GroupBy) or is_table(node) or want.kind not in ("all", "one"):
            return False
        return split(node) is not None and self.level1(node.input, ANY) is not None


# ---- the plan ------------------------------------------------------------------------
@dataclass(slots=True)
class _Builder:
    """Builds the plan that the search found."""

    search: _Search
    known: Known
    origin: dict[Node, Node] = field(default_factory=dict)
    routes: set[Route] = field(default_factory=set)
    sends: dict[tuple[Node, Spread], Send] = field(default_factory=dict)
    _built: dict[tuple[Node, Spread, int], Node] = field(default_factory=dict)

    def one_level(self, want: Spread, home: int | None) -> Distributed:
        """Place the whole plan in level 1."""
        return self._done(self._build(self.search.plan, want, 1), home)

    def two_levels(self, want: Spread, home: int | None) -> Distributed:
        """Cut the plan into two levels where the search cut it."""
        return self._done(self._build(self.search.plan, want, 2), home, upper=True)

    def _done(self, view: Node, home: int | None, upper: bool = False) -> Distributed:
        routes = tuple(sorted(self.routes, key=lambda r: r.name))
        return Distributed(view, tuple(self.sends.values()), home, routes, upper, self.origin)

    def _build(self, node: Node, want: Spread, level: int) -> Node:
        key = node, want, level
        if key not in self._built:
            self._built[key] = self._make(node, want, level)
        return self._built[key]

    def _make(self, node: Node, want: Spread, level: int) -> Node:
        step = self.search.level1(node, want) if level == 1 else self.search.level2(node, want)
        if step == "cut":
            return self._receive(self._build(node, ANY, 1), want)
        if step == "split":
            made = self._split(node, want)
        elif isinstance(node, Scan):
            made = self._scan(node, want)
        elif isinstance(step, tuple):
            pairs = zip(node.inputs, step, strict=True)
            made = over(node, [self._build(child, w, level) for child, w in pairs])
        else:
            raise PlanError(f"{type(node).__name__} cannot be placed on shards")
        self.origin[made] = node
        return made

    def _scan(self, node: Scan, want: Spread) -> Node:
        spread = scan_spread(node, want, self.known)
        assert spread is not None
        route = Route(node.stream, spread)
        self.routes.add(route)
        return replace(node, stream=route.name)

    def _receive(self, sent: Node, want: Spread) -> Received:
        """The leaf of level 2 for the rows of `sent`; several readers share one transmission."""
        spread = hash_on(range(width(sent))) if want.kind == "any" else want
        send = self.sends.setdefault((sent, spread), Send(len(self.sends), sent, spread))
        return Received(send.channel, sent.schema)

    def _split(self, node: Node, want: Spread) -> Node:
        assert isinstance(node, GroupBy)
        parts = split(replace(node, input=self._build(node.input, ANY, 1)))
        assert parts is not None
        partial, finish = parts
        self.origin[partial] = node
        return finish(self._receive(partial, want))
