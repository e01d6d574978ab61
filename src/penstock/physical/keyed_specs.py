"""The specs of operators that look rows up by value: DISTINCT, GROUP BY, EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.logical.expr import Agg
from penstock.logical.nodes import SetKind
from penstock.patterns import edges
from penstock.physical.expiry import Store
from penstock.physical.specs import Spec
from penstock.schema import Schema


@dataclass(frozen=True, slots=True)
class DistinctSpec(Spec):
    """Emits each distinct row once."""

    name = "distinct"
    nets = True

    @classmethod
    def of(cls, source: Spec) -> DistinctSpec:
        """Build the spec and derive its edge."""
        return cls(edge=edges.distinct_edge(source.edge), inputs=(source,))

    @property
    def counts(self) -> bool:
        """Whether the rows of each value are counted (δ), or only its last expiry kept (δ*)."""
        (kept,) = self.expiry.inputs
        return kept.retracted or kept.store is not Store.CALENDAR

    def detail(self) -> str:
        """δ* or δ, and how rows end."""
        return f"{'δ' if self.counts else 'δ*'}, {self.expiry.emit}"


@dataclass(frozen=True, slots=True)
class GroupBySpec(Spec):
    """Aggregates per key and lineage; if `of_totals`, input rows are changes of counts and sums."""

    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    of_totals: bool = False
    name = "group by"
    label = "group-by"

    @classmethod
    def of(
        cls, source: Spec, keys: tuple[int, ...], aggs: tuple[Agg, ...], schema: Schema,
        of_totals: bool = False,
    ) -> GroupBySpec:  # fmt: skip
        """Build the spec and derive its edge."""
        edge = edges.group_edge(schema, source.edge.lineage)
        return cls(keys, aggs, of_totals, edge=edge, inputs=(source,))

    def detail(self) -> str:
        """Keys and aggregates."""
        source = self.inputs[0].edge.schema
        keys = ", ".join(source[c].name for c in self.keys)
        aggs = ", ".join(map(str, self.aggs))
        return f"{keys}: {aggs}" if keys else aggs


@dataclass(frozen=True, slots=True)
class SetOpSpec(Spec):
    """EXCEPT or INTERSECT over whole rows."""

    kind: SetKind
    all: bool
    nets = True

    @classmethod
    def of(cls, left: Spec, right: Spec, kind: SetKind, all_: bool) -> SetOpSpec:
        """Build the spec and derive its edge."""
        edge = edges.set_edge(left.edge, right.edge, kind)
        return cls(kind, all_, edge=edge, inputs=(left, right))

    @property
    def name(self) -> str:
        """EXCEPT or INTERSECT."""
        return self.kind.value

    def detail(self) -> str:
        """Whether ALL is given, and how rows end."""
        return ("ALL, " if self.all else "") + self.expiry.emit
