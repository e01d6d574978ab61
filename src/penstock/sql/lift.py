"""Lift constants out of a plan; the rest is the template (DESIGN §2).

Constants that a condition compares with a column, items of an IN list and patterns of LIKE become
parameters, in plan order after the explicit ones, while there is room. Lists are filled up to a
power of two by repeating their last item, so that lists of similar length have one template;
long lists stay. A subplan that is one object in the bound
plan (a CTE or view used twice, the rows of a NOT IN) is lifted once, so its constant stays one
parameter.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.logical.expr import (
    COMPARISONS,
    Call,
    Expr,
    Literal,
    Param,
    columns_of,
    conjunction,
    conjuncts,
    params_of,
)
from penstock.logical.failing import OR_SKIP
from penstock.logical.nodes import Filter, Join, JoinKind, Node
from penstock.schema import MAX_COLUMNS
from penstock.sql.catalog import ParamSpec

_LONGEST_LIST = 16


def lift(node: Node, explicit: tuple[ParamSpec, ...] = ()) -> tuple[Node, tuple[Literal, ...]]:
    """The template of a plan and the constants taken out of it.

    Constant i is parameter ``len(explicit) + i`` of the template.
    """
    lifter = _Lifter(len(explicit))
    return lifter.node(node), tuple(lifter.literals)


class _Lifter:
    def __init__(self, first: int) -> None:
        self.first = first
        self.literals: list[Literal] = []
        self.done: dict[int, Node] = {}

    def node(self, node: Node) -> Node:
        if id(node) not in self.done:
            self.done[id(node)] = self._rebuilt(node)
        return self.done[id(node)]

    def _rebuilt(self, node: Node) -> Node:
        inputs = tuple(self.node(child) for child in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        result = node if same else node.with_inputs(*inputs)
        if isinstance(result, Filter):
            predicate = self._condition(result.predicate)
            if predicate is not result.predicate:
                result = replace(result, predicate=predicate)
        elif isinstance(result, Join) and result.kind is JoinKind.INNER:
            result = self._join(result)
        return result

    def _join(self, join: Join) -> Join:
        """An inner join with the constants lifted from what its condition asks of one side."""
        parts, width = conjuncts(join.residual), len(join.left.schema)
        lifted = [self._condition(p) if _of_one_side(p, width) else p for p in parts]
        if all(a is b for a, b in zip(parts, lifted, strict=True)):
            return join
        return replace(join, residual=conjunction(lifted))

    def _condition(self, expr: Expr) -> Expr:
        """A condition with its constants lifted, below AND, OR and NOT."""
        if not isinstance(expr, Call):
            return expr
        if expr.fn in ("and", "or", "not", OR_SKIP):
            args = tuple(self._condition(a) for a in expr.args)
            same = all(a is b for a, b in zip(args, expr.args, strict=True))
            return expr if same else replace(expr, args=args)
        if expr.fn in (*COMPARISONS, "in", "like", "ilike"):
            return self._lifted(expr)
        return expr

    def _lifted(self, expr: Call) -> Call:
        """A comparison of a value with constants, which become parameters if they can."""
        value, *constants = expr.args
        literals = [c for c in constants if isinstance(c, Literal) and c.value is not None]
        if len(literals) < len(constants) or not columns_of(value) or params_of(value):
            return expr
        if expr.fn == "in":
            size = 1 << (len(literals) - 1).bit_length()
            literals += [literals[-1]] * (size - len(literals))
        start = self.first + len(self.literals)
        if len(literals) > min(_LONGEST_LIST, MAX_COLUMNS - start):
            return expr
        self.literals += literals
        params = tuple(Param(value.type, start + i) for i in range(len(literals)))
        return replace(expr, args=(value, *params))


def _of_one_side(condition: Expr, width: int) -> bool:
    """Whether a condition of a join reads columns of one input; the left one has `width`."""
    columns = columns_of(condition)
    return bool(columns) and (max(columns) < width or min(columns) >= width)
