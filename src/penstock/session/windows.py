"""Window lengths: which of them become parameters, and how much history they need (DESIGN §2).

The bounds of bands (`session/bands.py`) are lifted together with the windows of their join.

In a join that runs in a flow, windows may differ by query at no cost: a SteM keeps what the longest
window needs, and each query tests the partner's age against its own length. These lengths are
constants like any other, so texts that differ in them share one template. A single window expires
first in, first out only if all its queries have one length. So the first few lengths get a template
each, and all later lengths share one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
from penstock.session.bands import MOST_BANDS, with_params
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
    def __init__(self, template: Node, first: int, plain_bands: bool = False) -> None:
        self.literals: list[Literal] = []
        self.bounds: list[int] = []
        """Indexes of the literals that bound a band that is the only condition of its join."""
        self._plain_bands = plain_bands
        self._first = first
        self._streams = frozenset(n.stream for n in walk(template) if isinstance(n, Scan))
        self._params: dict[int, Param] = {}  # by identity of the window

    def node(self, node: Node) -> Node:
        block = find_block(node, self._streams)
        if block is not None:
            return self.block(node) if _meet(block.span) else node
        if self._plain_bands and isinstance(node, Join) and node.band is not None:
            loose = self._with_loose_bands(node, plain=True)
            if loose is not node:
                return self.all_windows(loose)
        return over(node, [self.node(child) for child in node.inputs])

    def block(self, node: Node) -> Node:
        """Replace the window lengths and band bounds of a block by parameters."""
        return self.all_windows(self._with_loose_bands(node, plain=False))

    def _with_loose_bands(self, node: Node, plain: bool) -> Node:
        """Replace band bounds by parameters, if the subplan is then a block with such a band."""
        before = len(self.literals)
        loose = self._loose(node)
        block = None if loose is node else find_block(loose, self._streams)
        if block is None or block.band is None:
            del self.literals[before:]
            return node
        if plain:
            self.bounds += range(before, len(self.literals))
        return loose

    def _loose(self, node: Node) -> Node:
        if isinstance(node, Join) and node.band is not None:
            return with_params(node, self._new_param) or node
        return over(node, [self._loose(child) for child in node.inputs])

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
            param = self._new_param(Literal(BIGINT, window.length, window.at))
            if param is None:
                return None
            self._params[id(window)] = param
        return self._params[id(window)]

    def _new_param(self, literal: Literal) -> Param | None:
        index = self._first + len(self.literals)
        if index == MAX_COLUMNS:
            return None
        self.literals.append(literal)
        return Param(literal.type, index)


Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A plan with lifted constants; those at `places` of `literals` distinguish plans of their own.

    At most `most` such plans have templates of their own.
    """

    node: Node
    literals: tuple[Literal, ...]
    places: tuple[int, ...]
    most: int

    @property
    def values(self) -> Values:
        """The constants that distinguish plans with templates of their own."""
        return tuple(self.literals[at].value for at in self.places)


@dataclass(slots=True)
class _Own:
    """The constants of plans with templates of their own, and their places from the end."""

    places: tuple[int, ...]
    values: set[Values] = field(default_factory=set)


class Lengths:
    """The lengths and bounds that have templates of their own, by lifted plan.

    These are plans over one window, and joins with a band as the only condition. The collection
    starts with the templates of the registry, which has some after a restart.
    """

    def __init__(
        self, registry: Callable[[], Registry], own: dict[Node, _Own] | None = None
    ) -> None:
        self._registry = registry
        self._own = own

    def trial(self) -> Lengths:
        """A copy; asking it does not change the original."""
        known = {node: _Own(own.places, set(own.values)) for node, own in self._known().items()}
        return Lengths(self._registry, known)

    def is_own(self, template: Node, literals: tuple[Literal, ...]) -> bool:
        """Whether a query with these constants has its own template instead of the lifted one."""
        own = self._known().get(template)
        if own is None:
            return False
        return tuple(literals[at].value for at in own.places) in own.values

    def lift(self, template: Node, first: int) -> tuple[Node, tuple[Literal, ...]]:
        """Like `lift_windows`, for such a plan if enough others have templates of their own."""
        lifted = _lift_shared(template, first)
        if lifted is None:
            return template, ()
        known = self._known()
        if len(known) > _MOST_PLANS:
            known.clear()
        own = self._of(lifted)
        has_template = self._registry().find_template(lifted.node, EVERY_CHANGE)
        if len(own.values) < lifted.most and not has_template:
            own.values.add(lifted.values)
        return (template, ()) if lifted.values in own.values else (lifted.node, lifted.literals)

    def _of(self, lifted: _Lifted) -> _Own:
        places = tuple(at - len(lifted.literals) for at in lifted.places)
        return self._known().setdefault(lifted.node, _Own(places))

    def _known(self) -> dict[Node, _Own]:
        if self._own is None:
            self._own = {}
            for info in self._registry().templates.values():
                lifted = _lift_shared(info.template, len(info.params))
                if lifted is not None and info.emission == EVERY_CHANGE:
                    self._of(lifted).values.add(lifted.values)
        return self._own


def _lift_shared(template: Node, first: int) -> _Lifted | None:
    """Lift the length of a single-window plan or the band of a join; None for any other plan."""
    leaves = [node for node in walk(template) if not node.inputs]
    lifter = _Lifter(template, first, plain_bands=True)
    if len(leaves) == 1 and isinstance(leaves[0], Scan):
        node, most = lifter.all_windows(template), MOST_LENGTHS
        places = tuple(range(len(lifter.literals)))
    else:
        node, most = lifter.node(template), MOST_BANDS
        places = tuple(lifter.bounds)
    return _Lifted(node, tuple(lifter.literals), places, most) if places else None


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
