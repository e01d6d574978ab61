"""The spec of pair totals: how the counts and sums of a join's pairs change, by query."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.eddy.index_policy import IndexPolicy
from penstock.indexes.pairs.shape import PairShape
from penstock.kernels.pairs.alive import SUM_WORDS
from penstock.logical.expr import Agg, Column
from penstock.logical.nodes import GroupBy
from penstock.optimizer.flow_block import Block
from penstock.optimizer.span import AliasColumn
from penstock.optimizer.total_pairs import pairs_block
from penstock.patterns import edges
from penstock.physical.pair_shape import pair_shape
from penstock.physical.specs import FlowSpec
from penstock.schema import MAX_COLUMNS, Field, Schema
from penstock.types import BIGINT

Summed = tuple[AliasColumn, ...]
"""The columns that are added up, each an alias and a column of its stream; ascending."""


@dataclass(frozen=True, slots=True)
class PairTotalsSpec(FlowSpec):
    """A join of two windows that yields changes of totals instead of pairs.

    Column 0 is the change of the number of pairs. `SUM_WORDS` columns follow for each of `summed`,
    the columns that are added up, in order: how many values, and the sum in two words.
    """

    summed: Summed
    name = "pair totals"
    label = "pair-totals"
    means = "running totals, no pairs"

    @classmethod
    def over(
        cls, block: Block, shape: PairShape, streams: frozenset[str], summed: Summed
    ) -> PairTotalsSpec:
        """With its edge."""
        words = ("count", "high", "low")
        fields = [Field("pairs", BIGINT)]
        for alias, column in summed:
            name = block.scans[alias].stream_schema[column].name
            fields += [Field(f"{name}_{word}", BIGINT) for word in words]
        edge = edges.totals_edge(Schema(tuple(fields)))
        return cls(block, streams, None, shape, summed, edge=edge)

    @property
    def policy(self) -> IndexPolicy:
        """Its queries are never in lineage groups."""
        return IndexPolicy(True, needs_own=True)

    def columns(self, side: int) -> tuple[int, ...]:
        """The columns of a side that are added up."""
        return tuple(column for alias, column in self.summed if alias == side)


def plan_totals(
    node: GroupBy, streams: frozenset[str]
) -> tuple[PairTotalsSpec, tuple[Agg, ...]] | None:
    """The spec below an aggregate of pairs, and the aggregates over its rows.

    None if ranks in one sorted order do not tell which partners a query takes.
    """
    block = pairs_block(node, streams) if node.totals else None
    shape = None if block is None else pair_shape(block)
    if block is None or shape is None or not _is_ranked(shape):
        return None
    read = {agg.arg.index for agg in node.aggs if isinstance(agg.arg, Column)}
    summed = tuple(sorted({block.output[at] for at in read}))
    if 1 + SUM_WORDS * len(summed) > MAX_COLUMNS:
        return None
    aggs = tuple(_over_totals(agg, block, summed) for agg in node.aggs)
    return PairTotalsSpec.over(block, shape, streams, summed), aggs


def _is_ranked(shape: PairShape) -> bool:
    """Whether the partners of a row that a query takes are neighbours in a sorted order."""
    if shape.rest is not None or len(shape.key) > 1:
        return False
    most = 1 if shape.band is None else 0
    return all(len(shape.of_side(side)) <= most for side in (0, 1))


def _over_totals(agg: Agg, block: Block, summed: Summed) -> Agg:
    """The aggregate with its argument at the first word of its sum."""
    arg = agg.arg
    if not isinstance(arg, Column):
        return agg
    place = 1 + SUM_WORDS * summed.index(block.output[arg.index])
    return replace(agg, arg=Column(arg.type, place, arg.name))
