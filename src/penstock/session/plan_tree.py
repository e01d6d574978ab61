"""The tree of EXPLAIN: a line per spec, root first, with facts about its queries.

It reads specs and Q. Where the plan runs, its operators add what they have learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from penstock.delta import Lineage
from penstock.expressions.context import Context
from penstock.optimizer.cost import cost
from penstock.optimizer.stats import Stats
from penstock.physical.draft import PlanSpec
from penstock.physical.flow import FlowOp
from penstock.physical.join_specs import WindowJoinSpec
from penstock.physical.match import Descriptions, MatchOp
from penstock.physical.match_count import MatchCountOp
from penstock.physical.operator import Operator
from penstock.physical.reevaluate_specs import HeldSpec, ReevaluateSpec
from penstock.physical.sharing import Sharing
from penstock.physical.specs import FlowSpec, MatchCountSpec, MatchSpec, Spec
from penstock.queries.query_table import QueryTable

_UNITS = {Lineage.COHORT: "cohort", Lineage.QUERY: "query", Lineage.SET: "set of queries"}


@dataclass(frozen=True, slots=True)
class PlanTree:
    """A plan as EXPLAIN shows it; without `queries`, the plan of a query that is not registered.

    With `signals`, it also says of each edge whether rows leave silently, at their expiry.
    """

    plan: PlanSpec
    sharing: Sharing
    stats: Stats
    queries: QueryTable | None = None
    operators: tuple[Operator, ...] = ()
    told: Descriptions = field(default_factory=Descriptions)
    signals: bool = False
    outer: PlanTree | None = None  # that of the plan which evaluates this one

    def lines(self, ctx: Context) -> list[str]:
        """The lines of the tree; `ctx` has the functions that predicates call."""
        assert self.plan.view is not None
        return list(self.visit(self.plan.view, "", True, 0, set(), ctx))

    def visit(
        self, spec: Spec, prefix: str, last: bool, depth: int, seen: set[int], ctx: Context
    ) -> Iterator[str]:
        """The lines of a spec and all below it; of those in `seen`, one line."""
        branch = "" if depth == 0 else prefix + ("└─ " if last else "├─ ")
        again = id(spec) in seen
        yield branch + self._line(spec, again, ctx)
        if again:
            return
        seen.add(id(spec))
        below = "" if depth == 0 else prefix + ("   " if last else "│  ")
        for note in self._notes(spec, ctx):
            yield f"{below}   · {note}"
        children = list(self._below(spec))
        for i, (tree, child) in enumerate(children):
            yield from tree.visit(child, below, i == len(children) - 1, depth + 1, seen, ctx)

    def _below(self, spec: Spec) -> Iterator[tuple[PlanTree, Spec]]:
        """The inputs of a spec; a re-evaluation has an inner plan, with windows as its leaves."""
        match spec:
            case ReevaluateSpec():
                yield replace(self, operators=(), outer=self), spec.top
            case HeldSpec():
                assert self.outer is not None
                yield self.outer, spec.window
            case _:
                yield from ((self, child) for child in spec.inputs)

    def _line(self, spec: Spec, again: bool, ctx: Context) -> str:
        edge, detail = spec.edge, spec.detail()
        if isinstance(spec, MatchSpec | MatchCountSpec):
            how = self._how(spec, ctx)
            detail = f"{detail} {how}" if detail else how
        parts = [f"{spec.name}{' ' + detail if detail else ''}", f"[{edge.pattern.value}]"]
        if again:
            return " ".join([*parts, "(shared, shown above)"])
        if spec.structure() != "–":
            parts.append(f"state={spec.structure()}")
        if self.signals and edge.expiring:
            parts.append("expiring rows")
        if edge.negatives:
            parts.append("−1 rows")
        if spec.node is not None:
            parts.append(f"cost={cost(spec.node, self.stats).total:,.0f}/s")
        if edge.lineage is not Lineage.EPOCH:
            parts.append(f"per {_UNITS[edge.lineage]}")
            parts.append(f"queries={self._live()}")
        return " ".join(parts)

    def _live(self) -> int:
        return 0 if self.queries is None else int(self.queries.live(Lineage.QUERY).shape[0])

    def _notes(self, spec: Spec, ctx: Context) -> list[str]:
        """The lines below an operator: what shares it, and what it has learnt."""
        if not isinstance(spec, FlowSpec | WindowJoinSpec):
            return []
        learnt = self.operators[spec.at].notes() if self.operators else []
        if isinstance(spec, FlowSpec) and self._uses_own_index(spec):
            return [f"by itself: {self._how(spec, ctx)}", *learnt]
        return [self.sharing.note(spec), *learnt]

    def _uses_own_index(self, spec: FlowSpec) -> bool:
        """Whether the template has so many queries that it uses an index of its own."""
        return self.queries is not None and spec.policy.uses_own_index(len(self.queries))

    def _how(self, spec: MatchSpec | MatchCountSpec | FlowSpec, ctx: Context) -> str:
        """How rows are matched with queries: by the running index, or by one built from Q."""
        if self.operators:
            running = self.operators[spec.at]
            assert isinstance(running, MatchOp | MatchCountOp | FlowOp)
            return running.how()
        if isinstance(spec, FlowSpec) and spec.pairs is not None:
            return f"× {self._live()} queries ({spec.means})"
        match = _match_of(spec)
        if self.queries is None:
            return f"× 0 {'cohorts' if match.edge.lineage is Lineage.COHORT else 'queries'}"
        return self.told.of(match, self.queries, ctx, isinstance(spec, MatchCountSpec))


def _match_of(spec: MatchSpec | MatchCountSpec | FlowSpec) -> MatchSpec:
    """The spec of the operator's match with Q."""
    if isinstance(spec, MatchCountSpec):
        return spec.match
    found = spec.index if isinstance(spec, FlowSpec) else spec
    assert found is not None
    return found
