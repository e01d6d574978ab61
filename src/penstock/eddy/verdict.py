"""The last word on rows at which a condition had no value, for the queries of one member of a flow.

Modules see one condition each. Here all conditions of a query are evaluated on the row: it fails
only if one of them does and none rejects the row, so what guards a condition guards it in
whatever order rows visit, and also within an OR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import I64, Bool
from penstock.eddy.lineage_batch import LineageBatch
from penstock.eddy.lineage_group import LineageGroup
from penstock.eddy.results import Faults
from penstock.expressions.condition import verdict
from penstock.expressions.context import Context
from penstock.expressions.evaluate import Compiled, Frame, compile_expr
from penstock.kernels.lineage import explode, gather_columns
from penstock.logical.expr import columns_of
from penstock.predicates.clauses import Conjunct

if TYPE_CHECKING:
    from penstock.eddy.membership import FlowTemplate


@dataclass(frozen=True, slots=True)
class Judge:
    """The conditions of a member's queries, by alias."""

    conditions: tuple[tuple[int, I64, Compiled], ...]

    @staticmethod
    def of(conjuncts: tuple[Conjunct, ...], ctx: Context) -> Judge:
        """Prepare the conditions."""
        return Judge(
            tuple(
                (
                    conjunct.alias,
                    np.array(sorted(columns_of(conjunct.predicate)), np.int64),
                    compile_expr(conjunct.predicate, ctx),
                )
                for conjunct in conjuncts
            )
        )

    def judge(self, chunk: LineageBatch, rows: I64, params: I64) -> tuple[Bool, Bool | None, str]:
        """Which of the rows are taken, which have no verdict, and why; a column of params each."""
        vecs = []
        for alias, columns, compiled in self.conditions:
            view = chunk.entry.views[alias]
            places = chunk.positions[alias][rows] - view.base
            frame = Frame(gather_columns(view.rows, places, columns), params, compiled.strings)
            vecs.append(compiled.node(frame))
        return verdict(vecs, rows.shape[0])


def settle(
    pool: LineageGroup,
    chunk: LineageBatch,
    members: dict[int, FlowTemplate],
    ctx: Context,
    faults: Faults,
) -> None:
    """Judge the rows that queries would take but for a condition that has no value."""
    if chunk.faults is None:
        return
    suspect = chunk.faults & chunk.bits
    chunk.bits &= ~suspect
    rows, slots = explode(suspect)
    for key in np.unique(pool.member[slots]).tolist():
        of = pool.member[slots] == key
        failed = _settle_member(members[key], pool, chunk, rows[of], slots[of], ctx)
        if failed:
            faults[key] = failed | faults.get(key, {})


def _settle_member(
    member: FlowTemplate,
    pool: LineageGroup,
    chunk: LineageBatch,
    rows: I64,
    slots: I64,
    ctx: Context,
) -> dict[int, str]:
    """Its queries take the row, do not, or fail; those that fail, and why."""
    qids = pool.qid[slots]
    params = np.ascontiguousarray(member.queries.matrix()[qids].T)
    taken, failed, reason = Judge.of(member.conjuncts, ctx).judge(chunk, rows, params)
    bits = np.uint64(1) << (slots[taken] & 63).astype(np.uint64)
    np.bitwise_or.at(chunk.bits, (rows[taken], slots[taken] >> 6), bits)
    return {} if failed is None else dict.fromkeys(np.unique(qids[failed]).tolist(), reason)
