"""Specs: what an operator is before it exists (docs/design/0011-specs.md).

A frozen record per kind of operator: configuration, inputs and the output edge. Specs hold no
arrays and join no flow; `physical/instantiate.py` makes operators of them. EXPLAIN, costs and the
placement on shards look at specs only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from penstock.delta import Lineage
from penstock.eddy.index_policy import IndexPolicy
from penstock.indexes.pairs.shape import PairShape
from penstock.logical.expr import Expr, remap
from penstock.logical.nodes import Node, Rows, Scan, TableScan, Unbounded, ViewScan
from penstock.optimizer.flow_block import Block
from penstock.patterns import edges
from penstock.patterns.edge import Edge
from penstock.physical.describe import describe_band, describe_window
from penstock.physical.expiry import UNDECIDED, Expiry
from penstock.physical.pair_shape import pair_shape
from penstock.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Base: the edge, the inputs, the place in the plan and the logical node it stands for.

    `physical/expiry_policy.py` decides its expiry when it enters a plan. If a kind `nets`, the
    results that it tells are the net changes of each instant.
    """

    edge: Edge
    inputs: tuple[Spec, ...] = ()
    expiry: Expiry = UNDECIDED
    at: int = 0
    node: Node | None = None

    nets = False

    @property
    def name(self) -> str:
        """How EXPLAIN calls the operator."""
        return "operator"

    @property
    def label(self) -> str:
        """How the names of its arrays begin, after its place."""
        return self.name

    @property
    def scope(self) -> str:
        """The name of its scope in that of the template."""
        return f"{self.at:02d}-{self.label}"

    def placed(self, at: int, node: Node | None) -> Self:
        """The spec at a place of a plan, for a logical node."""
        return replace(self, at=at, node=node)

    def structure(self) -> str:
        """The state structure, for EXPLAIN: FIFO, calendar, hash, group array or –."""
        return self.expiry.structure()

    def detail(self) -> str:
        """Configuration, for EXPLAIN."""
        return ""


# ---- leaves --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ScanSpec(Spec):
    """A time window over a stream."""

    scan: Scan
    at_commit: bool
    name = "scan"

    @classmethod
    def of(cls, scan: Scan, at_commit: bool) -> ScanSpec:
        """With its edge."""
        return cls(scan, at_commit, edge=edges.scan_edge(scan))

    def detail(self) -> str:
        """Stream and window."""
        return f"{self.scan.stream} {describe_window(self.scan)}"


@dataclass(frozen=True, slots=True)
class TableScanSpec(Spec):
    """The rows of a table."""

    table: TableScan
    name = "table"

    @classmethod
    def of(cls, table: TableScan) -> TableScanSpec:
        """With its edge."""
        return cls(table, edge=edges.relation_edge(table.schema))

    def detail(self) -> str:
        """The table's name and kind."""
        return f"{self.table.table}{' (non-retroactive)' if self.table.nonretroactive else ''}"


@dataclass(frozen=True, slots=True)
class ViewScanSpec(Spec):
    """The answer of a standing query and its changes."""

    view: ViewScan
    name = "changes of"
    label = "view-scan"

    @classmethod
    def of(cls, view: ViewScan) -> ViewScanSpec:
        """With its edge."""
        return cls(view, edge=edges.relation_edge(view.schema))

    def detail(self) -> str:
        """The view's name."""
        return f"view {self.view.view}"


@dataclass(frozen=True, slots=True)
class ReceiveSpec(Spec):
    """Rows that level 1 sends."""

    channel: int
    name = "receive"

    def detail(self) -> str:
        """The channel."""
        return f"channel {self.channel}"


@dataclass(frozen=True, slots=True)
class FlowSpec(Spec):
    """A block that shares filters and SteMs with others that read the same `streams`.

    `index` matches the rows of one stream with very many queries, `pairs` those of two.
    """

    block: Block
    streams: frozenset[str]
    index: MatchSpec | None
    pairs: PairShape | None
    name = "flow"
    means = "index over pairs"

    @classmethod
    def of(cls, block: Block, streams: frozenset[str], level: Lineage, at_commit: bool) -> FlowSpec:
        """With its edge, and the index where it can have one."""
        fields = tuple(block.scans[a].stream_schema[c] for a, c in block.output)
        edge = edges.flow_edge(Schema(fields), block.windows, level)
        index, pairs = flow_index(block, level, at_commit), pair_shape(block)
        return cls(block, streams, index, pairs, edge=edge)

    @property
    def policy(self) -> IndexPolicy:
        """When the template has an index of its own."""
        can_have_own = self.index is not None or self.pairs is not None
        return IndexPolicy(can_have_own, needs_own=self.block.band is not None)

    def detail(self) -> str:
        """Streams, how they join, and what the queries ask."""
        block = self.block
        windows = ", ".join(f"{s.stream} {describe_window(s)}" for s in block.scans)
        names = [scan.stream_schema.names for scan in block.scans]
        band = "" if block.band is None else describe_band(block.band, block.span.streams, names)
        joined = " AND ".join(filter(None, (block.span.describe(names), band)))
        asked = " AND ".join(str(c.predicate) for c in block.conditions)
        parts = [windows, f"on {joined}" if joined else "", f"where {asked}" if asked else ""]
        return " ".join(p for p in parts if p)


# ---- one input -----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RowsWindowSpec(Spec):
    """The last rows, or the last of each partition."""

    window: Rows
    name = "rows-window"
    label = "rows"

    @classmethod
    def of(cls, source: Spec, window: Rows) -> RowsWindowSpec:
        """With its edge."""
        return cls(window, edge=edges.rows_edge(source.edge), inputs=(source,))

    def detail(self) -> str:
        """The window."""
        names = [self.edge.schema[c].name for c in self.window.partition]
        by = f"PARTITION BY {', '.join(names)} " if names else ""
        return f"[{by}ROWS {self.window.count}]"


@dataclass(frozen=True, slots=True)
class FilterSpec(Spec):
    """The rows for which a predicate holds; if `by_query`, it reads parameters."""

    predicate: Expr
    by_query: bool = False
    name = "filter"

    @classmethod
    def of(cls, source: Spec, predicate: Expr, by_query: bool = False) -> FilterSpec:
        """With its edge, which is its input's."""
        return cls(predicate, by_query, edge=source.edge, inputs=(source,))

    def detail(self) -> str:
        """The predicate."""
        return str(self.predicate)


@dataclass(frozen=True, slots=True)
class ProjectSpec(Spec):
    """Computed columns; if `by_query`, they read parameters."""

    exprs: tuple[Expr, ...]
    by_query: bool = False
    name = "project"

    @classmethod
    def of(
        cls, source: Spec, exprs: tuple[Expr, ...], schema: Schema, by_query: bool = False
    ) -> ProjectSpec:
        """With its edge."""
        edge = edges.project_edge(source.edge, schema)
        return cls(exprs, by_query, edge=edge, inputs=(source,))

    def detail(self) -> str:
        """The expressions."""
        return ", ".join(map(str, self.exprs))


@dataclass(frozen=True, slots=True)
class MatchSpec(Spec):
    """Rows joined with Q: tied to the cohorts or queries that see them and take them."""

    predicates: tuple[Expr, ...]
    over_tables: bool
    name = "match"

    @classmethod
    def of(
        cls, source: Spec, level: Lineage, predicates: tuple[Expr, ...], over_tables: bool
    ) -> MatchSpec:
        """With its edge."""
        edge = edges.match_edge(source.edge, level)
        return cls(predicates, over_tables, edge=edge, inputs=(source,))

    def detail(self) -> str:
        """The predicates with parameters."""
        return " AND ".join(map(str, self.predicates))


def flow_index(block: Block, level: Lineage, at_commit: bool) -> MatchSpec | None:
    """How a selection from one stream finds very many queries; it does not know their windows.

    With windows of their own, the sets of queries that take a row differ by its expiry.
    """
    if len(block.scans) != 1 or (block.own_windows and level is Lineage.SET):
        return None
    (scan,) = block.scans
    if block.own_windows:
        scan = replace(scan, window=Unbounded(True))
    predicates = tuple(remap(c.predicate, scan.columns.index) for c in block.conditions)
    return MatchSpec.of(ScanSpec.of(scan, at_commit), level, predicates, over_tables=False)


@dataclass(frozen=True, slots=True)
class MatchCountSpec(Spec):
    """How many rows each query takes."""

    predicates: tuple[Expr, ...]
    name = "count matches"
    label = "count-matches"

    @classmethod
    def of(cls, source: Spec, predicates: tuple[Expr, ...], schema: Schema) -> MatchCountSpec:
        """With its edge."""
        edge = edges.group_edge(schema, Lineage.QUERY)
        return cls(predicates, edge=edge, inputs=(source,))

    @property
    def match(self) -> MatchSpec:
        """The match of which it counts the results."""
        return MatchSpec.of(self.inputs[0], Lineage.QUERY, self.predicates, over_tables=False)

    def structure(self) -> str:
        """A count per query, and the rows of the window."""
        return self.expiry.structure(", ")

    def detail(self) -> str:
        """The predicates with parameters."""
        return self.match.detail()


@dataclass(frozen=True, slots=True)
class ExplodeSpec(Spec):
    """Rows with sets of queries, once for each query."""

    name = "explode"

    @classmethod
    def of(cls, source: Spec) -> ExplodeSpec:
        """With its edge."""
        return cls(edge=edges.match_edge(source.edge, Lineage.QUERY), inputs=(source,))


@dataclass(frozen=True, slots=True)
class KeepSpec(Spec):
    """The rows of the input, which are remembered while they are alive.

    One that tells by −1 rows what leaves is EXPIRE (Ghanem et al. 2005, §4).
    """

    label = "keep"

    @classmethod
    def of(cls, source: Spec) -> KeepSpec:
        """With its edge, which is its input's."""
        return cls(edge=source.edge, inputs=(source,))

    @property
    def name(self) -> str:
        """By what it does with rows that leave."""
        return "expire" if self.expiry.tells else "keep"


@dataclass(frozen=True, slots=True)
class ViewSpec(Spec):
    """The recipient at the root; it remembers what operators below do not."""

    name = "view"

    @classmethod
    def of(cls, source: Spec) -> ViewSpec:
        """With its edge, which is its input's."""
        return cls(edge=source.edge, inputs=(source,))


# ---- two inputs ----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class UnionSpec(Spec):
    """The rows of both inputs."""

    name = "union"

    @classmethod
    def of(cls, left: Spec, right: Spec) -> UnionSpec:
        """With its edge."""
        return cls(edge=edges.union_edge(left.edge, right.edge), inputs=(left, right))
