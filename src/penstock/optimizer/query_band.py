"""A band with bounds that differ by query (Agarwal et al. 2009, §3.1).

``s.b - r.b BETWEEN $lo AND $hi`` bounds the difference of two columns of different aliases.
Conditions that bound the same difference form one band; other conditions are not part of it.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.frozen import record
from penstock.logical.difference import MIRRORED, Difference, differences_of
from penstock.logical.expr import Call, Column, Expr, Literal, columns_of, params_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE


@record
class QueryBand:
    """Conditions on `minuend` − `subtrahend`, two columns given by number.

    Each condition compares `value` with an expression of parameters. `asked` says the same in the
    words of the query: what fails there has a bound that cannot be computed.
    """

    minuend: int
    subtrahend: int
    is_float: bool
    conditions: tuple[Expr, ...]
    asked: tuple[Expr, ...]

    @property
    def value(self) -> Expr:
        """The difference as it occurs in the conditions."""
        return difference_value(self.is_float)


def difference_value(is_float: bool) -> Call:
    """Column 0 minus column 1."""
    type_ = DOUBLE if is_float else BIGINT
    return Call(type_, "sub", (Column(type_, 0), Column(type_, 1)))


def find_band(
    predicates: list[Expr], alias: Callable[[int], int]
) -> tuple[QueryBand | None, list[Expr]]:
    """The band among some conjuncts, and the conjuncts that are not part of it.

    `alias` maps a column to its alias.
    """
    bounds = [_across(predicate, alias) for predicate in predicates]
    first = next((d for d in bounds if d and any(params_of(one.bound) for one in d)), None)
    if first is None:
        return None, predicates
    plus, minus = first[0].minuend, first[0].subtrahend
    is_float = plus.type.is_float or minus.type.is_float
    conditions, asked, rest = list[Expr](), list[Expr](), list[Expr]()
    for predicate, found in zip(predicates, bounds, strict=True):
        turned = [_turned(d, plus.index, minus.index, is_float) for d in found or ()]
        if turned and None not in turned:
            conditions += [c for c in turned if c is not None]
            asked.append(predicate)
        else:
            rest.append(predicate)
    found_band = QueryBand(plus.index, minus.index, is_float, tuple(conditions), tuple(asked))
    return found_band, rest


def _across(predicate: Expr, alias: Callable[[int], int]) -> list[Difference] | None:
    """The bounds of a difference of two aliases; None if the conjunct is anything else."""
    if len({alias(column) for column in columns_of(predicate)}) != 2:
        return None
    found = differences_of(predicate)
    if found is None or any(alias(d.minuend.index) == alias(d.subtrahend.index) for d in found):
        return None
    return found


def _turned(found: Difference, plus: int, minus: int, is_float: bool) -> Expr | None:
    """The bound as a condition on the band's difference; None if it bounds another one."""
    fn, bound = found.fn, found.bound
    columns = found.minuend.index, found.subtrahend.index
    if columns == (minus, plus) and not is_float:  # NaN stays largest when negated
        fn, bound = MIRRORED[fn], _negative(bound)
    elif columns != (plus, minus):
        return None
    return Call(BOOLEAN, fn, (difference_value(is_float), bound))


def _negative(bound: Expr) -> Expr:
    if isinstance(bound, Literal) and isinstance(bound.value, int):
        return Literal(bound.type, -bound.value)
    if isinstance(bound, Call) and bound.fn == "neg":
        return bound.args[0]
    return Call(bound.type, "neg", (bound,))
