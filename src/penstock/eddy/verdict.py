"""The verdict on rows for which a condition could not be evaluated, per query of one template.

A routing step evaluates one condition. This module evaluates all conditions of a query on the row:
the query fails only if one of them fails and no other rejects the row. So a condition can guard
another one, whatever the order of visits, and also within an OR.
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
from penstock.logical.truth import held
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
                    compile_expr(held(conjunct.predicate), ctx),
                )
                for conjunct in conjuncts
            )
        )

    def judge(self, batch: LineageBatch, rows: I64, params: I64) -> tuple[Bool, Bool | None, str]:
        """Decide rows, each with its column of `params`.

        Returns which rows are taken, which have no verdict, and the reason.
        """
        vecs = []
        for alias, columns, compiled in self.conditions:
            view = batch.entry.views[alias]
            places = batch.positions[alias][rows] - view.base
            frame = Frame(gather_columns(view.rows, places, columns), params, compiled.strings)
            vecs.append(compiled.node(frame))
        return verdict(vecs, rows.shape[0])


def settle(
    group: LineageGroup,
    batch: LineageBatch,
    members: dict[int, FlowTemplate],
    ctx: Context,
    faults: Faults,
) -> None:
    """Decide the undecided pairs of a batch; queries that fail are added to `faults`."""
    if batch.faults is None:
        return
    suspect = batch.faults & batch.bits
    batch.bits &= ~suspect
    rows, slots = explode(suspect)
    for key in np.unique(group.member[slots]).tolist():
        of = group.member[slots] == key
        failed = _settle_member(members[key], group, batch, rows[of], slots[of], ctx)
        if failed:
            faults[key] = failed | faults.get(key, {})


def _settle_member(
    member: FlowTemplate,
    group: LineageGroup,
    batch: LineageBatch,
    rows: I64,
    slots: I64,
    ctx: Context,
) -> dict[int, str]:
    """Decide the pairs of one template; returns its failed queries with the reasons."""
    qids = group.qid[slots]
    params = np.ascontiguousarray(member.queries.matrix()[qids].T)
    taken, failed, reason = Judge.of(member.conjuncts, ctx).judge(batch, rows, params)
    bits = np.uint64(1) << (slots[taken] & 63).astype(np.uint64)
    np.bitwise_or.at(batch.bits, (rows[taken], slots[taken] >> 6), bits)
    return {} if failed is None else dict.fromkeys(np.unique(qids[failed]).tolist(), reason)
