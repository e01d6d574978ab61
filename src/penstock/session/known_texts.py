"""Known texts: a SELECT that differs from an earlier one in constants only is not parsed again.

It is known by its tokens without numbers and strings. What the full way through parser and
binder found is kept with it: the plan, its template, and which of the numbers and strings are
parameters of it and nothing else (`Literal.at`). Those may be others, as long as they take the
same types; all the rest must be the same: long lists, what is selected, lengths that are not
lifted. What names meant when the text was bound, they must mean now. In any doubt a text goes the
full way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import Token, TokenType

from penstock.delta import Emission
from penstock.errors import TypeError_
from penstock.logical.expr import Expr, Literal, Written, transform, walk
from penstock.logical.nodes import Filter, Join, Node, Range, Scan, Windowed, exprs_of
from penstock.logical.nodes import walk as walk_nodes
from penstock.logical.on_error import OnError
from penstock.logical.udf import Udf
from penstock.optimizer.rewrite import bottom_up
from penstock.roomy import roomy
from penstock.session.compile import Compiled, compile_query
from penstock.session.windows import Lengths
from penstock.sql.body import Body, Reads
from penstock.sql.catalog import Catalog, Relation
from penstock.sql.literals import convert, negated, number
from penstock.sql.statements import Select
from penstock.sql.units import LONGEST, whole
from penstock.types import BIGINT, DOUBLE, STRING, SqlType

_MOST_TEXTS = 10_000
Key = tuple[object, ...]
"""A skeleton and the clauses that follow a SELECT."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A SELECT ready to be registered."""

    compiled: Compiled
    history: bool
    emission: Emission


@dataclass(frozen=True, slots=True)
class _Slot:
    """A parameter: which of the masked tokens gives it, and as what."""

    token: int
    negated: bool
    type: SqlType
    unit: int

    def value(self, token: Token) -> Literal | None:
        """The parameter that a token means; None if it would make another template, or none."""
        if self.unit:
            return _length(token, self.unit)
        literal: Literal | None = _literal(token)
        if literal is not None and self.negated:
            literal = negated(literal)
        return None if literal is None else convert(literal, self.type)


@dataclass(slots=True)
class _Lookups:
    """A catalog that remembers what it was asked."""

    catalog: Catalog
    relations: dict[str, Relation | None] = field(default_factory=dict)
    udfs: dict[str, Udf | None] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return self.catalog.names

    def relation(self, name: str) -> Relation | None:
        self.relations[name] = self.catalog.relation(name)
        return self.relations[name]

    def udf(self, name: str) -> Udf | None:
        self.udfs[name] = self.catalog.udf(name)
        return self.udfs[name]

    def hold(self, catalog: Catalog) -> bool:
        """Whether the names still mean what they did."""
        return all(catalog.relation(n) is found for n, found in self.relations.items()) and all(
            catalog.udf(n) is found for n, found in self.udfs.items()
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """The result for a known text; literals that have a slot may differ in another text."""

    prepared: Prepared
    node: Node
    slots: tuple[_Slot | None, ...]
    lookups: _Lookups
    reads: Reads

    def literals(self, masked: list[Token]) -> tuple[Literal, ...] | None:
        """The constants of another text; None if it would not be one of this template."""
        found: list[Literal] = []
        for slot, literal in zip(self.slots, self.prepared.compiled.literals, strict=True):
            value = literal if slot is None else slot.value(masked[slot.token])
            if value is None:
                return None
            found.append(value)
        return tuple(found)

    def filled(self, literals: tuple[Literal, ...]) -> Prepared:
        """The same with other constants."""
        return replace(self.prepared, compiled=replace(self.prepared.compiled, literals=literals))

    def named(self, prepared: Prepared) -> Node:
        """The plan that stands for such a text where its name is used."""
        if prepared is self.prepared:
            return self.node
        pairs = zip(self.prepared.compiled.literals, prepared.compiled.literals, strict=True)
        return _with_values(self.node, {(id(a.at), a.type): b for a, b in pairs if a.at})


class KnownTexts:
    """Texts by skeleton, then by the masked tokens that must be the same."""

    def __init__(self, lengths: Lengths | None = None) -> None:
        self._lengths = lengths
        self._known: dict[Key, dict[tuple[int, ...], dict[tuple[str, ...], _Known]]] = {}
        self._count = 0

    def recognise(self, select: Select, on_error: OnError | None = None) -> bool:
        """Whether a SELECT parses as an earlier one did; it then has what that one reads.

        `on_error` is the setting if the text has none.
        """
        body = select.body
        for known in self._like(body, _key(select, select.on_error or on_error)):
            if known.literals(body.masked) is not None:
                body.is_like(known.reads)
                return True
        return False

    @roomy
    def prepare(self, select: Select, catalog: Catalog) -> Prepared:
        """A SELECT ready to be registered."""
        return self._find(select, catalog)[1]

    @roomy
    def define(self, select: Select, catalog: Catalog) -> tuple[Node, Prepared]:
        """A SELECT ready to be registered, and what stands for it where its name is used."""
        known, prepared = self._find(select, catalog)
        return known.named(prepared), prepared

    def _find(self, select: Select, catalog: Catalog) -> tuple[_Known, Prepared]:
        body, key = select.body, _key(select, select.on_error)
        for known in self._like(body, key):
            if known.lookups.hold(catalog):
                literals = known.literals(body.masked)
                if literals is not None and not self._has_own_template(known, literals):
                    return known, known.filled(literals)
        known = self._learn(select, catalog, key)
        return known, known.prepared

    def _like(self, body: Body, key: Key) -> Iterator[_Known]:
        """Texts that differ from one in constants only."""
        for fixed, variants in self._known.get(key, {}).items():
            known = variants.get(tuple(body.masked[i].text for i in fixed))
            if known is not None:
                yield known

    def _has_own_template(self, known: _Known, literals: tuple[Literal, ...]) -> bool:
        """Whether the length that was filled in has a template of its own."""
        template = known.prepared.compiled.template
        return self._lengths is not None and self._lengths.is_own(template, literals)

    def _learn(self, select: Select, catalog: Catalog, key: Key) -> _Known:
        """Go the full way, and remember it."""
        lookups, body = _Lookups(catalog), select.body
        node, compiled = compile_query(
            body.query, lookups, select.on_error, select.emission, self._lengths
        )
        prepared = Prepared(compiled, select.history, select.emission)
        slots = _slots(node, compiled, body)
        known = _Known(prepared, node, slots, lookups, body.reads)
        if known.literals(body.masked) == compiled.literals:
            free = {slot.token for slot in slots if slot is not None}
            fixed = tuple(i for i in range(len(body.masked)) if i not in free)
            self._keep(key, fixed, tuple(body.masked[i].text for i in fixed), known)
        return known

    def _keep(
        self, key: Key, fixed: tuple[int, ...], texts: tuple[str, ...], known: _Known
    ) -> None:
        if self._count == _MOST_TEXTS:
            self._known.clear()
            self._count = 0
        variants = self._known.setdefault(key, {}).setdefault(fixed, {})
        self._count += texts not in variants
        variants[texts] = known


def _key(select: Select, on_error: OnError | None) -> Key:
    return select.body.skeleton, select.history, select.emission, on_error


def _literal(token: Token) -> Literal | None:
    if token.token_type is TokenType.STRING:
        return Literal(STRING, token.text)
    try:
        return number(token.text, None)
    except TypeError_:
        return None


def _length(token: Token, unit: int) -> Literal | None:
    amount = whole(token.text) if token.token_type is TokenType.NUMBER else None
    length = 0 if amount is None else amount * unit
    return Literal(BIGINT, length) if 0 < length <= LONGEST else None


def _slots(node: Node, compiled: Compiled, body: Body) -> tuple[_Slot | None, ...]:
    """Where each parameter comes from; None where it is not one number or string alone.

    Places are compared by identity: a view's constants have places of their own.
    """
    here = {id(body.text.place(token.start)): i for i, token in enumerate(body.masked)}

    def token_of(at: Written | None) -> int | None:
        return None if at is None else here.get(id(at.place))

    if compiled.explicit:  # constants may give parameters their types
        return (None,) * len(compiled.literals)
    lifted = {id(literal.at) for literal in compiled.literals}
    left = {token_of(at) for at in _written(compiled.template)}
    left |= {token_of(at) for at in _written(node) if id(at) not in lifted}
    slots: list[_Slot | None] = []
    for literal in compiled.literals:
        at, token = literal.at, token_of(literal.at)
        if at is None or token is None or token in left:
            slots.append(None)
        else:
            slots.append(_Slot(token, at.negated, literal.type, at.unit))
    return tuple(slots)


def _written(plan: Node) -> Iterator[Written | None]:
    """Where the constants that are part of a plan are written."""
    for node in walk_nodes(plan):
        if isinstance(node, Scan | Windowed) and isinstance(node.window, Range):
            yield node.window.at
        for expr in exprs_of(node):
            yield from (e.at for e in walk(expr) if isinstance(e, Literal))


def _with_values(plan: Node, values: dict[tuple[int, SqlType], Literal]) -> Node:
    """A plan with other constants, by the identity of where they are written and by type.

    A window that is one object stays one: its length is one parameter.
    """
    windows: dict[int, Range] = {}

    def constant(expr: Expr) -> Expr:
        return values.get((id(expr.at), expr.type), expr) if isinstance(expr, Literal) else expr

    def window(known: Range) -> Range:
        value = values.get((id(known.at), BIGINT))
        if value is None or not isinstance(value.value, int):
            return known
        return windows.setdefault(id(known), replace(known, length=value.value, at=None))

    def bound(
        known: int | float | None, at: Written | None
    ) -> tuple[int | float | None, Written | None]:
        found = [values[key] for key in ((id(at), BIGINT), (id(at), DOUBLE)) if key in values]
        value = found[0].value if at is not None and found else None
        return (value, None) if isinstance(value, int | float) else (known, at)

    def join(node: Join) -> Node:
        residual = None if node.residual is None else transform(node.residual, constant)
        band = node.band
        if band is not None:
            places = zip((band.low, band.high), band.written, strict=True)
            (low, low_at), (high, high_at) = (bound(known, at) for known, at in places)
            band = replace(band, low=low, high=high, written=(low_at, high_at))
        return replace(node, band=band, residual=residual)

    def change(node: Node) -> Node:
        if isinstance(node, Join) and (node.band is not None or node.residual is not None):
            return join(node)
        if isinstance(node, Filter):
            predicate = transform(node.predicate, constant)
            return node if predicate is node.predicate else Filter(node.input, predicate)
        if isinstance(node, Scan | Windowed) and isinstance(node.window, Range):
            other = window(node.window)
            return node if other is node.window else replace(node, window=other)
        return node

    return bottom_up(plan, change)
