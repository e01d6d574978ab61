"""Bounds of bands in joins become parameters, so that texts that differ in them share a plan.

An index over pairs serves any number of bands (Agarwal et al. 2009, §3.1). A join of two windows
with one constant band has a plan that needs less memory. So the first bounds of a join keep such a
plan, and all later bounds share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.logical.expr import Call, Column, Expr, Literal, Param, conjunction, conjuncts
from penstock.logical.nodes import Join
from penstock.types import BIGINT, BOOLEAN, DOUBLE

MOST_BANDS = 1
"""The number of bands of a join without other conditions that get templates of their own."""


def with_params(join: Join, param: Callable[[Literal], Param | None]) -> Join | None:
    """Replace the bounds of the join's band by parameters.

    None if there are too many parameters.
    """
    band = join.band
    assert band is not None
    left = join.left.schema[band.left_column]
    right = join.right.schema[band.right_column]
    type_ = DOUBLE if left.type.is_float or right.type.is_float else BIGINT
    columns = (
        Column(right.type, len(join.left.schema) + band.right_column, right.name),
        Column(left.type, band.left_column, left.name),
    )
    value = Call(type_, "sub", columns)
    conditions: list[Expr] = []
    for fn, bound, at in zip(("ge", "le"), (band.low, band.high), band.written, strict=True):
        if bound is None:
            continue
        found = param(Literal(type_, bound, at))
        if found is None:
            return None
        conditions.append(Call(BOOLEAN, fn, (value, found)))
    asked = [*conjuncts(join.residual), *conditions]
    return replace(join, band=None, residual=conjunction(asked))
