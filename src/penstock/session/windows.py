"""Window lengths: which of them become parameters, and how much history they need (DESIGN §2).

In a join that runs in a flow, windows may differ by query at no cost: a SteM keeps what the longest
window needs, and each query tests the partner's age against its own length. These lengths are
constants like any other, so texts that differ in them share one template. A single window expires
first in, first out only if all its queries have one length. So the first few lengths get a template
each, and all later lengths share one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.arrays import I64
from penstock.delta import EVERY_CHANGE
from penstock.logical.expr import Literal, Param
from penstock.logical.nodes import Join, Node, Range, Rows, Scan, Unbounded, Windowed, walk
from penstock.logical.windows import Length
from penstock.optimizer.flow_block import find_block
from penstock.optimizer.rewrite import over
from penstock.optimizer.span import Span
from penstock.queries.registry import Registry
from penstock.schema import MAX_COLUMNS
from penstock.types import BIGINT

MOST_LENGTHS = 8
"""The number of lengths of a single window that get templates of their own."""
_MOST_PLANS = 10_000


def lift_windows(template: Node, first: int) -> tuple[Node, tuple[Literal, ...]]:
    """Replace the lengths of such windows by parameters, numbered from `first` on.

    Also return them.
    """
    if not any(isinstance(node, Join) for node in walk(template)):
        return template, ()
    lifter = _Lifter(template, first)
    return lifter.node(template), tuple(lifter.literals)


class _Lifter:
    def __init__(self, template: Node, first: int) -> None:
        self.literals: list[Literal] = []
        self._first = first
        self._streams = frozenset(n.stream for n in walk(template) if isinstance(n, Scan))
        self._params: dict[int, Param] = {}  # by identity of the window

    def node(self, node: Node) -> Node:
        block = find_block(node, self._streams)
        if block is not None:
            return self.all_windows(node) if _meet(block.span) else node
        return over(node, [self.node(child) for child in node.inputs])

    def all_windows(self, node: Node) -> Node:
        """Replace the lengths of all windows of a subplan by parameters."""
        if not isinstance(node, Scan):
            return over(node, [self.all_windows(child) for child in node.inputs])
        if not isinstance(node.window, Range) or (param := self._param(node.window)) is None:
            return node
        window = Range(param, micros=node.window.micros)
        return Scan(node.stream, node.stream_schema, window, node.columns)

    def _param(self, window: Range) -> Param | None:
        """The parameter of a window in the text: the same one for each use of a CTE or view."""
        if isinstance(window.length, Param) or window.slide:
            return None
        if id(window) not in self._params:
            index = self._first + len(self.literals)
            if index == MAX_COLUMNS:
                return None
            self._params[id(window)] = Param(BIGINT, index)
            self.literals.append(Literal(BIGINT, window.length, window.at))
        return self._params[id(window)]


class Lengths:
    """The lengths in single-window plans that have templates of their own, by lifted template.

    It starts with the templates of the registry, which has some after a restart.
    """

    def __init__(
        self, registry: Callable[[], Registry], own: dict[Node, set[int]] | None = None
    ) -> None:
        self._registry = registry
        self._own = own

    def trial(self) -> Lengths:
        """A copy; asking it does not change the original."""
        known = {lifted: set(lengths) for lifted, lengths in self._known().items()}
        return Lengths(self._registry, known)

    def is_own(self, template: Node, literals: tuple[Literal, ...]) -> bool:
        """Whether a query with these constants has its own template instead of the lifted one."""
        own = self._known().get(template)
        return own is not None and literals[-1].value in own

    def lift(self, template: Node, first: int) -> tuple[Node, tuple[Literal, ...]]:
        """Like `lift_windows`, for a single-window plan that already has many lengths."""
        lifted = _lift_alone(template, first)
        if lifted is None:
            return template, ()
        known = self._known()
        if len(known) > _MOST_PLANS:
            known.clear()
        node, literal, length = lifted
        own = known.setdefault(node, set())
        if len(own) < MOST_LENGTHS and not self._registry().find_template(node, EVERY_CHANGE):
            own.add(length)
        return (template, ()) if length in own else (node, (literal,))

    def _known(self) -> dict[Node, set[int]]:
        if self._own is None:
            self._own = {}
            for info in self._registry().templates.values():
                lifted = _lift_alone(info.template, len(info.params))
                if lifted is not None and info.emission == EVERY_CHANGE:
                    self._own.setdefault(lifted[0], set()).add(lifted[2])
        return self._own


def _lift_alone(template: Node, first: int) -> tuple[Node, Literal, int] | None:
    """Lift the length of a single-window plan; None for any other plan."""
    leaves = [node for node in walk(template) if not node.inputs]
    if len(leaves) != 1 or not isinstance(leaves[0], Scan):
        return None
    lifter = _Lifter(template, first)
    lifted = lifter.all_windows(template)
    length = lifter.literals[0].value if lifter.literals else None
    return (lifted, lifter.literals[0], length) if isinstance(length, int) else None


def _meet(span: Span) -> bool:
    """Whether matching rows are on one shard, the one of their flow: they join by one key."""
    everyone = set(range(len(span)))
    by_key = any({alias for alias, _ in places} == everyone for places in span.classes)
    return len(span) == 2 or (len(span) > 2 and by_key)


# ---- what they ask of the past -------------------------------------------------------
def lengths_of(template: Node) -> tuple[Length, ...] | None:
    """The lengths of all time windows; None if some window is not bounded in time."""
    found: list[Length] = []
    for node in walk(template):
        window = node.window if isinstance(node, Scan | Windowed) else None
        if isinstance(window, Rows | Unbounded):
            return None
        if isinstance(window, Range):
            found.append(_past(window))
    return tuple(found)


def _past(window: Range) -> Length:
    """How far back a window may reach."""
    return window.length if isinstance(window.length, Param) else window.length + window.slide


def longest(lengths: Sequence[Length], params: I64) -> I64:
    """The longest window of each query; `params` are rows of Q, column-major, NULL word first."""
    out = np.zeros(params.shape[1], np.int64)
    for length in lengths:
        own = params[1 + length.index] if isinstance(length, Param) else length
        np.maximum(out, own, out=out)
    return out


def history_needs(template: Node, params: I64) -> dict[str, int | None]:
    """How much of each stream's past a query with history needs; None means all."""
    needs: dict[str, int | None] = {}
    for node in walk(template):
        if not isinstance(node, Scan):
            continue
        need: int | None = None
        if isinstance(node.window, Range):
            need = int(longest((_past(node.window),), params).max(initial=0))
        elif not isinstance(node.window, Rows | Unbounded):
            need = 1
        known = needs.get(node.stream, 0)
        needs[node.stream] = None if need is None or known is None else max(need, known)
    return needs
