"""Builds operators from specs: the only place where a plan allocates arrays and joins flows.

Every kind of spec has a function; a kind without one is an error when this module is imported. If
an operator cannot be made, those that were made before it leave what they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import UnionType

from penstock.delta import Delta
from penstock.dispatch import case, complete, subclasses
from penstock.eddy.flows import Flows
from penstock.expressions.condition import Condition
from penstock.expressions.context import Context
from penstock.logical.expr import Expr
from penstock.logical.nodes import Node
from penstock.optimizer.distribution import Send
from penstock.physical import (
    join_specs,
    keyed_specs,
    reevaluate_specs,
    specs,
    totals_specs,
)
from penstock.physical.distinct import DistinctOp
from penstock.physical.draft import PlanSpec
from penstock.physical.explode import ExplodeOp
from penstock.physical.filter import FilterOp, Params
from penstock.physical.flow import FlowOp, MakeOwn
from penstock.physical.flow_matches import IndexMatches
from penstock.physical.group_by import GroupByOp
from penstock.physical.hold import HoldOp
from penstock.physical.join import JoinOp
from penstock.physical.join_specs import JoinSpec, NrrJoinSpec, SemiJoinSpec, WindowJoinSpec
from penstock.physical.keep import KeepOp
from penstock.physical.keyed_specs import DistinctSpec, GroupBySpec, SetOpSpec
from penstock.physical.match import MatchOp
from penstock.physical.match_count import MatchCountOp
from penstock.physical.nrr_join import NrrJoinOp
from penstock.physical.operator import Operator
from penstock.physical.pair_matches import PairMatcher, PairMatches
from penstock.physical.pair_totals import PairTotals
from penstock.physical.project import ProjectOp
from penstock.physical.receive import ReceiveOp
from penstock.physical.reevaluate import HeldOp, ReevaluateOp
from penstock.physical.reevaluate_specs import HeldSpec, HoldSpec, ReevaluateSpec
from penstock.physical.rows_window import RowsWindowOp
from penstock.physical.scan import ScanOp
from penstock.physical.semi_join import SemiJoinOp
from penstock.physical.set_op import SetOpOp
from penstock.physical.specs import (
    ExplodeSpec,
    FilterSpec,
    FlowSpec,
    KeepSpec,
    MatchCountSpec,
    MatchSpec,
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
from penstock.physical.table_scan import TableScanOp
from penstock.physical.totals_specs import PairTotalsSpec
from penstock.physical.union import UnionOp
from penstock.physical.view import ViewOp
from penstock.physical.view_scan import ViewScanOp
from penstock.physical.window_join import WindowJoinOp
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena, Scope
from penstock.state.sets import SetTable
from penstock.state.source_log import SourceLog
from penstock.state.table_store import TableStore

Inputs = Sequence[Operator]


@dataclass(frozen=True, slots=True)
class Site:
    """The run-time environment of one template's operators; their state lives in `scope`."""

    sources: Mapping[str, SourceLog]
    tables: Mapping[str, TableStore]
    queries: QueryTable
    ctx: Context
    scope: Scope
    flows: Flows
    sets: SetTable | None = None  # given when the changelog has one row per result row
    held: Mapping[int, Delta] = field(default_factory=dict)  # contents of windows, by place

    def condition(self, predicate: Expr | None) -> Condition | None:
        """Compile a predicate, or return None if there is none."""
        return None if predicate is None else Condition.of(predicate, self.ctx)

    def params(self, by_query: bool) -> Params | None:
        """The function that looks up queries' parameters if `by_query`, else None."""
        return self.queries.params_of if by_query else None


@dataclass(frozen=True, slots=True)
class Plan:
    """The operators of a plan in the order of its specs; empty if the plan takes no steps.

    `planned` gives the specs: a plan without operators has none until EXPLAIN asks for them.
    """

    planned: Callable[[], PlanSpec]
    operators: tuple[Operator, ...] = ()
    view: ViewOp | None = field(init=False)
    sends: tuple[tuple[Send, Operator], ...] = field(init=False)
    scans: tuple[ScanOp, ...] = field(init=False)
    flows: tuple[FlowOp | WindowJoinOp, ...] = field(init=False)
    tables: tuple[TableScanOp, ...] = field(init=False)
    receivers: tuple[ReceiveOp, ...] = field(init=False)
    views: tuple[ViewScanOp, ...] = field(init=False)  # those that it reads
    negations: tuple[tuple[Node, SetOpOp | SemiJoinOp], ...] = field(init=False)

    def __post_init__(self) -> None:
        kinds: tuple[tuple[str, type | UnionType], ...] = (
            ("scans", ScanOp),
            ("flows", FlowOp | WindowJoinOp),
            ("tables", TableScanOp),
            ("receivers", ReceiveOp),
            ("views", ViewScanOp),
        )
        for name, kind in kinds:
            leaves = tuple(o for o in self.operators if isinstance(o, kind))
            object.__setattr__(self, name, leaves)
        negations = [o for o in self.operators if isinstance(o, SetOpOp | SemiJoinOp)]
        object.__setattr__(self, "negations", tuple((o.spec.node, o) for o in negations))
        top = self.operators[-1] if self.operators else None
        object.__setattr__(self, "view", top if isinstance(top, ViewOp) else None)
        sends = self.spec.sends if self.operators else ()
        tops = tuple((send, self.operators[spec.at]) for send, spec in sends)
        object.__setattr__(self, "sends", tops)

    @property
    def spec(self) -> PlanSpec:
        """The specs."""
        return self.planned()


def instantiate(spec: PlanSpec, site: Site) -> Plan:
    """Build the operators of a plan, with their state in the site's scope."""
    operators: list[Operator] = []
    with ExitStack() as undo:
        for part in spec.specs:
            inputs = [operators[source.at] for source in part.inputs]
            made = _MAKERS[type(part)](part, inputs, site.scope.scope(part.scope), site)
            undo.callback(made.close)
            operators.append(made)
        undo.pop_all()
    return Plan(lambda: spec, tuple(operators))


_MAKERS: dict[type[Spec], Callable[..., Operator]] = {}

_PLAIN: dict[type[Spec], Callable[..., Operator]] = {
    ViewScanSpec: ViewScanOp,
    ReceiveSpec: ReceiveOp,
    RowsWindowSpec: RowsWindowOp,
    KeepSpec: KeepOp,
    HoldSpec: HoldOp,
    DistinctSpec: DistinctOp,
    SetOpSpec: SetOpOp,
    SemiJoinSpec: SemiJoinOp,
}
"""Operators that need their inputs and a scope."""

_COMPUTING: dict[type[Spec], Callable[..., Operator]] = {
    FilterSpec: FilterOp,
    ProjectSpec: ProjectOp,
}
"""Operators that evaluate expressions, which may read parameters."""


@case(_MAKERS, *_PLAIN)
def _plain(spec: Spec, inputs: Inputs, scope: Scope, _: Site) -> Operator:
    return _PLAIN[type(spec)](spec, *inputs, scope)


@case(_MAKERS, *_COMPUTING)
def _computing(
    spec: FilterSpec | ProjectSpec, inputs: Inputs, scope: Scope, site: Site
) -> Operator:
    (source,) = inputs
    return _COMPUTING[type(spec)](spec, source, scope, site.ctx, site.params(spec.by_query))


# ---- leaves --------------------------------------------------------------------------
@case(_MAKERS, ScanSpec)
def _scan(spec: ScanSpec, _: Inputs, scope: Scope, site: Site) -> Operator:
    return ScanOp(spec, scope, site.sources[spec.scan.stream])


@case(_MAKERS, TableScanSpec)
def _table(spec: TableScanSpec, _: Inputs, scope: Scope, site: Site) -> Operator:
    return TableScanOp(spec, scope, site.tables[spec.table.table])


@case(_MAKERS, FlowSpec, PairTotalsSpec)
def _flow(spec: FlowSpec, _: Inputs, scope: Scope, site: Site) -> Operator:
    flow = site.flows.of(spec.block.span, site.sources, spec.streams)
    own = _own_matches(spec, scope, site)
    return FlowOp(spec, scope, site.ctx, flow, site.flows, site.queries, own, site.sets)


def _own_matches(spec: FlowSpec, scope: Scope, site: Site) -> MakeOwn | None:
    """The function that builds the matches of the template's own index, if it can have one."""
    if isinstance(spec, PairTotalsSpec):
        return partial(PairTotals, spec=spec, ctx=site.ctx, flows=site.flows)
    if spec.pairs is not None:
        made = PairMatcher(spec.pairs, spec.block, site.queries, site.ctx, site.flows)
        return partial(PairMatches, matcher=made)
    if spec.index is not None:
        make = partial(_flow_index, spec.index, scope, site)
        return partial(IndexMatches, block=spec.block, make_index=make)
    return None


def _flow_index(spec: MatchSpec, scope: Scope, site: Site) -> tuple[ScanOp, MatchOp]:
    """Build the index that matches a flow's template with very many queries."""
    (source,) = spec.inputs
    assert isinstance(source, ScanSpec)
    scan = ScanOp(source, scope.scope("scan"), site.sources[source.scan.stream])
    place = scope.scope("match")
    return scan, MatchOp(spec, scan, place, site.ctx, site.queries, site.sets)


@case(_MAKERS, WindowJoinSpec)
def _window_join(spec: WindowJoinSpec, _: Inputs, scope: Scope, site: Site) -> Operator:
    logs = [site.sources[window.stream] for window in spec.windows]
    residual = site.condition(spec.residual)
    return WindowJoinOp(spec, scope, site.ctx, residual, logs, site.queries, site.flows)


# ---- one input -----------------------------------------------------------------------
@case(_MAKERS, MatchSpec)
def _match(spec: MatchSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    (source,) = inputs
    return MatchOp(spec, source, scope, site.ctx, site.queries, site.sets)


@case(_MAKERS, MatchCountSpec)
def _match_count(spec: MatchCountSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    (source,) = inputs
    return MatchCountOp(spec, source, scope, site.ctx, site.queries)


@case(_MAKERS, ExplodeSpec)
def _explode(spec: ExplodeSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    assert site.sets is not None
    (source,) = inputs
    return ExplodeOp(spec, source, scope, site.sets)


@case(_MAKERS, GroupBySpec)
def _group_by(spec: GroupBySpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    (source,) = inputs
    lineages = partial(site.queries.live, spec.edge.lineage)
    return GroupByOp(spec, source, scope, site.ctx, lineages)


@case(_MAKERS, ViewSpec)
def _view(spec: ViewSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    (source,) = inputs
    return ViewOp(spec, source, scope, site.queries, site.sets)


# ---- re-evaluation -------------------------------------------------------------------
@case(_MAKERS, HeldSpec)
def _held(spec: HeldSpec, _: Inputs, scope: Scope, site: Site) -> Operator:
    return HeldOp(spec, scope, site.held[spec.window.at])


@case(_MAKERS, ReevaluateSpec)
def _reevaluate(
    spec: ReevaluateSpec, inputs: Sequence[HoldOp], scope: Scope, site: Site
) -> Operator:
    inner = PlanSpec(spec.inner)

    def make(held: Mapping[int, Delta]) -> Sequence[Operator]:
        scratch = Arena().scope("scratch")
        return instantiate(inner, replace(site, scope=scratch, sets=None, held=held)).operators

    return ReevaluateOp(spec, inputs, scope, site.queries, make)


# ---- two inputs ----------------------------------------------------------------------
@case(_MAKERS, UnionSpec)
def _union(spec: UnionSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    return UnionOp(spec, inputs, scope)


@case(_MAKERS, NrrJoinSpec)
def _nrr_join(spec: NrrJoinSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    stream, table = inputs
    return NrrJoinOp(spec, stream, table, scope, site.ctx, site.condition(spec.residual))


@case(_MAKERS, JoinSpec)
def _join(spec: JoinSpec, inputs: Inputs, scope: Scope, site: Site) -> Operator:
    left, right = inputs
    since = partial(site.queries.since, spec.edge.lineage)
    return JoinOp(spec, left, right, scope, site.ctx, site.condition(spec.residual), since)


for module in (specs, keyed_specs, join_specs, reevaluate_specs, totals_specs):
    complete(_MAKERS, subclasses(module, Spec), "operator")
