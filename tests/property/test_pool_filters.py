"""Filters of a pool of queries of many templates equal the plain evaluation of each query.

Random conjuncts over integers, floats, strings and booleans with NULL, NaN and extremes; queries
come and go in slots. What an attribute filter cannot say exactly, a call filter must.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.indexes.bitmap_index import CONJUNCT, BitmapIndex
from penstock.indexes.call_index import CallIndex
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Expr
from penstock.predicates.clauses import Attribute, clause_of, clauses_of
from property.cases import CHUNKS, seeds, tally
from property.predicates import KINDS, Predicates, expected, new_context

WORDS, SLOTS = 3, 150


class Pool:
    """Queries in slots, as a caller of the filters keeps them."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.attributes: dict[Attribute, BitmapIndex] = {}
        self.calls: dict[Expr, CallIndex] = {}
        self.clauses: dict[int, int] = {}  # clause to slot
        self.queries: dict[int, tuple[Expr, I64]] = {}

    def add(self, predicate: Expr, slots: list[int], params: I64) -> None:
        for slot, row in zip(slots, params, strict=True):
            self.queries[slot] = predicate, row
        every = np.array(slots)
        for conjunct in clauses_of(predicate):
            terms = clause_of(conjunct)
            exact: Bool = np.full(len(slots), terms is not None)
            numbers = self._numbers(slots) if terms and len(terms) > 1 else None
            for term in terms or ():
                pieces = term.pieces(params, self.ctx)
                exact &= pieces.exact
                filter_ = self.attributes.setdefault(term.attribute, BitmapIndex(WORDS))
                whole = np.full(len(slots), CONJUNCT) if numbers is None else numbers
                filter_.add(every, pieces, whole)
            if not exact.all():
                if conjunct not in self.calls:
                    self.calls[conjunct] = CallIndex(conjunct, self.ctx, WORDS)
                self.calls[conjunct].add(every[~exact], params[~exact])

    def _numbers(self, slots: list[int]) -> I64:
        free = [c for c in range(2000) if c not in self.clauses][: len(slots)]
        self.clauses.update(zip(free, slots, strict=True))
        return np.array(free)

    def remove(self, slots: list[int]) -> None:
        for filter_ in [*self.attributes.values(), *self.calls.values()]:
            filter_.remove(np.array(slots))
        for slot in slots:
            del self.queries[slot]
        self.clauses = {c: s for c, s in self.clauses.items() if s in self.queries}

    def take(self, columns: I64) -> tuple[Bool, Bool]:
        """By row and slot, who takes it, and where that is not known since a call failed."""
        n = columns.shape[1]
        bits = np.full((n, WORDS), 2**64 - 1, np.uint64)
        satisfied = np.zeros((n, 2000 // 64 + 1), np.uint64)
        rows = np.random.default_rng(n).permutation(n)  # in any order
        for attribute, filter_ in self.attributes.items():
            values, null = attribute.values(columns[:, rows], self.ctx)
            filter_.take(values, null, rows, bits, satisfied)
        taken = unpacked(bits)
        for clause, slot in self.clauses.items():
            taken[:, slot] &= unpacked(satisfied)[:, clause]
        bits = packed(taken)
        failed = np.zeros_like(taken)
        for call in self.calls.values():
            before = bits.copy()
            for fault in call.take(columns, rows, bits):
                failed[fault.rows] |= unpacked(fault.slots[None, :])
            unused = ~unpacked(call.uses[None, :])
            assert (unpacked(before ^ bits) & unused).sum() == 0
        return unpacked(bits), failed


def unpacked(bits: U64) -> Bool:
    return np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)


def packed(taken: Bool) -> U64:
    return np.packbits(taken, axis=1, bitorder="little").view(np.uint64).copy()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_pool_equals_its_queries_one_by_one(chunk: int) -> None:
    for seed in seeds(51, chunk, 400):
        _check(Random(seed))
        tally["pool filters"] += 1


def _check(rng: Random) -> None:
    ctx = new_context()
    pool = Pool(ctx)
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.randint(1, 3)):
            source = Predicates(rng)
            free = [s for s in range(SLOTS) if s not in pool.queries]
            slots = rng.sample(free, min(len(free), rng.choice([1, 3, 20])))
            if slots:
                params = source.rows(source.params, len(slots), ctx).T
                pool.add(source.predicate(), slots, np.ascontiguousarray(params))
        gone = [s for s in pool.queries if rng.random() < rng.choice([0.0, 0.3, 1.0])]
        if gone:
            pool.remove(gone)
        columns = source.rows(list(KINDS), rng.choice([0, 1, 5, 30]), ctx)
        taken, failed = pool.take(columns)
        for slot, (predicate, params) in pool.queries.items():
            theirs, known = expected(predicate, columns, params, ctx)
            ours = taken[:, slot]
            told = known & ~failed[:, slot]
            assert np.array_equal(ours[told], theirs[told]), str(predicate)
            assert not (ours & ~known & ~failed[:, slot]).any()
        empty = [s for s in range(SLOTS) if s not in pool.queries]
        assert taken[:, empty].all()
