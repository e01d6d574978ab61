"""The optimizer: lowering, then the rules in order until nothing changes.

Every rule is a pure function of a plan and the statistics, and preserves every answer at every
instant. Each rule can be switched off by name; lowering cannot. The docstring of a rule shows a
plan before and after it: σ filter, π projection, ⋈ join, ▷ anti join, δ DISTINCT, γ aggregate.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.errors import PlanError
from penstock.logical.nodes import Distinct, GroupBy, Join, Node, Project, TableScan, walk
from penstock.optimizer.lower import lower
from penstock.optimizer.merge_projections import merge_projections
from penstock.optimizer.order_joins import order_joins
from penstock.optimizer.prune_projection import prune_projection
from penstock.optimizer.pull_up_except import pull_up_except
from penstock.optimizer.push_down_distinct import push_down_distinct
from penstock.optimizer.push_down_filter import push_down_filter
from penstock.optimizer.push_down_simple import push_down_simple
from penstock.optimizer.push_down_table_join import push_down_table_join
from penstock.optimizer.stats import Stats
from penstock.optimizer.total_pairs import total_pairs

Rule = Callable[[Node, Stats], Node]

RULES: tuple[Rule, ...] = (
    prune_projection,
    push_down_filter,
    merge_projections,
    push_down_simple,
    pull_up_except,
    push_down_table_join,
    push_down_distinct,
    order_joins,
    total_pairs,
)
NEEDS: dict[Rule, frozenset[type[Node]]] = {
    merge_projections: frozenset({Project}),
    push_down_simple: frozenset({Project}),
    pull_up_except: frozenset({Join}),
    push_down_table_join: frozenset({Join, TableScan}),
    push_down_distinct: frozenset({Distinct}),
    order_joins: frozenset({Join}),
    total_pairs: frozenset({GroupBy, Join}),
}
"""For each rule, the kinds of nodes that a plan must contain; otherwise the rule is skipped."""
THOROUGH: frozenset[Rule] = frozenset({prune_projection, total_pairs})
"""Rules that find nothing more to do in their own output."""
_NOTHING: frozenset[type[Node]] = frozenset()
RULE_NAMES = frozenset(rule.__name__ for rule in RULES)
MAX_ROUNDS = 10


def optimize(node: Node, stats: Stats, off: frozenset[str] = frozenset()) -> Node:
    """The lowered plan after all rules but those in `off`."""
    unknown = off - RULE_NAMES
    if unknown:
        raise PlanError(
            f"the optimizer has no rule {', '.join(sorted(unknown))}",
            code="PS-PLAN-005",
            remedy=f"use any of {', '.join(sorted(RULE_NAMES))}",
        )
    rules = [rule for rule in RULES if rule.__name__ not in off]
    node = lower(node)
    kinds = {type(part) for part in walk(node)}
    settled: set[Rule] = set()  # rules known to change nothing in the current plan
    for rule in rules * MAX_ROUNDS:
        if len(settled) == len(rules):
            break
        if rule in settled or not NEEDS.get(rule, _NOTHING) <= kinds:
            settled.add(rule)
            continue
        changed = rule(node, stats)
        if changed == node:
            settled.add(rule)
        else:
            node, kinds = changed, {type(part) for part in walk(changed)}
            settled = {rule} & THOROUGH
    return node
