"""Join nodes: from a FROM tree with conditions to `Join`, with keys as columns.

The output columns are the left side's, then the right side's (only the left side's for SEMI
and ANTI), also if computed keys are added inside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import Place, UnsupportedError
from penstock.logical.expr import Column, Expr, columns_of, conjunction, params_of, remap
from penstock.logical.nodes import Filter, Join, JoinKind, Node, Project, TableScan
from penstock.logical.on_error import KEY
from penstock.sql.complain import NRR
from penstock.sql.join_conditions import is_for_pairs, split
from penstock.sql.projections import columns, outputs

ONE_SIDED = (JoinKind.SEMI, JoinKind.ANTI)


@dataclass
class Leaf:
    """One relation of FROM."""

    node: Node

    @property
    def width(self) -> int:
        """How many columns it yields."""
        return len(self.node.schema)


@dataclass
class Tree:
    """A join of FROM; conditions are over left + right columns and may still be added."""

    left: Leaf | Tree
    right: Leaf | Tree
    kind: JoinKind
    conditions: list[Expr] = field(default_factory=list)
    place: Place | None = None

    @property
    def width(self) -> int:
        """How many columns it yields."""
        return self.left.width + (0 if self.kind in ONE_SIDED else self.right.width)


From = Leaf | Tree


def absorb(tree: From, condition: Expr) -> bool:
    """Move a WHERE conjunct over two relations into the join condition, if that is equivalent.

    Conjuncts with parameters stay in WHERE, where they are matched with queries. Conjuncts that
    can fail stay there too, guarded by all others, if the join has another key.
    """
    if isinstance(tree, Leaf) or params_of(condition):
        return False
    columns, width = columns_of(condition), tree.left.width
    if not columns:
        return False
    kind = tree.kind
    if max(columns) < width:
        return kind not in (JoinKind.RIGHT, JoinKind.FULL) and absorb(tree.left, condition)
    if min(columns) >= width:
        moved = remap(condition, lambda i: i - width)
        return kind in (JoinKind.INNER, JoinKind.RIGHT) and absorb(tree.right, moved)
    if kind is JoinKind.INNER and not is_for_pairs(condition, tree.conditions, width):
        tree.conditions.append(condition)
        return True
    return False


def build(tree: From) -> Node:
    """The plan of a FROM tree."""
    if isinstance(tree, Leaf):
        return tree.node
    return join(build(tree.left), build(tree.right), tree.kind, tree.conditions, tree.place)


def join(
    left: Node, right: Node, kind: JoinKind, conditions: list[Expr], place: Place | None
) -> Node:
    """A join of two relations; an NRR is put on the right."""
    if is_nrr(left):
        if is_nrr(right) or kind not in (JoinKind.INNER, JoinKind.RIGHT):
            raise nrr_refusal(left, place)
        return _mirrored(left, right, kind, conditions)
    if is_nrr(right) and kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise nrr_refusal(right, place)
    return _join(left, right, kind, conditions)


def is_nrr(node: Node) -> bool:
    """Whether `node` is a non-retroactive table."""
    return isinstance(node, TableScan) and node.nonretroactive


def nrr_refusal(node: Node, place: Place | None) -> UnsupportedError:
    """The error for a non-retroactive table in the wrong position."""
    name = getattr(node, "table", "")
    return UnsupportedError(
        f"the NONRETROACTIVE table {name} can only be joined to the right of a stream",
        code=NRR, place=place,
        remedy=f"write stream JOIN {name} ON …, or declare the table without NONRETROACTIVE",
    )  # fmt: skip


def _mirrored(left: Node, right: Node, kind: JoinKind, conditions: list[Expr]) -> Node:
    """The same join with the sides exchanged, columns in the original order."""
    wide, other = len(left.schema), len(right.schema)
    moved = [remap(c, lambda i: i + other if i < wide else i - wide) for c in conditions]
    turned = JoinKind.LEFT if kind is JoinKind.RIGHT else kind
    node = _join(right, left, turned, moved)
    return columns(node, [*range(other, other + wide), *range(other)])


def _join(left: Node, right: Node, kind: JoinKind, conditions: list[Expr]) -> Node:
    above: list[Expr] = []
    width, right_width = len(left.schema), len(right.schema)
    if kind is JoinKind.INNER:  # parameters are matched above the join, and guard what can fail
        above = [c for c in conditions if params_of(c) or is_for_pairs(c, conditions, width)]
        conditions = [c for c in conditions if c not in above]
    parts = split(conditions, width, fixed_right=is_nrr(right))
    keyed_left, left_keys = _with_keys(left, [k for k, _ in parts.equi])
    keyed_right, right_keys = _with_keys(right, [k for _, k in parts.equi])
    added = len(keyed_left.schema) - width
    residual = conjunction(parts.residual)
    if residual is not None and added:
        residual = remap(residual, lambda i: i if i < width else i + added)
    pairs = tuple(zip(left_keys, right_keys, strict=True))
    node: Node = Join(keyed_left, keyed_right, kind, pairs, parts.band, residual)
    kept = list(range(width))
    if kind not in ONE_SIDED:
        kept += range(width + added, width + added + right_width)
    if len(kept) != len(node.schema):
        node = columns(node, kept)
    condition = conjunction(above)
    return Filter(node, condition) if condition is not None else node


def _with_keys(node: Node, keys: list[Expr]) -> tuple[Node, list[int]]:
    """`node` with a column for every key, and where the keys are."""
    computed = list(dict.fromkeys(k for k in keys if not isinstance(k, Column)))
    width = len(node.schema)
    indices = [k.index if isinstance(k, Column) else width + computed.index(k) for k in keys]
    if not computed:
        return node, indices
    exprs = (*outputs(node), *computed)
    names = (*node.schema.names, *(f"{KEY}{i}" for i in range(len(computed))))
    return Project(node, exprs, names), indices
