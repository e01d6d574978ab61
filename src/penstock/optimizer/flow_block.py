"""Finds the parts of a plan that run in a flow: selections and window joins of streams (CACQ §3).

A block is a tree of scans, filters, choices of columns and inner joins on columns. It is taken
apart into the span (streams and how they join), the conditions on each alias, and the rest, which
is evaluated above.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.logical.expr import (
    Call,
    Column,
    Expr,
    Literal,
    Param,
    columns_of,
    conjuncts,
    remap,
)
from penstock.logical.failing import MAYBE, can_fail
from penstock.logical.lifetime import Length, Lifetime
from penstock.logical.nodes import (
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
)
from penstock.logical.windows import window_length
from penstock.optimizer.query_band import QueryBand, find_band
from penstock.optimizer.span import AliasColumn, Span, SpanBand
from penstock.predicates.clauses import Conjunct, clauses_of
from penstock.types import BIGINT, BOOLEAN, DOUBLE

_EDDY_FROM = 3  # from this many streams on, a join without conditions is routed
PLACES = 1 << 16
"""A column of an alias as one number: alias × PLACES + column."""


@dataclass(frozen=True, slots=True)
class Block:
    """A select-project-join block by alias; the conditions in `above` read the output columns.

    A block of two streams may have a `band` with bounds that differ by query. Its columns are
    numbered alias × `PLACES` + column.
    """

    span: Span
    scans: tuple[Scan, ...]
    windows: tuple[Length, ...]
    conditions: tuple[Conjunct, ...]
    output: tuple[AliasColumn, ...]
    above: tuple[Expr, ...]
    band: QueryBand | None = None

    @property
    def lifetimes(self) -> tuple[Lifetime, ...]:
        """The lifetime of rows, by alias."""
        return tuple(map(Lifetime, self.windows))

    @property
    def own_windows(self) -> bool:
        """Whether each query has its own window lengths."""
        return any(isinstance(length, Param) for length in self.windows)


@dataclass(frozen=True, slots=True)
class _Part:
    """A subtree: its scans from left to right; its expressions have places as column numbers."""

    scans: tuple[Scan, ...]
    output: tuple[int, ...]
    predicates: tuple[Expr, ...] = ()
    equal: tuple[tuple[int, int], ...] = ()
    bands: tuple[SpanBand, ...] = ()
    query_band: QueryBand | None = None


@lru_cache(maxsize=256)
def find_block(node: Node, streams: frozenset[str]) -> Block | None:
    """The block that `node` is, if sharing it pays in a plan that reads these `streams`.

    A selection is a block only if it is all that its plan reads. A part with window lengths per
    query always is a block, because only a flow knows when its rows leave. Results are cached,
    because the shards of a process ask for the same block one after another.
    """
    part = _flatten(node, 0)
    if part is None:
        return None
    part = _with_query_band(part)
    if not (part.query_band or _is_worth_it(part, streams) or _own_windows(part)):
        return None
    classes = _classes(part.equal)
    if classes is None:
        return None
    return _ordered(part, classes)


def _with_query_band(part: _Part) -> _Part:
    """Move a band with bounds per query out of the predicates, and constant bounds of it along.

    A constant band of other columns stays: it joins the streams for all queries.
    """
    if len(part.scans) != 2:
        return part
    asked = [p for p in part.predicates if not _is_guess(p, part.predicates)]
    constant = [condition for band in part.bands for condition in _band_conditions(band)]
    band, rest = find_band([*asked, *constant], lambda number: number // PLACES)
    if band is None or any(condition in rest for condition in constant):
        return part
    return replace(part, predicates=tuple(rest), bands=(), query_band=band)


def _band_conditions(band: SpanBand) -> list[Expr]:
    """The bounds of a constant band as conditions on the stored values of its places."""
    type_ = DOUBLE if band.is_float else BIGINT
    left, right = (Column(type_, a * PLACES + c) for a, c in (band.left, band.right))
    gap = Call(type_, "sub", (right, left))
    bounds = [("ge", band.low), ("le", band.high)]
    return [Call(BOOLEAN, fn, (gap, Literal(type_, b))) for fn, b in bounds if b is not None]


def _is_worth_it(part: _Part, streams: frozenset[str]) -> bool:
    """Whether the part has something to share or to route."""
    if len(part.scans) == 1 and len(streams) > 1:
        return False
    return len(part.scans) >= _EDDY_FROM or any(len(_aliases(p)) <= 1 for p in part.predicates)


def _own_windows(part: _Part) -> bool:
    return any(isinstance(window_length(scan), Param) for scan in part.scans)


def _flatten(node: Node, first: int) -> _Part | None:
    """The subtree as a part with aliases numbered from `first`."""
    match node:
        case Scan():
            if window_length(node) is None:
                return None
            return _Part((node,), tuple(first * PLACES + c for c in node.columns))
        case Filter():
            part = _flatten(node.input, first)
            if part is None:
                return None
            found = [_placed(p, part) for c in conjuncts(node.predicate) for p in clauses_of(c)]
            return replace(part, predicates=(*part.predicates, *found))
        case Project():
            chosen = [e.index for e in node.exprs if isinstance(e, Column)]
            part = _flatten(node.input, first) if len(chosen) == len(node.exprs) else None
            if part is None:
                return None
            return replace(part, output=tuple([part.output[c] for c in chosen]))
        case Join(kind=JoinKind.INNER, null_safe=False):
            return _flatten_join(node, first)
    return None


def _flatten_join(node: Join, first: int) -> _Part | None:
    left = _flatten(node.left, first)
    right = None if left is None else _flatten(node.right, first + len(left.scans))
    if left is None or right is None:
        return None
    both = _Part(
        left.scans + right.scans,
        left.output + right.output,
        left.predicates + right.predicates,
        left.equal + right.equal + tuple((left.output[a], right.output[b]) for a, b in node.equi),
        left.bands + right.bands,
    )
    if node.band is not None:
        band = node.band
        places = left.output[band.left_column], right.output[band.right_column]
        is_float = node.left.schema[band.left_column].type.is_float
        found = SpanBand(_place(places[0]), _place(places[1]), band.low, band.high, is_float)
        both = replace(both, bands=(*both.bands, found))
    residual = [_placed(p, both) for c in conjuncts(node.residual) for p in clauses_of(c)]
    return replace(both, predicates=(*both.predicates, *residual))


def _placed(predicate: Expr, part: _Part) -> Expr:
    return remap(predicate, lambda c: part.output[c])


def _place(number: int) -> AliasColumn:
    return divmod(number, PLACES)


def _aliases(predicate: Expr) -> set[int]:
    return {number // PLACES for number in columns_of(predicate)}


def _classes(equal: tuple[tuple[int, int], ...]) -> list[frozenset[int]] | None:
    """Sets of equal places; None if a set has two places of one alias (not a join condition)."""
    classes: list[frozenset[int]] = []
    for pair in equal:
        touched = [c for c in classes if c & set(pair)]
        merged = frozenset(pair).union(*touched)
        classes = [c for c in classes if c not in touched] + [merged]
    once = all(len({n // PLACES for n in c}) == len(c) for c in classes)
    return classes if once else None


def _ordered(part: _Part, classes: list[frozenset[int]]) -> Block | None:
    """The block with its aliases in an order that does not depend on how the query is written."""
    joined = [n for c in classes for n in c] + [
        p[0] * PLACES + p[1] for b in part.bands for p in (b.left, b.right)
    ]
    if part.query_band is not None:
        joined += [part.query_band.minuend, part.query_band.subtrahend]

    def rank(alias: int) -> tuple[str, list[int]]:
        mine = sorted(n % PLACES for n in joined if n // PLACES == alias)
        return part.scans[alias].stream, mine

    order = sorted(range(len(part.scans)), key=rank)
    new = {old: at for at, old in enumerate(order)}

    def move(number: int) -> AliasColumn:
        alias, column = _place(number)
        return new[alias], column

    def number(old: int) -> int:
        alias, column = move(old)
        return alias * PLACES + column

    bands = [
        SpanBand((new[b.left[0]], b.left[1]), (new[b.right[0]], b.right[1]), b.low, b.high,
                 b.is_float)
        for b in part.bands
    ]  # fmt: skip
    band = part.query_band
    if band is not None:
        words = tuple(remap(p, number) for p in band.asked)
        minuend, subtrahend = number(band.minuend), number(band.subtrahend)
        band = replace(band, minuend=minuend, subtrahend=subtrahend, asked=words)
        if not classes:
            bands.append(_open_band(band))
    scans = tuple(part.scans[old] for old in order)
    span = Span(
        tuple(scan.stream for scan in scans),
        tuple(sorted(tuple(sorted(map(move, c))) for c in classes)),
        tuple(sorted(bands, key=repr)),
    )
    if not _connected(span):
        return None
    asked = [p for p in part.predicates if not _is_guess(p, part.predicates)]
    above = [p for p in asked if len(_aliases(p)) > 1]
    if above:  # it guards conditions that can fail
        above = [p for p in asked if len(_aliases(p)) > 1 or can_fail(p)]
    places = list(part.output)
    if any(n not in places for p in above for n in columns_of(p)):
        return None  # a condition on columns that the block does not output
    return Block(
        span,
        scans,
        tuple([length for scan in scans if (length := window_length(scan)) is not None]),
        tuple(_condition(p, new) for p in asked if p not in above),
        tuple(move(n) for n in part.output),
        tuple(remap(p, places.index) for p in above),
        band,
    )


def _open_band(band: QueryBand) -> SpanBand:
    """The part of a band that all its queries share: the columns that it compares."""
    left, right = sorted((_place(band.minuend), _place(band.subtrahend)))
    return SpanBand(left, right, None, None, band.is_float)


def _is_guess(predicate: Expr, others: tuple[Expr, ...]) -> bool:
    """Whether the predicate is a MAYBE of another one: that one decides later anyway."""
    return isinstance(predicate, Call) and predicate.fn == MAYBE and predicate.args[0] in others


def _condition(predicate: Expr, new: dict[int, int]) -> Conjunct:
    alias = next(iter(_aliases(predicate)), 0)
    return Conjunct.of(new[alias], remap(predicate, lambda n: n % PLACES))


def _connected(span: Span) -> bool:
    """Whether probing can reach every alias from every other."""
    present = frozenset({0})
    for _ in range(len(span)):
        found = {
            a
            for a in range(len(span))
            if a not in present and (span.links(a, present) or span.bands_with(a, present))
        }
        present |= found
    return len(present) == len(span)
