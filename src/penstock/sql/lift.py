"""Lifting constants out of a plan: what is left is the template (DESIGN §2).

Constants that a Filter compares with a column become parameters, in the order in which the
plan is walked, after the explicit ones. A subplan that is one object in the bound plan (a CTE
or view used twice, the rows of a NOT IN) is lifted once, so its constant stays one parameter.
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
    params_of,
)
from penstock.logical.nodes import Filter, Node
from penstock.sql.catalog import ParamSpec

_LIFTED = frozenset((*COMPARISONS, "in", "like"))


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
        return result

    def _condition(self, expr: Expr) -> Expr:
        """A condition with its constants lifted, below AND, OR and NOT."""
        if not isinstance(expr, Call):
            return expr
        if expr.fn in ("and", "or", "not"):
            args = tuple(self._condition(a) for a in expr.args)
            same = all(a is b for a, b in zip(args, expr.args, strict=True))
            return expr if same else replace(expr, args=args)
        value, *constants = expr.args or (expr,)
        if expr.fn in _LIFTED and all(self._liftable(value, c) for c in constants):
            return replace(expr, args=(value, *(self._lifted(value, c) for c in constants)))
        return expr

    def _lifted(self, value: Expr, literal: Expr) -> Expr:
        assert isinstance(literal, Literal)
        self.literals.append(literal)
        return Param(value.type, self.first + len(self.literals) - 1)

    @staticmethod
    def _liftable(value: Expr, literal: Expr) -> bool:
        return (
            isinstance(literal, Literal)
            and literal.value is not None
            and bool(columns_of(value))
            and not params_of(value)
        )
