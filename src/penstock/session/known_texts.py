"""Known texts: one that differs from an earlier one in constants only is not parsed again.

A text is known by its tokens without numbers and strings. What the full way through parser and
binder found is kept with it: the template, and which of the numbers and strings are parameters
of it and nothing else (`Literal.at`). Those may be others, as long as they take the same types;
all the rest must be the same: long lists, what is selected, lengths that are not lifted. What names
meant when the text was bound, they must mean now. In any doubt a text goes the full way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import Token, TokenType

from penstock.delta import Emission
from penstock.errors import SqlSyntaxError, TypeError_
from penstock.logical.expr import Literal, Written, walk
from penstock.logical.nodes import Node, Range, Scan, Windowed, exprs_of
from penstock.logical.nodes import walk as walk_nodes
from penstock.logical.on_error import OnError
from penstock.logical.udf import Udf
from penstock.roomy import roomy
from penstock.session.compile import Compiled, compile_select
from penstock.session.on_error import check_setting, with_setting
from penstock.session.windows import Lengths
from penstock.sql.catalog import Catalog, Relation
from penstock.sql.cursor import Text
from penstock.sql.dialect import tokenize
from penstock.sql.literals import convert, negated, number
from penstock.sql.parser import parse_tokens
from penstock.sql.statements import Select
from penstock.sql.units import LONGEST, whole
from penstock.types import BIGINT, STRING, SqlType

_MOST_TEXTS = 10_000
_MASKED = (TokenType.NUMBER, TokenType.STRING)
Skeleton = tuple[object, ...]


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
    slots: tuple[_Slot | None, ...]
    lookups: _Lookups

    def filled(self, masked: list[Token]) -> Prepared | None:
        """The same with the constants of another text."""
        literals: list[Literal] = []
        for slot, literal in zip(self.slots, self.prepared.compiled.literals, strict=True):
            value = literal if slot is None else slot.value(masked[slot.token])
            if value is None:
                return None
            literals.append(value)
        compiled = replace(self.prepared.compiled, literals=tuple(literals))
        return replace(self.prepared, compiled=compiled)


class KnownTexts:
    """Texts by skeleton, then by the masked tokens that must be the same."""

    def __init__(self, lengths: Lengths | None = None) -> None:
        self._lengths = lengths
        self._known: dict[Skeleton, dict[tuple[int, ...], dict[tuple[str, ...], _Known]]] = {}
        self._count = 0

    @roomy
    def prepare(
        self, sql: str, catalog: Catalog, on_error: OnError | None = None, takes: str = "query()"
    ) -> Prepared:
        """The SELECT of a text; `takes` is the call that takes no other statement."""
        check_setting(on_error)
        text = Text(sql)
        tokens = tokenize(text)
        skeleton, masked = _split(tokens)
        skeleton = (*skeleton, on_error)
        for fixed, variants in self._known.get(skeleton, {}).items():
            known = variants.get(tuple(masked[i].text for i in fixed))
            if known is not None and known.lookups.hold(catalog):
                prepared = known.filled(masked)
                if prepared is not None and not self._has_own_template(prepared.compiled):
                    return prepared
        select = parse_tokens(tokens, text)
        if not isinstance(select, Select):
            raise SqlSyntaxError(f"{takes} takes a SELECT", remedy="use sql() for statements")
        return self._learn(with_setting(select, on_error), text, catalog, skeleton, masked)

    def _has_own_template(self, compiled: Compiled) -> bool:
        """Whether the length that was filled in has a template of its own."""
        return self._lengths is not None and self._lengths.is_own(
            compiled.template, compiled.literals
        )

    def _learn(
        self, select: Select, text: Text, catalog: Catalog, skeleton: Skeleton, masked: list[Token]
    ) -> Prepared:
        """Go the full way, and remember it."""
        lookups = _Lookups(catalog)
        compiled = compile_select(select, lookups, self._lengths)
        prepared = Prepared(compiled, select.history, select.emission)
        slots = _slots(compiled, masked, text)
        known = _Known(prepared, slots, lookups)
        if known.filled(masked) == prepared:
            free = {slot.token for slot in slots if slot is not None}
            fixed = tuple(i for i in range(len(masked)) if i not in free)
            self._keep(skeleton, fixed, tuple(masked[i].text for i in fixed), known)
        return prepared

    def _keep(
        self, skeleton: Skeleton, fixed: tuple[int, ...], texts: tuple[str, ...], known: _Known
    ) -> None:
        if self._count == _MOST_TEXTS:
            self._known.clear()
            self._count = 0
        variants = self._known.setdefault(skeleton, {}).setdefault(fixed, {})
        self._count += texts not in variants
        variants[texts] = known


def _split(tokens: list[Token]) -> tuple[Skeleton, list[Token]]:
    """Tokens without numbers and strings, and those."""
    masked = [token for token in tokens if token.token_type in _MASKED]
    kept = [t for token in tokens for t in (token.token_type, token.text)]
    for i, token in enumerate(tokens):
        if token.token_type in _MASKED:
            kept[2 * i + 1] = ""
    return tuple(kept), masked


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


def _slots(compiled: Compiled, masked: list[Token], text: Text) -> tuple[_Slot | None, ...]:
    """Where each parameter comes from; None where it is not one number or string alone.

    Places are compared by identity: a view's constants have places in another text.
    """
    here = {id(text.place(token.start)): i for i, token in enumerate(masked)}

    def token_of(at: Written | None) -> int | None:
        return None if at is None else here.get(id(at.place))

    if compiled.explicit:  # constants may give parameters their types
        return (None,) * len(compiled.literals)
    left = {token_of(at) for at in _written(compiled.template)}
    slots: list[_Slot | None] = []
    for literal in compiled.literals:
        at, token = literal.at, token_of(literal.at)
        if at is None or token is None or token in left:
            slots.append(None)
        else:
            slots.append(_Slot(token, at.negated, literal.type, at.unit))
    return tuple(slots)


def _written(template: Node) -> Iterator[Written | None]:
    """Where the constants that are part of a template are written."""
    for node in walk_nodes(template):
        if isinstance(node, Scan | Windowed) and isinstance(node.window, Range):
            yield node.window.at
        for expr in exprs_of(node):
            yield from (e.at for e in walk(expr) if isinstance(e, Literal))
