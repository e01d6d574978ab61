"""From a lowered logical plan to operators: lineage levels, state by edge, one per node.

`Planner.plan` walks the plan bottom-up. Keyed operators get tagged inputs, predicates with
parameters become matches with Q, everything else stays below the match as long as it can
(docs/design/0001-engine.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from types import UnionType

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.eddy.flows import Flows
from penstock.errors import PlanError, UnsupportedError
from penstock.expressions.condition import Condition
from penstock.expressions.context import Context
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.logical.expr import Expr, Param, conjunction, conjuncts, params_of, remap
from penstock.logical.failing import is_risky
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Project,
    Received,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    ViewScan,
    Windowed,
    walk,
)
from penstock.logical.windows import window_length
from penstock.optimizer.distribution import Send
from penstock.optimizer.emit import Emit
from penstock.optimizer.flow_block import Block, find_block
from penstock.patterns.edge import Edge, Pattern
from penstock.physical.distinct import DistinctOp
from penstock.physical.explode import ExplodeOp
from penstock.physical.filter import FilterOp
from penstock.physical.flow import FlowOp
from penstock.physical.flow_matches import MakeIndex
from penstock.physical.group_by import GroupByOp
from penstock.physical.join import JoinOp
from penstock.physical.keep import KeepOp
from penstock.physical.match import MatchOp
from penstock.physical.match_count import MatchCountOp, counts_rows
from penstock.physical.nrr_join import NrrJoinOp
from penstock.physical.operator import Operator
from penstock.physical.project import ProjectOp
from penstock.physical.receive import ReceiveOp
from penstock.physical.rows_window import RowsWindowOp
from penstock.physical.scan import ScanOp
from penstock.physical.semi_join import SemiJoinOp
from penstock.physical.set_op import SetOpOp
from penstock.physical.shapes import (
    is_identity,
    is_nonretroactive,
    is_table,
    plain_columns,
    reaching,
)
from penstock.physical.stem_join import StemJoinOp, joined_windows
from penstock.physical.table_scan import TableScanOp
from penstock.physical.union import UnionOp
from penstock.physical.view import ViewOp
from penstock.physical.view_scan import ViewScanOp
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.sets import SetTable
from penstock.state.source_log import SourceLog
from penstock.state.table_store import TableStore
from penstock.stems.window_join import Window


@dataclass(frozen=True, slots=True)
class Plan:
    """Operators in an order in which inputs come first; the view at the root, or what is sent."""

    operators: tuple[Operator, ...]
    nodes: dict[int, Node]  # logical node by position of its operator
    view: ViewOp | None
    sends: tuple[tuple[Send, Operator], ...] = ()
    scans: tuple[ScanOp, ...] = field(init=False)
    flows: tuple[FlowOp | StemJoinOp, ...] = field(init=False)
    tables: tuple[TableScanOp, ...] = field(init=False)
    receivers: tuple[ReceiveOp, ...] = field(init=False)
    views: tuple[ViewScanOp, ...] = field(init=False)  # those that it reads
    negations: tuple[tuple[Node, SetOpOp | SemiJoinOp], ...] = field(init=False)

    def __post_init__(self) -> None:
        kinds: tuple[tuple[str, type | UnionType], ...] = (
            ("scans", ScanOp),
            ("flows", FlowOp | StemJoinOp),
            ("tables", TableScanOp),
            ("receivers", ReceiveOp),
            ("views", ViewScanOp),
        )
        for name, kind in kinds:
            leaves = tuple(o for o in self.operators if isinstance(o, kind))
            object.__setattr__(self, name, leaves)
        pairs = ((node, self.operators[at]) for at, node in self.nodes.items())
        negations = tuple((n, o) for n, o in pairs if isinstance(o, SetOpOp | SemiJoinOp))
        object.__setattr__(self, "negations", negations)


@dataclass(slots=True)
class Planner:
    """Builds the operators of one template."""

    sources: dict[str, SourceLog]
    tables: dict[str, TableStore]
    queries: QueryTable
    ctx: Context
    scope: Scope
    at_commit: bool
    emits: dict[Node, Emit]
    flows: Flows
    streams: frozenset[str]
    tables_read: tuple[str, ...] = ()  # and views: their rows are of no epoch
    received: dict[int, Edge] = field(default_factory=dict)
    sets: SetTable | None = None  # given when the changelog has one row per result row
    _free: set[Node] = field(default_factory=set)  # whose rows reach the view, sets and all
    _uses: Counter[Node] = field(default_factory=Counter)
    _shown: Node | None = None  # what the view shows, but for the choice of columns
    _operators: list[Operator] = field(default_factory=list)
    _nodes: dict[int, Node] = field(default_factory=dict)
    _built: dict[Node, Operator] = field(default_factory=dict)
    _tagged: dict[tuple[int, Lineage], Operator] = field(default_factory=dict)

    def plan(self, root: Node) -> Plan:
        """Operators for `root`, tagged with queries, below a view."""
        self._uses.update(walk(root))
        self._shown = root.input if isinstance(root, Project) and plain_columns(root) else root
        if self.sets is not None:
            self._free.update(reaching(root))
        top = self._tag(self._build(root), Lineage.QUERY if self.sets is None else Lineage.SET)
        keep = top.edge.pattern is not Pattern.MON and not recalls(top)
        if top.edge.negatives and (top.edge.expiring or keep):
            top = self._one_query(top)  # a −1 row must find the entry that it ends
        view = ViewOp(top, self.queries, self._next("view"), keep, self.sets)
        self._operators.append(view)
        return Plan(tuple(self._operators), self._nodes, view)

    def give_up(self) -> None:
        """Leave the flows that operators made so far take part in: the plan cannot be built."""
        for flow in Plan(tuple(self._operators), {}, None).flows:
            flow.close()

    def plan_sends(self, sends: tuple[Send, ...]) -> Plan:
        """Operators for what level 2 wants; rows are tagged here, where the past is known."""
        for send in sends:
            self._uses.update(walk(send.node))
        tops = [(send, self._tag(self._build(send.node), Lineage.COHORT)) for send in sends]
        return Plan(tuple(self._operators), self._nodes, None, tuple(tops))

    # ---- bookkeeping -----------------------------------------------------------------
    def _next(self, name: str) -> Scope:
        return self.scope.scope(f"{len(self._operators):02d}-{name}")

    def _add(self, operator: Operator, node: Node) -> Operator:
        self._nodes[len(self._operators)] = node
        self._operators.append(operator)
        return operator

    def _tag(
        self, operator: Operator, level: Lineage, predicates: list[Expr] | None = None
    ) -> Operator:
        """`operator` with its rows tied to cohorts, queries or sets of these."""
        if level is not Lineage.SET:
            operator = self._one_query(operator)
        if operator.edge.lineage >= min(level, Lineage.QUERY) and not predicates:
            return operator
        key = (id(operator), level)
        if not predicates and key in self._tagged:
            return self._tagged[key]
        operator = self._kept(operator)
        scope = self._next("match")
        match = MatchOp(
            operator, level, predicates or [], self.queries, self.ctx, scope,
            bool(self.tables_read), self.sets,
        )  # fmt: skip
        self._operators.append(match)
        if not predicates:
            self._tagged[key] = match
        return match

    def _kept(self, operator: Operator) -> Operator:
        """`operator` with its live rows at hand for new queries of a cohort that is not new."""
        edge = operator.edge
        if edge.lineage is not Lineage.COHORT or edge.pattern is Pattern.MON or recalls(operator):
            return operator
        kept = KeepOp(operator, self._next("keep"))
        self._operators.append(kept)
        return kept

    def _same_level(
        self, left: Operator, right: Operator, least: Lineage
    ) -> tuple[Operator, Operator]:
        if Lineage.QUERY in (left.edge.lineage, right.edge.lineage) or least is not Lineage.EPOCH:
            left, right = self._one_query(left), self._one_query(right)
        level = max(least, left.edge.lineage, right.edge.lineage)
        return self._tag(left, level), self._tag(right, level)

    def _one_query(self, operator: Operator) -> Operator:
        """`operator` with one query per row where it has sets."""
        if operator.edge.lineage is not Lineage.SET:
            return operator
        key = (id(operator), Lineage.QUERY)
        if key not in self._tagged:
            assert self.sets is not None
            exploded = ExplodeOp(operator, self.sets, self._next("explode"))
            self._operators.append(exploded)
            self._tagged[key] = exploded
        return self._tagged[key]

    def _level(self, node: Node) -> Lineage:
        """How a match at `node` ties rows to queries."""
        return Lineage.SET if node in self._free else Lineage.QUERY

    # ---- nodes -----------------------------------------------------------------------
    def _build(self, node: Node) -> Operator:
        if node not in self._built:
            block = find_block(node, self.streams)
            if block is not None:
                self._built[node] = self._plan_flow(node, block)
                return self._built[node]
            method = getattr(self, f"_plan_{type(node).__name__.lower()}", None)
            if method is None:
                raise PlanError(f"no operator for {type(node).__name__}")
            self._built[node] = method(node)
        return self._built[node]

    def _plan_flow(self, node: Node, block: Block) -> Operator:
        """A block that shares filters and SteMs with others; what spans streams comes above."""
        flow = self.flows.of(block.span, self.sources, self.streams)
        scope = self._next("flow")
        key = next(reversed(flow.members), -1) + 1  # members come in the order of their keys
        above = conjunction(list(block.above))
        asks = above is not None and bool(params_of(above))
        level = Lineage.QUERY if asks else self._level(node)
        sets = self.sets if level is Lineage.SET else None
        index: MakeIndex | None = None
        if len(block.scans) == 1 and not (block.own_windows and sets is not None):
            log = self.sources[block.scans[0].stream]
            index = partial(
                flow_index, block, log, scope, level, self.at_commit, self.queries, self.ctx, sets
            )
        source: Operator = FlowOp(
            key, block, flow, self.flows, self.queries, self.ctx, scope, index, sets
        )
        self._add(source, node)
        if above is not None:
            scope = self._next("filter")
            params = self.queries.params_of if asks else None
            source = self._add(FilterOp(source, above, self.ctx, scope, params), node)
        return source

    def _emit(self, node: Node, source: Operator) -> Emit:
        """How `node` emits: as chosen, where rows of `source` have an expiry to pass on."""
        return self.emits.get(node, "explicit") if source.edge.expiring else "explicit"

    def _plan_scan(self, node: Scan) -> Operator:
        if isinstance(node.window, Rows):
            window = self._narrow(node.window, node.columns)
            whole = Scan(node.stream, node.stream_schema, Unbounded(True), node.columns)
            source = self._build(whole)
            return self._add(RowsWindowOp(source, window, self._next("rows")), node)
        if isinstance(window_length(node), Param):
            raise PlanError("a window whose length is a parameter is no part of a flow")
        log = self.sources[node.stream]
        return self._add(ScanOp(node, log, self._next("scan"), self.at_commit), node)

    @staticmethod
    def _narrow(window: Rows, columns: tuple[int, ...]) -> Rows:
        """A window whose partition counts positions of the yielded columns."""
        if not all(c in columns for c in window.partition):
            raise PlanError("a PARTITION BY column was pruned from its scan")
        return Rows(window.count, tuple(columns.index(c) for c in window.partition))

    def _plan_received(self, node: Received) -> Operator:
        edge = self.received[node.channel]
        return self._add(ReceiveOp(node.channel, edge, self._next("receive")), node)

    def _plan_windowed(self, node: Windowed) -> Operator:
        if not isinstance(node.window, Rows):
            raise PlanError("a time window over a subquery was not pushed to its streams")
        source = self._one_query(self._build(node.input))
        return self._add(RowsWindowOp(source, node.window, self._next("rows")), node)

    def _plan_tablescan(self, node: TableScan) -> Operator:
        table = self.tables[node.table]
        return self._add(TableScanOp(node, table, self._next("table")), node)

    def _plan_viewscan(self, node: ViewScan) -> Operator:
        """What it hands on is kept: the view's own state may be ahead, or gone with a failure."""
        source = ViewScanOp(node, self._next("view-scan"))
        self._operators.append(source)
        return self._add(KeepOp(source, self._next("keep")), node)

    def _plan_filter(self, node: Filter) -> Operator:
        source = self._build(node.input)
        parts = conjuncts(node.predicate)
        lifted = [p for p in parts if params_of(p)]
        if lifted:  # they guard what can fail
            lifted = [p for p in parts if params_of(p) or is_risky(p)]
        plain = [p for p in parts if p not in lifted]
        if plain:
            predicate = conjunction(plain)
            assert predicate is not None
            scope = self._next("filter")
            source = self._add(FilterOp(source, predicate, self.ctx, scope, None), node)
        if not lifted:
            return source
        if source.edge.lineage < Lineage.QUERY:
            match = self._tag(source, self._level(node), lifted)
            self._nodes[len(self._operators) - 1] = node
            return match
        predicate = conjunction(lifted)
        assert predicate is not None
        source = self._one_query(source)
        scope = self._next("filter")
        params = self.queries.params_of
        return self._add(FilterOp(source, predicate, self.ctx, scope, params), node)

    def _plan_project(self, node: Project) -> Operator:
        columns = plain_columns(node)
        if columns is not None and self._can_narrow(node.input):
            assert isinstance(node.input, Join)
            return self._plan_join(node.input, columns)
        source = self._build(node.input)
        if is_identity(node):
            return source  # it only names columns, which operators do not look at
        params: Callable[[I64], I64] | None = None
        if any(params_of(e) for e in node.exprs):
            source = self._tag(source, Lineage.QUERY)
            params = self.queries.params_of
        scope = self._next("project")
        return self._add(ProjectOp(source, node.exprs, node.schema, self.ctx, scope, params), node)

    def _can_narrow(self, node: Node) -> bool:
        """Whether a join may yield just the columns that its only reader takes."""
        if not isinstance(node, Join) or node.kind is not JoinKind.INNER or node.residual:
            return False
        return self._uses[node] == 1 and not is_nonretroactive(node.right)

    def _plan_join(self, node: Join, columns: tuple[int, ...] | None = None) -> Operator:
        windows = joined_windows(node)
        if windows is not None:
            return self._plan_stem_join(node, windows, columns)
        left, right = (self._one_query(self._build(side)) for side in (node.left, node.right))
        if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self._plan_semi(node, left, right)
        if node.kind is not JoinKind.INNER:
            raise PlanError(f"a {node.kind.value} join was not lowered")
        lifted, residual = self._residual(node)
        if is_table(node.right) and is_nonretroactive(node.right):
            if node.band is not None:
                raise UnsupportedError(
                    "a band join with a non-retroactive table",
                    code="PS-PLAN-009",
                    remedy="join on equality and put the band into WHERE",
                )
            join: Operator = NrrJoinOp(
                left, right, node.equi, residual, self.ctx, self._next("nrr-join")
            )
        else:
            if Lineage.EPOCH not in (left.edge.lineage, right.edge.lineage):
                left, right = self._same_level(left, right, Lineage.COHORT)
            level = max(left.edge.lineage, right.edge.lineage)
            join = JoinOp(
                left, right, node.equi, node.band, residual, self.ctx, self._next("join"),
                partial(self.queries.since, level), is_table(node.left), is_table(node.right),
                columns, explicit=node is self._shown and not lifted,
            )  # fmt: skip
        self._add(join, node)
        return self._tag(join, self._level(node), lifted) if lifted else join

    def _plan_stem_join(
        self, node: Join, windows: tuple[Window, Window], columns: tuple[int, ...] | None
    ) -> Operator:
        """A join of two windows, whose rows stay in the logs of their streams."""
        lifted, residual = self._residual(node)
        join = StemJoinOp(
            node, windows, residual, [self.sources[w.stream] for w in windows], self.queries,
            self.flows, self.ctx, self._next("join"), columns,
            explicit=node is self._shown and not lifted,
        )  # fmt: skip
        self._add(join, node)
        return self._tag(join, self._level(node), lifted) if lifted else join

    def _residual(self, node: Join) -> tuple[list[Expr], Condition | None]:
        """What a join must satisfy beside its keys: with parameters, and without."""
        parts = conjuncts(node.residual)
        plain = conjunction([p for p in parts if not params_of(p)])
        lifted = [p for p in parts if params_of(p)]
        return lifted, None if plain is None else Condition.of(plain, self.ctx)

    def _plan_semi(self, node: Join, left: Operator, right: Operator) -> Operator:
        if node.residual is not None or node.band is not None:
            raise PlanError(f"a {node.kind.value} join with a residual was not lowered")
        left, right = self._same_level(left, right, Lineage.COHORT)
        scope = self._next(f"{node.kind.value}-join")
        anti = node.kind is JoinKind.ANTI
        operator = SemiJoinOp(
            left,
            right,
            node.equi,
            anti,
            self.ctx,
            scope,
            self._emit(node, left),
            null_safe=node.null_safe,
        )
        return self._add(operator, node)

    def _plan_groupby(self, node: GroupBy) -> Operator:
        counted = self._plan_match_count(node)
        if counted is not None:
            return counted
        source = self._tag(self._build(node.input), Lineage.COHORT)
        level = source.edge.lineage
        operator = GroupByOp(
            source, node.keys, node.aggs, node.schema, self.ctx, self._next("group-by"),
            partial(self.queries.live, level),
        )  # fmt: skip
        return self._add(operator, node)

    def _plan_match_count(self, node: GroupBy) -> Operator | None:
        """How many rows each query takes, where only that is asked and only at commit."""
        below = node.input
        while isinstance(below, Project) and plain_columns(below) is not None:
            below = below.input
        wanted = self.at_commit and not node.keys and counts_rows(node.aggs)
        if not wanted or self.tables_read or not isinstance(below, Filter):
            return None
        parts = conjuncts(below.predicate)
        lifted = [p for p in parts if params_of(p)]
        if any(map(is_risky, parts)):
            return None
        if not lifted or not TemplatePredicates(lifted, counting=True).always_sure:
            return None
        plain = conjunction([p for p in parts if not params_of(p)])
        if find_block(below.input, self.streams) is not None:
            return None  # rows that come with their queries
        source = self._build(below.input)
        if source.edge.lineage is not Lineage.EPOCH or source.edge.negatives:
            return None
        if plain is not None:
            scope = self._next("filter")
            source = self._add(FilterOp(source, plain, self.ctx, scope, None), below)
        scope = self._next("count-matches")
        operator = MatchCountOp(source, lifted, node.schema, self.queries, self.ctx, scope)
        return self._add(operator, node)

    def _plan_distinct(self, node: Distinct) -> Operator:
        source = self._tag(self._build(node.input), Lineage.COHORT)
        emit = "explicit" if source.edge.negatives else self._emit(node, source)
        return self._add(DistinctOp(source, self.ctx, self._next("distinct"), emit), node)

    def _plan_setop(self, node: SetOp) -> Operator:
        left, right = self._build(node.left), self._build(node.right)
        least = Lineage.EPOCH if node.kind is SetKind.UNION else Lineage.COHORT
        left, right = self._same_level(left, right, least)
        if node.kind is SetKind.UNION:
            return self._add(UnionOp(left, right, self._next("union")), node)
        scope = self._next(node.kind.value)
        keeps_rows = node.kind is SetKind.EXCEPT and node.all
        emit = self._emit(node, left) if keeps_rows else "explicit"
        return self._add(SetOpOp(left, right, node.kind, node.all, self.ctx, scope, emit), node)


def flow_index(
    block: Block, log: SourceLog, scope: Scope, level: Lineage, at_commit: bool,
    queries: QueryTable, ctx: Context, sets: SetTable | None,
) -> tuple[ScanOp, MatchOp]:  # fmt: skip
    """How a selection from one stream finds very many queries; it does not know their windows."""
    (node,) = block.scans
    if block.own_windows:
        node = replace(node, window=Unbounded(True))
    scan = ScanOp(node, log, scope.scope("scan"), at_commit)
    predicates = [remap(c.predicate, node.columns.index) for c in block.conditions]
    match_scope = scope.scope("match")
    return scan, MatchOp(scan, level, predicates, queries, ctx, match_scope, False, sets)


def recalls(operator: Operator) -> bool:
    """Whether the live output can be told from state.

    An unbounded window of one stream forgets what it read, and what was received is kept by nobody.
    """
    if isinstance(operator, ScanOp) or (
        isinstance(operator, FlowOp) and len(operator.block.scans) == 1
    ):
        return operator.edge.expiring
    if isinstance(operator, ReceiveOp):
        return False
    if isinstance(operator, FilterOp | ProjectOp | MatchOp | ExplodeOp | UnionOp | NrrJoinOp):
        return all(recalls(source) for source in operator.inputs)
    return True
