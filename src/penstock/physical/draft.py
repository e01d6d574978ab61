"""A plan while it is made: specs in an order in which inputs come first, and lineage levels.

Keyed operators get tagged inputs, predicates with parameters become matches with Q, everything
else stays below the match as long as it can (docs/design/0001-engine.md). A spec's place names
its arrays, so plans of equal templates have equal names in every process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.delta import Lineage
from penstock.logical.expr import Expr
from penstock.logical.nodes import Node, walk
from penstock.optimizer.distribution import Send
from penstock.patterns.edge import Edge, Emit, Pattern
from penstock.physical.expiry_policy import PATTERN_AWARE, ExpiryPolicy, decide
from penstock.physical.shapes import reaching
from penstock.physical.specs import (
    ExplodeSpec,
    KeepSpec,
    MatchSpec,
    Spec,
    ViewSpec,
)

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True, slots=True)
class PlanSpec:
    """The specs of a plan, inputs first; the view at the root, or what goes to level 2."""

    specs: tuple[Spec, ...] = ()
    view: ViewSpec | None = None
    sends: tuple[tuple[Send, Spec], ...] = ()


@dataclass(frozen=True, slots=True)
class Setting:
    """The input of planning besides the nodes."""

    at_commit: bool
    per_row: bool  # whether the changelog has one row per result row, with its queries
    streams: frozenset[str]
    over_relations: bool  # whether it reads tables or views (rows without epoch)
    emits: Mapping[Node, Emit] = field(default_factory=dict)
    received: Mapping[int, Edge] = field(default_factory=dict)
    policy: ExpiryPolicy = PATTERN_AWARE


class Draft:
    """The specs so far. `build` makes those of a node, once however often it is used."""

    def __init__(
        self, setting: Setting, roots: Iterable[Node], shown: Node | None,
        make: Callable[[Draft, Node], Spec],
    ) -> None:  # fmt: skip
        self.setting = setting
        self.specs: list[Spec] = []
        self.shown = shown  # what the view shows, but for the choice of columns
        self._make = make
        self.uses: Counter[Node] = Counter(node for root in roots for node in walk(root))
        self._free: set[Node] = set()  # rows reach the view with their sets
        self._built: dict[Node, Spec] = {}
        self._tagged: dict[tuple[int, Lineage], Spec] = {}

    def let_sets_reach(self, root: Node) -> None:
        """Rows may keep their sets of queries up to `root`."""
        self._free.update(reaching(root))

    def build(self, node: Node) -> Spec:
        """The spec of a node."""
        if node not in self._built:
            self._built[node] = self._make(self, node)
        return self._built[node]

    def add(self, spec: S, node: Node | None = None, wish: Emit = "expiring") -> S:
        """Decide how rows leave a spec, and put it behind those that are there."""
        placed = decide(spec, wish, self.setting.policy).placed(len(self.specs), node)
        self.specs.append(placed)
        return placed

    def add_window(self, spec: Spec, node: Node, wish: Emit = "expiring") -> Spec:
        """`add` for what reads windows: where their rows leave by −1 rows, EXPIRE is above."""
        window = self.add(spec, node, wish)
        if not (self.setting.policy.windows_tell and window.edge.expiring):
            return window
        return self.add(KeepSpec.of(self.one_query(window)), None, "explicit")

    # ---- lineage ---------------------------------------------------------------------
    def tag(
        self, spec: Spec, level: Lineage, predicates: tuple[Expr, ...] = (),
        node: Node | None = None,
    ) -> Spec:  # fmt: skip
        """`spec` with its rows tied to cohorts, queries or sets of these."""
        if level is not Lineage.SET:
            spec = self.one_query(spec)
        if spec.edge.lineage >= min(level, Lineage.QUERY) and not predicates:
            return spec
        key = (spec.at, level)
        if not predicates and key in self._tagged:
            return self._tagged[key]
        over_relations = self.setting.over_relations
        match = self.add(MatchSpec.of(self._kept(spec), level, predicates, over_relations), node)
        if not predicates:
            self._tagged[key] = match
        return match

    def _kept(self, spec: Spec) -> Spec:
        """`spec` with its live rows at hand for new queries of a cohort that is not new."""
        edge, recalls = spec.edge, spec.expiry.recalls
        if edge.lineage is not Lineage.COHORT or edge.pattern is Pattern.MON or recalls:
            return spec
        return self.add(KeepSpec.of(spec))

    def same_level(self, left: Spec, right: Spec, least: Lineage) -> tuple[Spec, Spec]:
        """Both inputs at one level of lineage, `least` or above."""
        if Lineage.QUERY in (left.edge.lineage, right.edge.lineage) or least is not Lineage.EPOCH:
            left, right = self.one_query(left), self.one_query(right)
        level = max(least, left.edge.lineage, right.edge.lineage)
        return self.tag(left, level), self.tag(right, level)

    def one_query(self, spec: Spec) -> Spec:
        """`spec` with one query per row where it has sets."""
        if spec.edge.lineage is not Lineage.SET:
            return spec
        key = (spec.at, Lineage.QUERY)
        if key not in self._tagged:
            self._tagged[key] = self.add(ExplodeSpec.of(spec))
        return self._tagged[key]

    def level(self, node: Node) -> Lineage:
        """How a match at `node` ties rows to queries."""
        return Lineage.SET if node in self._free else Lineage.QUERY

    def wish(self, node: Node) -> Emit:
        """How `node` should emit if it can, as the optimiser chose."""
        return self.setting.emits.get(node, "explicit")
