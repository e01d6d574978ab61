"""Derives the conditions on pairs from a block over two streams; a pure function of the block."""

from __future__ import annotations

from penstock.indexes.pairs.shape import Checked, PairBand, PairRange, PairShape, SideColumn
from penstock.logical.difference import MIRRORED
from penstock.logical.expr import Call, Column, Expr, columns_of, conjunction, remap
from penstock.logical.failing import is_risky
from penstock.optimizer.flow_block import PLACES, Block
from penstock.predicates.clauses import Conjunct


def pair_shape(block: Block) -> PairShape | None:
    """The conditions of the block's queries on a pair; None if the index could look nothing up."""
    if len(block.scans) != 2 or (block.span.bands and block.band is None):
        return None
    ranges, others = _ranges(block.conditions)
    if block.band is None and not ranges:
        return None
    key = tuple((left[1], right[1]) for left, right in block.span.classes)
    band = _band(block)
    asked = [] if block.band is None else list(block.band.asked)
    asked += [_of_alias(c) for c in block.conditions if c not in others]
    rest = [_of_alias(c) for c in others]
    return PairShape(key, band, ranges, _checked(rest), _checked(asked))


def _band(block: Block) -> PairBand | None:
    found = block.band
    if found is None:
        return None
    columns = dict(map(_place, (found.minuend, found.subtrahend)))
    minuend = found.minuend // PLACES
    return PairBand((columns[0], columns[1]), minuend, found.value, found.conditions)


def _place(number: int) -> SideColumn:
    return divmod(number, PLACES)


def _ranges(conditions: tuple[Conjunct, ...]) -> tuple[tuple[PairRange, ...], list[Conjunct]]:
    """Comparisons grouped by column, and the other conditions."""
    found: dict[SideColumn, PairRange] = {}
    others = []
    for conjunct in conditions:
        value = _compared_column(conjunct)
        if value is None:
            others.append(conjunct)
            continue
        place = conjunct.alias, value.index
        before = found.get(place, PairRange(*place, value, ()))
        asked = (*before.conditions, conjunct.predicate)
        found[place] = PairRange(*place, before.value, asked)
    return tuple(found[place] for place in sorted(found)), others


def _compared_column(conjunct: Conjunct) -> Column | None:
    """The column that a conjunct restricts to one range of constants; None if there is none."""
    terms, predicate = conjunct.terms, conjunct.predicate
    if terms is None or len(terms) != 1 or terms[0].attribute.by_text or is_risky(predicate):
        return None
    value = terms[0].value
    plain = isinstance(predicate, Call) and predicate.fn in MIRRORED
    return value if plain and isinstance(value, Column) else None


def _of_alias(conjunct: Conjunct) -> Expr:
    """The condition with columns numbered as places of its alias."""
    return remap(conjunct.predicate, lambda c: conjunct.alias * PLACES + c)


def _checked(conditions: list[Expr]) -> Checked | None:
    whole = conjunction(conditions)
    if whole is None:
        return None
    places = sorted(columns_of(whole))
    return Checked(remap(whole, places.index), tuple(map(_place, places)))
