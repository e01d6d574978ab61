"""The one place that decides how rows leave every operator (docs/design/0014).

A policy holds what strategies differ in; the table holds what they share: an entry per class of
spec, from the edges of its inputs and its own. The value goes into the spec (`physical/expiry.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from penstock.dispatch import case, complete, subclasses
from penstock.logical.nodes import SetKind
from penstock.patterns.edge import Edge, Emit, Pattern
from penstock.patterns.edges import told_edge
from penstock.physical import (
    join_specs,
    keyed_specs,
    reevaluate_specs,
    specs,
    totals_specs,
)
from penstock.physical.expiry import Expiry, Kept, Signal, Store, signal_of
from penstock.physical.join_specs import JoinSpec, NrrJoinSpec, SemiJoinSpec, WindowJoinSpec
from penstock.physical.keyed_specs import DistinctSpec, GroupBySpec, SetOpSpec
from penstock.physical.reevaluate_specs import HeldSpec, HoldSpec, ReevaluateSpec
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
from penstock.physical.totals_specs import PairTotalsSpec

S = TypeVar("S", bound=Spec)


class ExpiryPolicy(Protocol):
    """The decisions in which execution strategies differ (DESIGN §5.8)."""

    @property
    def windows_tell(self) -> bool:
        """Whether every row that leaves a window is a −1 row: EXPIRE then stands above it."""

    @property
    def joins_logs(self) -> bool:
        """Whether a join of two windows finds partners in the streams' logs, by SteMs.

        If not, it keeps the rows of its inputs, as every other join does.
        """

    @property
    def reevaluates(self) -> bool:
        """Whether what is above the windows runs from scratch at every instant of change."""

    @property
    def renews(self) -> bool:
        """Whether DISTINCT keeps the last expiry of each value (δ*), not every row."""

    def tells(self, wish: Emit) -> bool:
        """Whether an operator that can say so by −1 rows says which results leave."""

    def store(self, edge: Edge) -> Store:
        """Where rows of an edge are kept until they leave."""


@dataclass(frozen=True, slots=True)
class PatternAware:
    """State follows the pattern, and the optimiser's wish is done (Golab & Özsu 2005, §5.4)."""

    windows_tell: bool = False
    joins_logs: bool = True
    renews: bool = True
    reevaluates: bool = False

    def tells(self, wish: Emit) -> bool:
        """As the optimiser wishes."""
        return wish == "explicit"

    def store(self, edge: Edge) -> Store:
        """A FIFO for rows that leave in order of arrival, a calendar for others."""
        return Store.FIFO if edge.fifo and not edge.negatives else Store.CALENDAR


PATTERN_AWARE = PatternAware()

_EXPIRIES: dict[type[Spec], Callable[..., Expiry]] = {}


def decide(spec: S, wish: Emit = "expiring", policy: ExpiryPolicy = PATTERN_AWARE) -> S:
    """`spec` with its expiry; where it tells what leaves, its edge says so."""
    expiry = _EXPIRIES[type(spec)](spec, wish, policy)
    edge = told_edge(spec.edge, spec.nets) if expiry.tells else spec.edge
    return replace(spec, edge=edge, expiry=expiry)


def _kept(policy: ExpiryPolicy, edge: Edge, otherwise: Store = Store.NONE) -> Kept:
    """Rows are kept if they leave silently; `otherwise` is what serves if they do not."""
    return Kept(signal_of(edge), policy.store(edge) if edge.expiring else otherwise)


def _emits(spec: Spec, told: bool) -> Signal:
    """How results leave that can leave in two ways."""
    return Signal.MINUS if told else Signal.EXP | signal_of(spec.edge)


# ---- leaves --------------------------------------------------------------------------
@case(_EXPIRIES, TableScanSpec, ViewScanSpec)
def _relation(spec: Spec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    return Expiry(signal_of(spec.edge))


@case(_EXPIRIES, ReceiveSpec)
def _received(spec: ReceiveSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    return Expiry(signal_of(spec.edge), recalls=False)


@case(_EXPIRIES, ScanSpec)
def _scan(spec: ScanSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """An unbounded window of one stream forgets what it read."""
    return Expiry(signal_of(spec.edge), (Kept(Signal.LOG),), recalls=spec.edge.expiring)


@case(_EXPIRIES, FlowSpec)
def _flow(spec: FlowSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    joins = len(spec.block.scans) > 1
    kept = Kept(Signal.LOG, Store.STEM if joins else Store.NONE)
    return Expiry(signal_of(spec.edge), (kept,), recalls=joins or spec.edge.expiring)


@case(_EXPIRIES, PairTotalsSpec)
def _pair_totals(spec: PairTotalsSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Changes of totals do not leave; the operator reads the logs again."""
    return Expiry(Signal.NONE, (Kept(Signal.LOG, Store.STEM),), recalls=False)


@case(_EXPIRIES, WindowJoinSpec)
def _window_join(spec: WindowJoinSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    told = policy.tells(wish) and spec.residual is None and spec.edge.expiring
    found = Store.STEM if spec.windows[0].columns else Store.LOG
    return Expiry(_emits(spec, told), (Kept(Signal.LOG, found),))


# ---- one input -----------------------------------------------------------------------
@case(_EXPIRIES, FilterSpec, ProjectSpec, MatchSpec, ExplodeSpec, UnionSpec)
def _passing(spec: Spec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    kept = tuple(Kept(signal_of(source.edge)) for source in spec.inputs)
    return Expiry(signal_of(spec.edge), kept, recalls=_all_recall(spec))


def _all_recall(spec: Spec) -> bool:
    return all(source.expiry.recalls for source in spec.inputs)


@case(_EXPIRIES, RowsWindowSpec)
def _rows_window(spec: RowsWindowSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    queues = Store.QUEUES if spec.window.partition else Store.FIFO
    return Expiry(Signal.MINUS, (Kept(Signal.NONE, queues),))


@case(_EXPIRIES, MatchCountSpec)
def _match_count(spec: MatchCountSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    return Expiry(Signal.MINUS, (_kept(policy, spec.inputs[0].edge),), Store.ARRAY)


@case(_EXPIRIES, KeepSpec)
def _keep(spec: KeepSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Keep all rows, whether they leave or not; one that tells is EXPIRE."""
    edge = spec.inputs[0].edge
    kept = Kept(signal_of(edge), policy.store(edge))
    return Expiry(_emits(spec, policy.tells(wish)), (kept,))


@case(_EXPIRIES, HoldSpec)
def _hold(spec: HoldSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Keep all rows in order of arrival: the whole window is read each time."""
    return Expiry(signal_of(spec.edge), (Kept(signal_of(spec.edge), Store.LIST),))


@case(_EXPIRIES, HeldSpec)
def _held(spec: HeldSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    return Expiry(signal_of(spec.edge))


@case(_EXPIRIES, ReevaluateSpec)
def _reevaluate(spec: ReevaluateSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    kept = tuple(Kept(signal_of(source.edge)) for source in spec.inputs)
    return Expiry(Signal.MINUS, kept, Store.ARRAY)


@case(_EXPIRIES, ViewSpec)
def _view(spec: ViewSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Keep rows that leave silently, and rows that operators below do not keep."""
    (source,) = spec.inputs
    forgotten = spec.edge.pattern is not Pattern.MON and not source.expiry.recalls
    otherwise = policy.store(spec.edge) if forgotten else Store.NONE
    return Expiry(signal_of(spec.edge), (_kept(policy, spec.edge, otherwise),))


@case(_EXPIRIES, DistinctSpec)
def _distinct(spec: DistinctSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """δ counts the rows of each value; δ* has one entry of the calendar per value."""
    edge = spec.inputs[0].edge
    counts = edge.negatives or (edge.expiring and not policy.renews)
    told = policy.tells(wish) or counts or not edge.expiring
    star = Kept(signal_of(edge), Store.CALENDAR)
    kept = _kept(policy, edge, Store.COUNTS) if counts else star
    return Expiry(_emits(spec, told), (kept,), Store.HASH)


@case(_EXPIRIES, GroupBySpec)
def _group_by(spec: GroupBySpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    return Expiry(Signal.MINUS, (_kept(policy, spec.inputs[0].edge),), Store.GROUPS)


# ---- two inputs ----------------------------------------------------------------------
@case(_EXPIRIES, SetOpSpec)
def _set_op(spec: SetOpSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Only EXCEPT ALL shows rows of its left input, with their own expiry."""
    own = spec.kind is SetKind.EXCEPT and spec.all and spec.inputs[0].edge.expiring
    return _counting(spec, policy.tells(wish) or not own, policy)


@case(_EXPIRIES, SemiJoinSpec)
def _semi_join(spec: SemiJoinSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    own = spec.inputs[0].edge.expiring
    return _counting(spec, policy.tells(wish) or not own, policy)


def _counting(spec: Spec, told: bool, policy: ExpiryPolicy) -> Expiry:
    kept = tuple(_kept(policy, source.edge, Store.COUNTS) for source in spec.inputs)
    return Expiry(_emits(spec, told), kept, Store.HASH)


@case(_EXPIRIES, JoinSpec)
def _join(spec: JoinSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Tell which results leave if the rows of both logs leave in order (0005)."""
    sides = [source.edge for source in spec.inputs]
    stores = {policy.store(edge) for edge in sides}
    in_order = all(edge.fifo or not edge.expiring for edge in sides) and Store.LIST not in stores
    can_tell = in_order and spec.residual is None and spec.edge.expiring
    store = stores.pop() if stores in ({Store.FIFO}, {Store.LIST}) else Store.HASH
    kept = tuple(Kept(signal_of(edge), store) for edge in sides)
    return Expiry(_emits(spec, can_tell and policy.tells(wish)), kept)


@case(_EXPIRIES, NrrJoinSpec)
def _nrr_join(spec: NrrJoinSpec, wish: Emit, policy: ExpiryPolicy) -> Expiry:
    """Remember what a row joined only if the row may be retracted."""
    stream, table = (signal_of(source.edge) for source in spec.inputs)
    joined = Store.HASH if Signal.MINUS in stream else Store.NONE
    kept = Kept(stream, joined), Kept(table, Store.HASH)
    return Expiry(signal_of(spec.edge), kept, recalls=_all_recall(spec))


for module in (specs, keyed_specs, join_specs, reevaluate_specs, totals_specs):
    complete(_EXPIRIES, subclasses(module, Spec), "expiry")
