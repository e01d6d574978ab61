"""Lets counts and sums of the pairs of a join be computed without forming the pairs.

Where two windows join by conditions with constants of each query's own, a row has very many
partners. Their number and the sums of their columns are differences of prefix sums. The rule marks
the aggregates for which these are exact; the planner reads the mark.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import Agg, Column
from penstock.logical.nodes import GroupBy, Node
from penstock.logical.reads import streams_of
from penstock.optimizer.flow_block import Block, find_block
from penstock.optimizer.rewrite import over
from penstock.optimizer.stats import Stats


def total_pairs(node: Node, stats: Stats) -> Node:
    """Mark aggregates of all pairs of a join.

    before: γ count(*) (r ⋈ $low ≤ s b − r b ≤ $high s)
    after:  γ totals: count(*) (r ⋈ $low ≤ s b − r b ≤ $high s)
    """
    return _marked(node, frozenset(streams_of(node)))


def _marked(node: Node, streams: frozenset[str]) -> Node:
    node = over(node, [_marked(child, streams) for child in node.inputs])
    if not isinstance(node, GroupBy) or node.totals:
        return node
    fits = pairs_block(node, streams) is not None
    return replace(node, totals=True) if fits else node


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
