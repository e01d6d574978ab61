"""Lets counts and sums of the pairs of a join be computed without forming the pairs.

Where two windows join by conditions with constants of each query's own, a row has very many
partners. Their number and the sums of their columns are differences of prefix sums. The rule marks
the aggregates for which these are exact; the planner reads the mark.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Agg, Column
from penstock.logical.nodes import GroupBy, Join, Node, walk
from penstock.logical.reads import streams_of
from penstock.optimizer.estimate import Estimator
from penstock.optimizer.flow_block import Block, find_block
from penstock.optimizer.rewrite import over
from penstock.optimizer.stats import Stats

MANY = 64
"""So many queries, or partners of a row, make totals cheaper than an equality's pairs."""


def total_pairs(node: Node, stats: Stats) -> Node:
    """Mark aggregates of all pairs of a join.

    before: γ count(*) (r ⋈ $low ≤ s b − r b ≤ $high s)
    after:  γ totals: count(*) (r ⋈ $low ≤ s b − r b ≤ $high s)
    """
    return _marked(node, frozenset(streams_of(node)), stats)


def _marked(node: Node, streams: frozenset[str], stats: Stats) -> Node:
    node = over(node, [_marked(child, streams, stats) for child in node.inputs])
    if not isinstance(node, GroupBy) or node.totals:
        return node
    block = pairs_block(node, streams)
    return replace(node, totals=True) if block is not None and pays(node, block, stats) else node


def pays(node: GroupBy, block: Block, stats: Stats) -> bool:
    """Whether totals are expected to cost less than the pairs.

    A band has many partners. An equality may have few, and then one query alone has few pairs.
    """
    if block.band is not None or block.span.bands or stats.queries >= MANY:
        return True
    return stats.knows(node) and _partners(node, stats) >= MANY


def _partners(node: GroupBy, stats: Stats) -> float:
    """How many partners a row is expected to have."""
    known = Estimator(stats)
    (join, *_) = (part for part in walk(node) if isinstance(part, Join))
    rows = sum(known.of(side).rate for side in join.inputs)
    return known.of(node.input).rate / max(rows, 1e-9)


def pairs_block(node: GroupBy, streams: frozenset[str]) -> Block | None:
    """The join below an aggregate of its pairs; None if totals of pairs do not suffice."""
    if node.keys or not all(map(is_total, node.aggs)):
        return None
    block = find_block(node.input, streams)
    if block is None or len(block.scans) != 2 or block.above:
        return None
    return block


def is_total(agg: Agg) -> bool:
    """Whether an aggregate is a sum over pairs in which numbers are exact."""
    if agg.distinct or agg.filter is not None:
        return False
    if agg.fn == "count":
        return agg.arg is None or isinstance(agg.arg, Column)
    if agg.fn not in ("sum", "avg") or not isinstance(agg.arg, Column):
        return False
    return agg.arg.type.is_numeric and not agg.arg.type.is_float
