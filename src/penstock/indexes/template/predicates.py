"""The predicates of a template, sorted by how rows are matched with its queries.

Comparisons of a value with a parameter are *simple*: the compiled scan and the template's index
decide them. Conjuncts with alternatives of terms are indexed too; they are evaluated only on pairs
with queries for which the index is not exact. All other conjuncts are evaluated on the remaining
pairs.
"""

from __future__ import annotations

from functools import cached_property
from itertools import product

import numpy as np

from penstock.arrays import I64
from penstock.indexes.template.entries import fits
from penstock.logical.expr import COMPARISONS, Call, Expr, Param, conjunction, params_of
from penstock.predicates.alternatives import (
    MOST_ALTERNATIVES,
    Alternative,
    alternatives_of,
    has_plain_constants,
    refined,
)
from penstock.predicates.clauses import Attribute, Term


def is_simple(part: Expr) -> bool:
    """Whether `part` is ``value <comparison> parameter`` as the compiled scan takes it."""
    if not (isinstance(part, Call) and part.fn in COMPARISONS):
        return False
    value, param = part.args
    comparable = not value.type.is_string or part.fn in ("eq", "ne")
    return isinstance(param, Param) and not params_of(value) and comparable


class TemplatePredicates:
    """The conjuncts with parameters that the queries of one template share.

    For `counting`, fewer alternatives are better than alternatives with faster look-up.
    """

    def __init__(self, conjuncts: list[Expr], counting: bool = False) -> None:
        self.conjuncts = conjuncts
        self._simple = [c for c in conjuncts if isinstance(c, Call) and is_simple(c)]
        self._indexed: dict[Expr, list[Alternative]] = {}
        others = {c: alternatives_of(c) for c in conjuncts if not is_simple(c)}
        ways = 1
        for conjunct, some in sorted(others.items(), key=lambda item: len(item[1])):
            if some and ways * len(some) <= MOST_ALTERNATIVES:
                ways *= len(some)
                self._indexed[conjunct] = some
        for conjunct, some in [] if counting else list(self._indexed.items()):
            more = refined(some)
            if ways // len(some) * len(more) <= MOST_ALTERNATIVES:
                ways = ways // len(some) * len(more)
                self._indexed[conjunct] = more
        partial = [c for c, some in self._indexed.items() if any(a.partial for a in some)]
        self.verified = conjunction([c for c in self._indexed if c not in partial])
        """Evaluated for queries for which the index is not exact."""
        called = [c for c in others if c not in self._indexed or c in partial]
        self.called = conjunction(called)
        """Evaluated on the pairs that the index finds."""
        self.scanned = conjunction(list(others))
        """Evaluated on the pairs that the compiled scan finds."""

    @cached_property
    def simple_attributes(self) -> tuple[Attribute, ...]:
        """The values that the compiled scan compares."""
        return tuple(dict.fromkeys(Attribute(c.args[0]) for c in self._simple))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The values that the index reads; those of the scan come first."""
        terms = [t.attribute for some in self.alternatives for t in some]
        return tuple(dict.fromkeys([*self.simple_attributes, *terms]))

    @cached_property
    def alternatives(self) -> tuple[tuple[Term, ...], ...]:
        """The terms beside the simple conjuncts, one tuple per alternative."""
        chosen = product(*self._indexed.values())
        return tuple(tuple(t for alternative in way for t in alternative.terms) for way in chosen)

    @cached_property
    def preds(self) -> I64:
        """The simple conjuncts as rows (operator, is_float, parameter, attribute)."""
        rows = [
            (
                COMPARISONS.index(c.fn),
                c.args[0].type.is_float,
                c.args[1].index,
                self.simple_attributes.index(Attribute(c.args[0])),
            )
            for c in self._simple
            if isinstance(c.args[1], Param)
        ]
        return np.array(rows, np.int64).reshape(len(rows), 4)

    @property
    def always_sure(self) -> bool:
        """Whether the index alone decides, for all parameters."""
        terms = [t for some in self.alternatives for t in some]
        exact = all(not t.attribute.by_text and has_plain_constants(t.condition) for t in terms)
        return self.called is None and exact and all(map(fits, self.alternatives))
