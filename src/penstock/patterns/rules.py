"""The update pattern of every plan edge by the five rules of Golab & Özsu 2005, §5.2.

There is one rule per node class; a class without a rule is an error when this module is imported.
The paper does not treat monotonic inputs. Here a join, distinct, intersection or semi join with
only MON inputs is MON: over [UNBOUNDED] inputs no result ever leaves. A mix of MON and expiring
rows is WK, because rows that never leave lie between rows that do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache

from penstock.dispatch import case, complete, subclasses
from penstock.logical import nodes
from penstock.logical.expr import Param
from penstock.logical.nodes import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    JoinKind,
    Node,
    Now,
    Project,
    Range,
    Received,
    Rows,
    Scan,
    SetKind,
    SetOp,
    TableScan,
    Unbounded,
    ViewScan,
    Window,
    Windowed,
)
from penstock.logical.windows import Length, window_length
from penstock.patterns.edge import Pattern

_RULES: dict[type[Node], Callable[..., Pattern]] = {}
_REMEMBERED = 4096  # by node: every node above asks for the pattern of those below


@lru_cache(_REMEMBERED)
def pattern_of(node: Node) -> Pattern:
    """The update pattern on the output edge of `node`."""
    return _RULES[type(node)](node)


def is_nrr(node: Node) -> bool:
    """Whether `node` is a non-retroactive table, perhaps filtered or projected."""
    if isinstance(node, Filter | Project):
        return is_nrr(node.input)
    return isinstance(node, TableScan) and node.nonretroactive


def is_table(node: Node) -> bool:
    """Whether `node` reads tables only."""
    if isinstance(node, TableScan):
        return True
    return bool(node.inputs) and all(is_table(child) for child in node.inputs)


def nrr_stream_side(join: Join) -> Node | None:
    """The streaming input of an inner or left join with a non-retroactive table, else None."""
    if join.kind in (JoinKind.INNER, JoinKind.LEFT) and is_nrr(join.right):
        return join.left
    if join.kind is JoinKind.INNER and is_nrr(join.left):
        return join.right
    return None


# ---- patterns, by what is known of the inputs ------------------------------------------
def window_pattern(window: Window, unwindowed: Pattern = Pattern.MON) -> Pattern:
    """The pattern of a window: WKS for time windows, STR for ROWS windows (§7).

    WK if each query has its own length, because rows then do not leave in order of arrival.
    """
    match window:
        case Range(length=Param()):
            return Pattern.WK
        case Range() | Now():
            return Pattern.WKS
        case Rows():
            return rows_pattern()
        case Unbounded():
            return unwindowed


def rows_pattern() -> Pattern:
    """A ROWS window."""
    return Pattern.STR


def relation_pattern() -> Pattern:
    """The pattern of a table or view: a statement, or the view, decides when rows leave.

    A join with a non-retroactive table ignores it.
    """
    return Pattern.STR


def group_pattern() -> Pattern:
    """Rule 4: new values replace old ones by key, for every input pattern."""
    return Pattern.WK


def weak(inputs: Collection[Pattern]) -> Pattern:
    """Rule 3 for joins and keyed operators, extended: MON if every input is MON."""
    if Pattern.STR in inputs:
        return Pattern.STR
    return Pattern.MON if set(inputs) == {Pattern.MON} else Pattern.WK


def merged(inputs: Collection[Pattern], one_span: bool) -> Pattern:
    """Rule 2, for UNION ALL; WK if window lengths differ, since the merge is not FIFO (§3.1)."""
    found = set(inputs)
    if Pattern.STR in found:
        return Pattern.STR
    if found == {Pattern.MON}:
        return Pattern.MON
    return Pattern.WKS if found == {Pattern.WKS} and one_span else Pattern.WK


def join_pattern(kind: JoinKind, inputs: Collection[Pattern], with_table: bool = False) -> Pattern:
    """Rule 3 for inner and semi joins, rule 5 with a table or an anti join.

    An outer join contains an anti join.
    """
    if with_table or kind not in (JoinKind.INNER, JoinKind.SEMI):
        return Pattern.STR
    return weak(inputs)


def set_pattern(kind: SetKind, inputs: Collection[Pattern]) -> Pattern:
    """Rule 5 for EXCEPT, rule 3 for INTERSECT and UNION without ALL."""
    return Pattern.STR if kind is SetKind.EXCEPT else weak(inputs)


# ---- nodes ---------------------------------------------------------------------------
@case(_RULES, Scan)
def _scan(node: Scan) -> Pattern:
    return window_pattern(node.window)


@case(_RULES, Windowed)
def _windowed(node: Windowed) -> Pattern:
    return window_pattern(node.window, pattern_of(node.input))


@case(_RULES, TableScan)
def _table(_node: TableScan) -> Pattern:
    return relation_pattern()


@case(_RULES, ViewScan)
def _view(_node: ViewScan) -> Pattern:
    return relation_pattern()


@case(_RULES, Received)
def _received(_node: Received) -> Pattern:
    return Pattern.STR  # the pattern of what level 1 sends is on the edge


@case(_RULES, Filter)
def _filter(node: Filter) -> Pattern:
    return pattern_of(node.input)  # rule 1


@case(_RULES, Project)
def _project(node: Project) -> Pattern:
    return pattern_of(node.input)  # rule 1


@case(_RULES, Join)
def _join(node: Join) -> Pattern:
    stream = nrr_stream_side(node)
    if stream is not None:
        return pattern_of(stream)  # rule 1
    with_table = node.kind is JoinKind.INNER and any(map(is_table, node.inputs))
    return join_pattern(node.kind, _patterns(node), with_table)


@case(_RULES, Distinct)
def _distinct(node: Distinct) -> Pattern:
    return weak(_patterns(node))


@case(_RULES, GroupBy)
def _group_by(_node: GroupBy) -> Pattern:
    return group_pattern()


@case(_RULES, SetOp)
def _set_op(node: SetOp) -> Pattern:
    if node.kind is SetKind.UNION and node.all:
        return merged(_patterns(node), _span(node) is not None)
    return set_pattern(node.kind, _patterns(node))


def _patterns(node: Node) -> list[Pattern]:
    return [pattern_of(child) for child in node.inputs]


@lru_cache(_REMEMBERED)
def _span(node: Node) -> Length | None:
    """The lifetime that all rows of a WKS edge share; None if there are several."""
    if isinstance(node, Scan | Windowed) and not isinstance(node.window, Unbounded):
        return window_length(node)
    if isinstance(node, Join):
        stream = nrr_stream_side(node)
        return None if stream is None else _span(stream)
    spans = {_span(child) for child in node.inputs}
    return spans.pop() if len(spans) == 1 else None


complete(_RULES, subclasses(nodes, Node), "update pattern rule")
