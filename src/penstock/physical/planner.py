"""From a lowered logical plan to specs: one function per class of node, state by edge.

Planning is pure: the same nodes and setting give equal specs. A class of node without a function
is an error when this module is imported.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.delta import Lineage
from penstock.dispatch import case, complete, subclasses
from penstock.errors import PlanError, UnsupportedError
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.logical import nodes
from penstock.logical.expr import Expr, Param, conjunction, conjuncts, params_of
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
)
from penstock.logical.windows import window_length
from penstock.optimizer.distribution import Send
from penstock.optimizer.flow_block import Block, find_block
from penstock.patterns.edge import Emit
from penstock.patterns.rules import is_table
from penstock.physical.draft import Draft, PlanSpec, Setting
from penstock.physical.expiry_policy import decide
from penstock.physical.join_specs import JoinSpec, NrrJoinSpec, SemiJoinSpec, WindowJoinSpec
from penstock.physical.joined_windows import joined_windows
from penstock.physical.keyed_specs import DistinctSpec, GroupBySpec, SetOpSpec
from penstock.physical.reevaluation import with_windows_apart
from penstock.physical.shapes import (
    counts_rows,
    is_identity,
    is_nonretroactive,
    plain_columns,
)
from penstock.physical.specs import (
    FilterSpec,
    FlowSpec,
    KeepSpec,
    MatchCountSpec,
    ProjectSpec,
    ReceiveSpec,
    RowsWindowSpec,
    ScanSpec,
    Spec,
    TableScanSpec,
    UnionSpec,
    ViewScanSpec,
    ViewSpec,
)
from penstock.physical.totals_specs import plan_totals
from penstock.stems.window_join import Window

_PLANS: dict[type[Node], Callable[..., Spec]] = {}


def plan(root: Node, setting: Setting) -> PlanSpec:
    """The specs of `root`, tagged with queries, below a view."""
    shown = root.input if isinstance(root, Project) and plain_columns(root) else root
    draft = Draft(setting, [root], shown, _maker(setting))
    if setting.per_row:
        draft.let_sets_reach(root)
    top = draft.tag(draft.build(root), Lineage.SET if setting.per_row else Lineage.QUERY)
    (kept,) = decide(ViewSpec.of(top), policy=setting.policy).expiry.inputs
    if kept.searched:
        top = draft.one_query(top)  # a −1 row must find the entry that it ends
    view = draft.add(ViewSpec.of(top))
    return PlanSpec(tuple(draft.specs), view)


def plan_sends(sends: tuple[Send, ...], setting: Setting) -> PlanSpec:
    """The specs of what level 2 wants; rows are tagged here, where the past is known."""
    draft = Draft(setting, [send.node for send in sends], None, _maker(setting))
    tops = tuple((send, draft.tag(draft.build(send.node), Lineage.COHORT)) for send in sends)
    return PlanSpec(tuple(draft.specs), None, tops)


def _maker(setting: Setting) -> Callable[[Draft, Node], Spec]:
    """The function that makes the spec of a node."""
    return with_windows_apart(_make, _by_class) if setting.policy.reevaluates else _make


def _by_class(draft: Draft, node: Node) -> Spec:
    return _PLANS[type(node)](draft, node)


def _make(draft: Draft, node: Node) -> Spec:
    """The spec of a node: what runs in a flow does so, the rest by its class."""
    block = find_block(node, draft.setting.streams)
    return _by_class(draft, node) if block is None else _flow(draft, node, block)


def _flow(draft: Draft, node: Node, block: Block) -> Spec:
    """A block that shares filters and SteMs with others; what spans streams comes above."""
    above = conjunction(list(block.above))
    asks = above is not None and bool(params_of(above))
    level = Lineage.QUERY if asks else draft.level(node)
    setting = draft.setting
    source = draft.add_window(FlowSpec.of(block, setting.streams, level, setting.at_commit), node)
    return source if above is None else draft.add(FilterSpec.of(source, above, asks), node)


# ---- leaves --------------------------------------------------------------------------
@case(_PLANS, Scan)
def _scan(draft: Draft, node: Scan) -> Spec:
    if isinstance(node.window, Rows):
        window = _narrow(node.window, node.columns)
        whole = Scan(node.stream, node.stream_schema, Unbounded(True), node.columns)
        return draft.add(RowsWindowSpec.of(draft.build(whole), window), node)
    if isinstance(window_length(node), Param):
        raise PlanError("a window with a parameter as its length cannot be scanned outside a flow")
    return draft.add_window(ScanSpec.of(node, draft.setting.at_commit), node)


def _narrow(window: Rows, columns: tuple[int, ...]) -> Rows:
    """A window with its partition in positions of the yielded columns."""
    if not all(c in columns for c in window.partition):
        raise PlanError("a PARTITION BY column was pruned from its scan")
    return Rows(window.count, tuple(columns.index(c) for c in window.partition))


@case(_PLANS, Received)
def _received(draft: Draft, node: Received) -> Spec:
    edge = draft.setting.received[node.channel]
    return draft.add(ReceiveSpec(node.channel, edge=edge), node)


@case(_PLANS, TableScan)
def _table(draft: Draft, node: TableScan) -> Spec:
    return draft.add(TableScanSpec.of(node), node)


@case(_PLANS, ViewScan)
def _view(draft: Draft, node: ViewScan) -> Spec:
    """Keep the rows of a view: the view's own state may be ahead, or gone after a failure."""
    return draft.add(KeepSpec.of(draft.add(ViewScanSpec.of(node))), node)


# ---- one input -----------------------------------------------------------------------
@case(_PLANS, Windowed)
def _windowed(draft: Draft, node: Windowed) -> Spec:
    if not isinstance(node.window, Rows):
        raise PlanError("a time window over a subquery was not pushed to its streams")
    source = draft.one_query(draft.build(node.input))
    return draft.add(RowsWindowSpec.of(source, node.window), node)


@case(_PLANS, Filter)
def _filter(draft: Draft, node: Filter) -> Spec:
    source = draft.build(node.input)
    parts = conjuncts(node.predicate)
    lifted = [p for p in parts if params_of(p)]
    if lifted:  # they guard what can fail
        lifted = [p for p in parts if params_of(p) or is_risky(p)]
    plain = conjunction([p for p in parts if p not in lifted])
    if plain is not None:
        source = draft.add(FilterSpec.of(source, plain), node)
    return _asked(draft, source, tuple(lifted), node)


def _asked(draft: Draft, source: Spec, lifted: tuple[Expr, ...], node: Node) -> Spec:
    """The rows of `source` with the queries that take them by predicates with parameters."""
    asked = conjunction(list(lifted))
    if asked is None:
        return source
    if source.edge.lineage < Lineage.QUERY:
        return draft.tag(source, draft.level(node), lifted, node)
    return draft.add(FilterSpec.of(draft.one_query(source), asked, by_query=True), node)


@case(_PLANS, Project)
def _project(draft: Draft, node: Project) -> Spec:
    columns = plain_columns(node)
    if columns is not None and _can_narrow(draft, node.input):
        assert isinstance(node.input, Join)
        return _narrow_join(draft, node.input, columns)
    source = draft.build(node.input)
    if is_identity(node):
        return source  # it only names columns, which operators do not look at
    by_query = any(params_of(e) for e in node.exprs)
    if by_query:
        source = draft.tag(source, Lineage.QUERY)
    return draft.add(ProjectSpec.of(source, node.exprs, node.schema, by_query), node)


def _can_narrow(draft: Draft, node: Node) -> bool:
    """Whether a join may yield just the columns that its only reader takes."""
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER or node.residual:
        return False
    return draft.uses[node] == 1 and not is_nonretroactive(node.right)


@case(_PLANS, GroupBy)
def _group_by(draft: Draft, node: GroupBy) -> Spec:
    counted = _match_count(draft, node)
    if counted is not None:
        return counted
    setting = draft.setting
    totals = plan_totals(node, setting.streams) if setting.policy.joins_logs else None
    if totals is not None:
        spec, aggs = totals
        return draft.add(GroupBySpec.of(draft.add(spec), (), aggs, node.schema, True), node)
    source = draft.tag(draft.build(node.input), Lineage.COHORT)
    return draft.add(GroupBySpec.of(source, node.keys, node.aggs, node.schema), node)


def _match_count(draft: Draft, node: GroupBy) -> Spec | None:
    """How many rows each query takes, where only that is asked and only at commit."""
    below = node.input
    while isinstance(below, Project) and plain_columns(below) is not None:
        below = below.input
    setting = draft.setting
    wanted = setting.at_commit and not node.keys and counts_rows(node.aggs)
    if not wanted or setting.over_relations or not isinstance(below, Filter):
        return None
    parts = conjuncts(below.predicate)
    lifted = [p for p in parts if params_of(p)]
    if any(map(is_risky, parts)):
        return None
    if not lifted or not TemplatePredicates(lifted, counting=True).always_sure:
        return None
    if find_block(below.input, setting.streams) is not None:
        return None  # rows that come with their queries
    source = draft.build(below.input)
    if source.edge.lineage is not Lineage.EPOCH or source.edge.negatives:
        return None
    plain = conjunction([p for p in parts if not params_of(p)])
    if plain is not None:
        source = draft.add(FilterSpec.of(source, plain), below)
    return draft.add(MatchCountSpec.of(source, tuple(lifted), node.schema), node)


@case(_PLANS, Distinct)
def _distinct(draft: Draft, node: Distinct) -> Spec:
    source = draft.tag(draft.build(node.input), Lineage.COHORT)
    return draft.add(DistinctSpec.of(source), node, draft.wish(node))


# ---- two inputs ----------------------------------------------------------------------
@case(_PLANS, Join)
def _join(draft: Draft, node: Join) -> Spec:
    return _narrow_join(draft, node, None)


def _narrow_join(draft: Draft, node: Join, columns: tuple[int, ...] | None) -> Spec:
    """A join that yields some columns, or all."""
    windows = joined_windows(node) if draft.setting.policy.joins_logs else None
    if windows is not None:
        return _window_join(draft, node, windows, columns)
    left, right = (draft.one_query(draft.build(side)) for side in node.inputs)
    if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return _semi_join(draft, node, left, right)
    if node.kind is not JoinKind.INNER:
        raise PlanError(f"a {node.kind.value} join was not lowered")
    lifted, residual = _residual(node)
    if is_table(node.right) and is_nonretroactive(node.right):
        join: Spec = draft.add(_nrr_join(node, left, right, residual), node)
    else:
        if Lineage.EPOCH not in (left.edge.lineage, right.edge.lineage):
            left, right = draft.same_level(left, right, Lineage.COHORT)
        tables = (is_table(node.left), is_table(node.right))
        made = JoinSpec.of(left, right, node.equi, node.band, residual, tables, columns)
        join = draft.add(made, node, _join_wish(draft, node, lifted))
    return _asked(draft, join, lifted, node)


def _nrr_join(node: Join, left: Spec, right: Spec, residual: Expr | None) -> NrrJoinSpec:
    if node.band is not None:
        raise UnsupportedError(
            "a band join with a non-retroactive table",
            code="PS-PLAN-009",
            remedy="join on equality and put the band into WHERE",
        )
    return NrrJoinSpec.of(left, right, node.equi, residual)


def _window_join(
    draft: Draft, node: Join, windows: tuple[Window, Window], columns: tuple[int, ...] | None
) -> Spec:
    """A join of two windows; rows stay in the logs of their streams."""
    lifted, residual = _residual(node)
    made = WindowJoinSpec.of(node, windows, residual, columns)
    join = draft.add_window(made, node, _join_wish(draft, node, lifted))
    return _asked(draft, join, lifted, node)


def _join_wish(draft: Draft, node: Join, lifted: tuple[Expr, ...]) -> Emit:
    """A join tells what leaves just below a view; else it would be evaluated twice (0005)."""
    return "explicit" if node is draft.shown and not lifted else "expiring"


def _residual(node: Join) -> tuple[tuple[Expr, ...], Expr | None]:
    """The conditions of a join besides its keys: with parameters, and without."""
    parts = conjuncts(node.residual)
    plain = conjunction([p for p in parts if not params_of(p)])
    return tuple(p for p in parts if params_of(p)), plain


def _semi_join(draft: Draft, node: Join, left: Spec, right: Spec) -> Spec:
    if node.residual is not None or node.band is not None:
        raise PlanError(f"a {node.kind.value} join with a residual was not lowered")
    left, right = draft.same_level(left, right, Lineage.COHORT)
    made = SemiJoinSpec.of(left, right, node.kind, node.equi, node.null_safe)
    return draft.add(made, node, draft.wish(node))


@case(_PLANS, SetOp)
def _set_op(draft: Draft, node: SetOp) -> Spec:
    left, right = draft.build(node.left), draft.build(node.right)
    least = Lineage.EPOCH if node.kind is SetKind.UNION else Lineage.COHORT
    left, right = draft.same_level(left, right, least)
    if node.kind is SetKind.UNION:
        return draft.add(UnionSpec.of(left, right), node)
    return draft.add(SetOpSpec.of(left, right, node.kind, node.all), node, draft.wish(node))


complete(_PLANS, subclasses(nodes, Node), "spec")
