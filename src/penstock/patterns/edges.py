"""The output edge of every operator, from the edges of its inputs: pure functions, one per kind.

The update pattern comes from the rules of `patterns/rules.py`; here are the physical facts beside
it: how rows leave, in which order, at which level of lineage.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.arrays import NEVER
from penstock.delta import Lineage
from penstock.errors import PlanError
from penstock.logical.expr import Param
from penstock.logical.nodes import JoinKind, Now, Range, Scan, SetKind
from penstock.logical.windows import Length, window_length
from penstock.patterns.edge import Edge, Pattern
from penstock.patterns.rules import (
    group_pattern,
    join_pattern,
    merged,
    relation_pattern,
    rows_pattern,
    set_pattern,
    weak,
    window_pattern,
)
from penstock.schema import Schema


def ends(edge: Edge) -> bool:
    """Whether rows of the edge can leave at all."""
    return edge.expiring or edge.negatives


# ---- leaves --------------------------------------------------------------------------
def scan_edge(node: Scan) -> Edge:
    """The edge of a time window (a ROWS window is an operator above an unbounded scan)."""
    pattern = window_pattern(node.window)
    if not isinstance(node.window, Range | Now):
        return Edge(node.schema, pattern, Lineage.EPOCH, False, False)
    length = window_length(node)
    span = length if isinstance(length, int) else None  # none with a SLIDE
    return Edge(node.schema, pattern, Lineage.EPOCH, True, False, fifo=True, span=span)


def relation_edge(schema: Schema) -> Edge:
    """The edge of a table or a view: rows leave when a statement or the view says so."""
    return Edge(schema, relation_pattern(), Lineage.EPOCH, False, True)


def received_edge(sent: Edge) -> Edge:
    """The edge of sent rows after rows of several shards were merged by time.

    Rows no longer expire in order of arrival, and two shards may send what nets to nothing.
    """
    return replace(sent, fifo=False, span=None, netted=False)


def flow_edge(schema: Schema, windows: tuple[Length, ...], level: Lineage) -> Edge:
    """One stream: its window's pattern; a join: rule 3 of Golab & Özsu §5.2."""
    own = any(isinstance(length, Param) for length in windows)
    expiring = any(length != NEVER for length in windows)
    patterns = [_length_pattern(length) for length in windows]
    if len(windows) > 1:
        return Edge(schema, join_pattern(JoinKind.INNER, patterns), level, expiring, False)
    (pattern,), (length,) = patterns, windows
    if own or not expiring:
        return Edge(schema, pattern, level, expiring, False)
    assert isinstance(length, int)
    return Edge(schema, pattern, level, True, False, fifo=True, span=length)


def _length_pattern(length: Length) -> Pattern:
    return Pattern.MON if length == NEVER else window_pattern(Range(length))


# ---- one input -----------------------------------------------------------------------
def rows_edge(source: Edge) -> Edge:
    """A ROWS window: displaced rows leave as −1 rows."""
    return Edge(source.schema, rows_pattern(), source.lineage, False, True)


def project_edge(source: Edge, schema: Schema) -> Edge:
    """Computed columns; two rows that differ may become equal, so nothing is netted."""
    return replace(source, schema=schema, netted=False)


def match_edge(source: Edge, level: Lineage) -> Edge:
    """Rows tied to cohorts, queries or sets of queries."""
    return replace(source, lineage=level)


def distinct_edge(source: Edge) -> Edge:
    """Each distinct row once, until the last of its equals leaves."""
    return _found(source, weak((source.pattern,)), source.negatives)


def group_edge(schema: Schema, level: Lineage) -> Edge:
    """One row per group, replaced by key."""
    return Edge(
        schema, group_pattern(), level, expiring=False, negatives=True, keyed=True, netted=True
    )


def totals_edge(schema: Schema) -> Edge:
    """Changes of totals per query: they are added up, so none of them leaves."""
    return Edge(schema, Pattern.MON, Lineage.QUERY, False, False)


# ---- two inputs ----------------------------------------------------------------------
def union_edge(left: Edge, right: Edge) -> Edge:
    """The rows of both inputs."""
    if left.lineage is not right.lineage:
        raise PlanError(f"a union of rows at level {left.lineage.name} and {right.lineage.name}")
    span = left.span if left.span == right.span else None
    return Edge(
        schema=left.schema,
        pattern=merged((left.pattern, right.pattern), span is not None),
        lineage=left.lineage,
        expiring=left.expiring or right.expiring,
        negatives=left.negatives or right.negatives,
        fifo=left.fifo and right.fifo and span is not None,
        span=span,
        keyed=left.keyed or right.keyed,
    )


def join_edge(left: Edge, right: Edge, with_table: bool) -> Edge:
    """The output edge of an inner join: results leave silently with the first of their rows."""
    return Edge(
        schema=left.schema + right.schema,
        pattern=join_pattern(JoinKind.INNER, (left.pattern, right.pattern), with_table),
        lineage=max(left.lineage, right.lineage),
        expiring=left.expiring or right.expiring,
        negatives=left.negatives or right.negatives,
    )


def told_edge(edge: Edge, nets: bool = False) -> Edge:
    """The edge of an operator that says by −1 rows what leaves, perhaps net of each instant."""
    netted = edge.netted or nets
    return replace(edge, expiring=False, negatives=ends(edge), netted=netted)


def held_edge(edge: Edge) -> Edge:
    """The edge of a window's rows at one instant: they come, and nothing leaves."""
    return replace(
        edge, expiring=False, negatives=False, fifo=False, span=None, keyed=False, netted=False
    )


def difference_edge(edge: Edge) -> Edge:
    """The edge of the differences of consecutive answers."""
    return replace(
        edge, expiring=False, negatives=True, fifo=False, span=None, keyed=False, netted=True
    )


def narrowed(edge: Edge, columns: tuple[int, ...]) -> Edge:
    """The edge with some of its columns."""
    return replace(edge, schema=edge.schema.select(columns))


def nrr_edge(stream: Edge, table: Edge) -> Edge:
    """The join with a non-retroactive table: results live as long as the stream's rows."""
    return replace(stream, schema=stream.schema + table.schema, keyed=False, netted=False)


def semi_edge(left: Edge, right: Edge, kind: JoinKind) -> Edge:
    """Rows of the left input that have a partner (semi join), or none (anti join)."""
    premature = kind is JoinKind.ANTI or left.negatives or ends(right)
    return _found(left, join_pattern(kind, (left.pattern, right.pattern)), premature)


def set_edge(left: Edge, right: Edge, kind: SetKind) -> Edge:
    """EXCEPT or INTERSECT, with or without ALL."""
    if kind is SetKind.UNION:
        raise PlanError("UNION is not a counting set operation")
    premature = kind is SetKind.EXCEPT or ends(left) or ends(right)
    return _found(left, set_pattern(kind, (left.pattern, right.pattern)), premature)


def _found(source: Edge, pattern: Pattern, premature: bool) -> Edge:
    """Rows of `source` that were looked up by value, in no order, perhaps ended by −1 rows."""
    return replace(
        source, pattern=pattern, negatives=premature, fifo=False, span=None, keyed=False,
        netted=False,
    )  # fmt: skip
