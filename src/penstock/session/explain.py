"""EXPLAIN: the plan of a query, one line per operator.

Each line shows the operator, the update pattern of its output edge, its state structure, its
parameters, its estimated cost per second, and how many queries share it. On shards, further lines
say where the plan runs and how its rows are distributed (docs/design/0004-spark.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import I64
from penstock.delta import EVERY_CHANGE, Emission
from penstock.engine import blocks as b
from penstock.engine.build import spec_of
from penstock.engine.template import Template
from penstock.logical.expr import Param
from penstock.logical.nodes import Node, Range, Scan, Windowed, walk
from penstock.logical.reads import views_of
from penstock.optimizer.distribution import Distributed, Spread, undivided
from penstock.optimizer.emit import choose_emits
from penstock.patterns.edge import Pattern
from penstock.physical.draft import PlanSpec
from penstock.physical.operator import counted
from penstock.physical.sharing import Sharing
from penstock.roomy import roomy
from penstock.schema import Schema
from penstock.session import history
from penstock.session.compile import Compiled, optimise
from penstock.session.placement import place
from penstock.session.plan_tree import PlanTree
from penstock.session.plans import Plans
from penstock.session.values import literal_rows
from penstock.sql.units import written
from penstock.state.arena import Arena
from penstock.state.convert import to_arrow
from penstock.state.strings import StringTable

if TYPE_CHECKING:
    from penstock.queries.registry import QueryInfo


@roomy
def explain_query(plans: Plans, info: QueryInfo) -> str:
    """The plan of a registered query."""
    template = plans.engine.templates.get(info.template)
    if template is None:
        return f"query {info.name} failed: {info.failure}"
    known = plans.queries.registry.templates[info.template]
    registry = plans.queries.registry
    names, count = registry.some_names(info.template, 5), registry.count(info.template)
    shown = ", ".join(names) + (f", … {count} in all" if count > 5 else "")
    constants = _constants(plans, template, info, known.params)
    params = _parameters(known.params, constants, lengths_in_us(known.template))
    head = [
        f"query {info.name}: template {info.template}, parameters: {params}",
        f"shared by: {shown}",
    ]
    head += _hidden(template)
    if (note := history.note(plans.queries, info)) is not None:
        head.append(note)
    deployed = plans.deployed
    if deployed is not None:
        head.append(placement(deployed[info.template].plan, plans))
    templates = plans.engine.templates.values()
    sharing = Sharing((other.plan.spec, len(other.queries)) for other in templates)
    plan = template.plan
    tree = PlanTree(plan.spec, sharing, plans.stats(), template.queries, plan.operators, plans.told)
    return "\n".join([*head, *tree.lines(plans.engine.ctx), *legend(plan.spec)])


def _hidden(template: Template) -> list[str]:
    """Lines about the failures that ON ERROR has hidden from the template's queries."""
    hidden = template.hidden
    if not hidden:
        return []
    nulled, skipped = counted(hidden.nulls, "value"), counted(hidden.rows, "row")
    return [f"on error: {nulled} made NULL, {skipped} skipped; the first: {hidden.reason}"]


def _parameters(params: Schema, constants: list[str], lengths: set[int]) -> str:
    """The parameters as operators show them: by name, or by number if they were constants.

    `constants` belong to the last parameters. Parameters in `lengths` are lengths of time in µs.
    """
    parts, unknown = [], len(params) - len(constants)
    for at, field in enumerate(params):
        name = at + 1 if field.name == f"p{at + 1}" else field.name
        known = constants[at - unknown] if at >= unknown else ""
        shown = written(int(known)) if known and at in lengths else known
        parts.append(f"${name} {field.type}" + (f" = {shown}" if shown else ""))
    return ", ".join(parts) or "none"


def lengths_in_us(template: Node) -> set[int]:
    """The indexes of parameters that are window lengths in µs."""
    windows = [node.window for node in walk(template) if isinstance(node, Scan | Windowed)]
    ranges = [window for window in windows if isinstance(window, Range) and window.micros]
    return {window.length.index for window in ranges if isinstance(window.length, Param)}


_LEGEND = {
    Pattern.MON: "results are never deleted",
    Pattern.WKS: "results leave when their rows expire, first in, first out",
    Pattern.WK: "results leave when their rows expire, in any order",
    Pattern.STR: "results may be deleted before their rows expire",
}


def legend(plan: PlanSpec) -> list[str]:
    """Explanations of the update patterns that occur in a plan."""
    used = {spec.edge.pattern for spec in plan.specs}
    return ["", *(f"[{p.value}] {means}" for p, means in _LEGEND.items() if p in used)]


def _constants(plans: Plans, template: Template, info: QueryInfo, params: Schema) -> list[str]:
    """The query's parameter values; empty once the query has failed."""
    if info.failure is not None:
        return []
    return _shown(template.queries.params_of(np.array([info.qid])), params, plans.engine.strings)


def _shown(row: I64, params: Schema, strings: StringTable) -> list[str]:
    """A row of parameters as text, one constant each."""
    return [_sql(column[0].as_py()) for column in to_arrow(row, params, strings)]


def _sql(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)


def placement(plan: Distributed, plans: Plans) -> str:
    """Where a plan runs and how its rows get there."""
    shards = plans.shards
    where = "every shard" if plan.home is None else f"shard {plan.home + 1} of {shards}"
    routes = ", ".join(
        f"{r.stream} {_spread(r.spread, plans.engine.sources[r.stream].schema.names)}"
        for r in plan.routes
    )
    read = views_of(plan.view, *(send.node for send in plan.sends))
    views = ", ".join(f"view {name} where it is" for name in sorted({v.view for v in read}))
    routes = ", ".join(filter(None, (routes, views)))
    if not plan.sends:
        return f"runs on: level {plan.levels}, {where}; {routes or 'tables only'}"
    sent = ", ".join(sorted({_spread(s.spread, s.node.schema.names) for s in plan.sends}))
    final = f"rows {sent}" if plan.home is None else f"final on {where}"
    return f"runs on: two levels; level 1, every shard: {routes}; level 2: {final}"


def _spread(spread: Spread, names: tuple[str, ...]) -> str:
    match spread.kind:
        case "hash":
            return f"by hash({', '.join(names[c] for c in spread.columns)})"
        case "one":
            return f"to shard {spread.shard + 1}"
        case "all":
            return "to all shards"
    return "anywhere"


@roomy
def explain_select(plans: Plans, compiled: Compiled, emission: Emission) -> str:
    """The plan that a SELECT would get if it were registered."""
    block = _block(plans, compiled, emission)
    plan = spec_of(block)
    head = [_given(compiled)]
    if (deployed := plans.deployed) is not None:
        shards = plans.shards
        head.append(placement(place(block, shards, deployed).plan, plans))
    return "\n".join([*head, *_unregistered(plans, plan), *legend(plan)])


@roomy
def explain_once(plans: Plans, compiled: Compiled, head: str) -> str:
    """The plan of a SELECT that is evaluated once."""
    plan = spec_of(_block(plans, compiled, EVERY_CHANGE))
    return "\n".join([head, _given(compiled), *_unregistered(plans, plan)])


def _block(plans: Plans, compiled: Compiled, emission: Emission) -> b.AddTemplate:
    """The block that would add the template of a SELECT."""
    stats = plans.stats()
    node = optimise(compiled.template, stats, plans.rules_off)
    emits = tuple(choose_emits(node, stats).items())
    key = plans.queries.registry.next_template
    return b.AddTemplate(key, undivided(node), compiled.params, emission, emits)


def _unregistered(plans: Plans, plan: PlanSpec) -> list[str]:
    """The tree of a plan without registered queries."""
    return PlanTree(plan, Sharing([(plan, 0)]), plans.stats()).lines(plans.engine.ctx)


def _given(compiled: Compiled) -> str:
    """The parameters of a plan, with the constants of the text."""
    strings = StringTable(Arena().scope("strings"))
    row = literal_rows(compiled.literals, strings)
    lifted = Schema(compiled.params.fields[compiled.explicit :])
    constants, lengths = _shown(row, lifted, strings), lengths_in_us(compiled.template)
    return f"parameters: {_parameters(compiled.params, constants, lengths)}"
