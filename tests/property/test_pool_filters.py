"""Indexes of a lineage group with many templates equal the plain evaluation of each query.

Random conjuncts over integers, floats, strings and booleans with NULL, NaN and extremes; queries
come and go in slots. Queries for which an index is not exact are verified by another.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from oracle.slot_rows import RowsInSlots
from penstock.arrays import I64, Bool
from penstock.expressions.context import Context
from penstock.indexes.contract import QueryRows, SlotIndex
from penstock.indexes.factory import SlotChoice, slot_indexes, verifying_index
from penstock.kernels.grouped_filter_bits import U64
from penstock.logical.expr import Expr
from penstock.predicates.clauses import Conjunct, clauses_of
from property.cases import CHUNKS, seeds, tally
from property.predicates import KINDS, Predicates, expected, new_context

WORDS, SLOTS = 3, 150


class Group:
    """Queries in slots, as a caller of the indexes keeps them."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.indexes: dict[object, SlotIndex] = {}
        self.clauses: dict[int, int] = {}  # clause to slot
        self.queries: dict[int, tuple[Expr, I64]] = {}

    def add(self, predicate: Expr, slots: list[int], params: I64) -> None:
        for slot, row in zip(slots, params, strict=True):
            self.queries[slot] = predicate, row
        every = np.array(slots)
        for part in clauses_of(predicate):
            conjunct = Conjunct.of(0, part)
            exact: Bool = np.ones(len(slots), np.bool_)
            choices = slot_indexes(conjunct)
            numbers = self._numbers(slots) if len(choices) > 1 else None
            for choice in choices:
                rows = QueryRows(every, params, choice.predicate, numbers)
                index = self._index(choice)
                exact &= index.exact(rows)
                index.add(rows)
            if not exact.all():
                self._index(verifying_index(conjunct)).add(QueryRows(every[~exact], params[~exact]))

    def _index(self, choice: SlotChoice) -> SlotIndex:
        if choice.key not in self.indexes:
            index = self.indexes[choice.key] = choice.kind.make(choice.predicate, self.ctx)
            index.widen(WORDS)
        return self.indexes[choice.key]

    def _numbers(self, slots: list[int]) -> I64:
        free = [c for c in range(2000) if c not in self.clauses][: len(slots)]
        self.clauses.update(zip(free, slots, strict=True))
        return np.array(free)

    def remove(self, slots: list[int]) -> None:
        for index in self.indexes.values():
            index.remove(np.array(slots))
        for slot in slots:
            del self.queries[slot]
        self.clauses = {c: s for c, s in self.clauses.items() if s in self.queries}

    def take(self, columns: I64) -> tuple[Bool, Bool]:
        """By row and slot, who takes it, and where that is not known since a call failed."""
        n = columns.shape[1]
        bits = np.full((n, WORDS), 2**64 - 1, np.uint64)
        satisfied = np.zeros((n, 2000 // 64 + 1), np.uint64)
        rows = np.random.default_rng(n).permutation(n)  # in any order
        failed = np.zeros((n, 64 * WORDS), np.bool_)
        for costly in (False, True):
            for index in (i for i in self.indexes.values() if i.is_costly is costly):
                before = bits.copy()
                batch = RowsInSlots(columns, rows, bits, satisfied)
                assert index.match(batch) is bits
                for faulty, slots in batch.faults:
                    failed[faulty] |= unpacked(slots[None, :])
                unused = ~unpacked(index.uses[None, :])
                assert (unpacked(before ^ bits) & unused).sum() == 0
            taken = unpacked(bits)
            for clause, slot in self.clauses.items():
                taken[:, slot] &= unpacked(satisfied)[:, clause]
            bits = packed(taken)
        return taken, failed


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
    group = Group(ctx)
    for _ in range(rng.randint(1, 5)):
        for _ in range(rng.randint(1, 3)):
            source = Predicates(rng)
            free = [s for s in range(SLOTS) if s not in group.queries]
            slots = rng.sample(free, min(len(free), rng.choice([1, 3, 20])))
            if slots:
                params = source.rows(source.params, len(slots), ctx).T
                group.add(source.predicate(), slots, np.ascontiguousarray(params))
        gone = [s for s in group.queries if rng.random() < rng.choice([0.0, 0.3, 1.0])]
        if gone:
            group.remove(gone)
        columns = source.rows(list(KINDS), rng.choice([0, 1, 5, 30]), ctx)
        taken, failed = group.take(columns)
        for slot, (predicate, params) in group.queries.items():
            theirs, known = expected(predicate, columns, params, ctx)
            ours = taken[:, slot]
            told = known & ~failed[:, slot]
            assert np.array_equal(ours[told], theirs[told]), str(predicate)
            assert not (ours & ~known & ~failed[:, slot]).any()
        empty = [s for s in range(SLOTS) if s not in group.queries]
        assert taken[:, empty].all()
