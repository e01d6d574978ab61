"""Splits a conjunct into alternatives, each an AND of terms that an index of queries can look up.

This is the disjunctive counterpart of CACQ's clauses (§3.2.7). There a row visits every filter and
collects the satisfied terms; an index of a million queries is faster if it is probed once per
alternative. A part that is not a term is left out of its alternative. The alternative is then
`partial`: it accepts too much.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from penstock.logical.expr import Call, Expr, Literal, Param, columns_of, walk
from penstock.logical.failing import can_fail
from penstock.logical.truth import push_down_not
from penstock.predicates.clauses import (
    Term,
    attribute_of,
    clause_of,
    disjuncts,
    either,
)
from penstock.predicates.leaves import is_logic

MOST_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class Alternative:
    """Terms that must hold together; `partial` if further conditions must hold as well."""

    terms: tuple[Term, ...]
    partial: bool = False

    def __and__(self, other: Alternative) -> Alternative:
        return Alternative(self.terms + other.terms, self.partial or other.partial)


def alternatives_of(conjunct: Expr) -> list[Alternative]:
    """The alternatives; one of them must hold. Empty if an index is of no use."""
    found = _alternatives(push_down_not(conjunct))
    if len(found) > MOST_ALTERNATIVES or not all(a.terms for a in found):
        return []
    values = {term.value for a in found for term in a.terms}
    only_term = len(found) == 1 and len(values) == 1 and not found[0].partial
    # The index computes a value for all rows, so a value that the conjunct may not need must not
    # fail.
    return found if only_term or not any(map(can_fail, values)) else []


def _alternatives(expr: Expr) -> list[Alternative]:
    if isinstance(expr, Call) and expr.fn == "or":
        return _any(disjuncts(expr))
    attribute = attribute_of(expr)
    if attribute is not None:
        return [Alternative((Term(attribute, expr),))]
    if isinstance(expr, Call) and expr.fn == "and":
        return _all(expr.args)
    return [Alternative((), partial=True)]


def _any(parts: list[Expr]) -> list[Alternative]:
    """The alternatives of all parts; parts on one attribute, or on parameters only, form one."""
    simple = [p for p in parts if not columns_of(p) or attribute_of(p) is not None]
    rest = [p for p in parts if p not in simple]
    found = [a for part in rest for a in _alternatives(part)]
    if simple:
        terms = clause_of(either(simple))
        found += [Alternative((t,)) for t in terms] if terms else [Alternative((), True)]
    return found


def _all(parts: tuple[Expr, ...]) -> list[Alternative]:
    found = [Alternative(())]
    for part in parts:
        found = [a & b for a in found for b in _alternatives(part)][: MOST_ALTERNATIVES + 1]
    return found


def refined(alternatives: list[Alternative]) -> list[Alternative]:
    """Split terms with single values from the rest of what they accept: NULL, or everything.

    Then ``k = $p OR k IS NULL`` and ``k = $p OR $p IS NULL`` can be looked up by single values.
    """
    return [
        Alternative(terms, alternative.partial)
        for alternative in alternatives
        for terms in product(*map(_refined, alternative.terms))
    ]


def _refined(term: Term) -> list[Term]:
    points: list[Expr] = []
    others: list[Expr] = []
    for part in disjuncts(term.condition):
        (points if takes_points(part) else others).append(part)
    if not points or not others or not all(map(_ignores_values, others)):
        return [term]
    return [Term(term.attribute, either(parts)) for parts in (points, others)]


def _ignores_values(condition: Expr) -> bool:
    """Whether the condition reads of the row at most whether the value is NULL."""
    if isinstance(condition, Call) and is_logic(condition):
        return all(map(_ignores_values, condition.args))
    null_test = isinstance(condition, Call) and condition.fn in ("is_null", "is_not_null")
    return null_test or not columns_of(condition)


# ---- what kind of intervals a term has -------------------------------------------------
def takes_points(condition: Expr) -> bool:
    """Whether all intervals of the condition are single values, for all parameters."""
    if isinstance(condition, Call) and condition.fn == "or":
        return all(takes_points(a) for a in condition.args)
    if isinstance(condition, Call) and condition.fn == "and":
        return any(takes_points(a) for a in condition.args)
    if isinstance(condition, Call) and is_logic(condition) and condition.fn == "coalesce":
        return takes_points(condition.args[0])
    listed = isinstance(condition, Call) and condition.fn in ("eq", "in")
    return listed and bool(columns_of(condition)) and has_plain_constants(condition)


def takes_null(condition: Expr) -> bool:
    """Whether the condition may accept a row with NULL as the value."""
    if isinstance(condition, Call) and columns_of(condition):
        if is_logic(condition):
            return condition.fn == "coalesce" or any(map(takes_null, condition.args))
        return condition.fn in ("is_null", "is_not_null") or not has_plain_constants(condition)
    return not columns_of(condition)


def has_plain_constants(condition: Expr) -> bool:
    """Whether its leaves compare with given constants; computed ones could fail."""
    if isinstance(condition, Call) and is_logic(condition):
        return all(map(has_plain_constants, condition.args))
    if isinstance(condition, Call):
        return all(isinstance(a, Literal | Param) or bool(columns_of(a)) for a in condition.args)
    return True


def width_of(term: Term) -> int:
    """The largest number of intervals of a term, including NULL."""
    constants = sum(isinstance(e, Literal | Param) for e in walk(term.condition))
    points = takes_points(term.condition)
    return constants if points else constants + 1 + takes_null(term.condition)
