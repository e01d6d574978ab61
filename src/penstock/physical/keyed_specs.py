"""The specs of operators that look rows up by value: DISTINCT, GROUP BY, EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.logical.expr import Agg
from penstock.logical.nodes import SetKind
from penstock.patterns import edges
from penstock.patterns.edge import Edge, Emit
from penstock.physical.expiry import structure_of
from penstock.physical.specs import Spec
from penstock.schema import Schema


@dataclass(frozen=True, slots=True)
class DistinctSpec(Spec):
    """Emits each distinct row once."""

    emit: Emit
    name = "distinct"

    @classmethod
    def of(cls, source: Spec, emit: Emit) -> DistinctSpec:
        """Build the spec and derive its edge."""
        return cls(emit, edge=edges.distinct_edge(source.edge, emit), inputs=(source,))

    @property
    def counts(self) -> bool:
        """Whether the rows of each value are counted (δ), or only its last expiry kept (δ*)."""
        return self.inputs[0].edge.negatives

    def structure(self) -> str:
        """Hash of values, and the store of their ends."""
        return f"hash + {signed_structure(self.inputs[0].edge) if self.counts else 'calendar'}"

    def detail(self) -> str:
        """δ* or δ, and how rows end."""
        return f"{'δ' if self.counts else 'δ*'}, {self.emit}"


@dataclass(frozen=True, slots=True)
class GroupBySpec(Spec):
    """Aggregates per key and lineage."""

    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    name = "group by"
    label = "group-by"

    @classmethod
    def of(
        cls, source: Spec, keys: tuple[int, ...], aggs: tuple[Agg, ...], schema: Schema
    ) -> GroupBySpec:
        """Build the spec and derive its edge."""
        edge = edges.group_edge(schema, source.edge.lineage)
        return cls(keys, aggs, edge=edge, inputs=(source,))

    def structure(self) -> str:
        """The array of groups, and the store of input rows."""
        store = structure_of(self.inputs[0].edge)
        return "group array" if store is None else f"group array + {store}"

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
    emit: Emit

    @classmethod
    def of(cls, left: Spec, right: Spec, kind: SetKind, all_: bool, emit: Emit) -> SetOpSpec:
        """Build the spec and derive its edge."""
        edge = edges.set_edge(left.edge, right.edge, kind, all_, emit)
        return cls(kind, all_, emit, edge=edge, inputs=(left, right))

    @property
    def name(self) -> str:
        """EXCEPT or INTERSECT."""
        return self.kind.value

    def structure(self) -> str:
        """Hash of values, and the store of each input."""
        return "hash + " + " / ".join(signed_structure(s.edge) for s in self.inputs)

    def detail(self) -> str:
        """Whether ALL is given, and how rows end."""
        return ("ALL, " if self.all else "") + self.emit


def signed_structure(edge: Edge) -> str:
    """The store that a counting operator keeps for an input, as EXPLAIN names it."""
    return structure_of(edge) or "counts"
