"""Plan a template from its block, and build it for run time."""

from __future__ import annotations

from functools import lru_cache, partial

from penstock.eddy.flows import Flows
from penstock.engine import blocks as b
from penstock.engine.template import Template
from penstock.expressions.context import Context
from penstock.logical.nodes import Node
from penstock.logical.reads import streams_of, tables_of, views_of
from penstock.physical.draft import PlanSpec, Setting
from penstock.physical.instantiate import Plan, Site, instantiate
from penstock.physical.planner import plan, plan_sends
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.sets import SetTable
from penstock.state.source_log import SourceLog
from penstock.state.table_store import TableStore


@lru_cache(maxsize=256)
def spec_of(block: b.AddTemplate, level: int = 1) -> PlanSpec:
    """The specs of a level's part of a template: a pure function of its block.

    All shards of a process ask for the specs of a new template, one after another.
    """
    streams, tables = _read(block, level)
    setting = Setting(
        block.emission.at_commit,
        block.emission.per_row,
        frozenset(streams),
        bool(tables or views_of(*_roots(block, level))),
        dict(block.emits),
        dict(block.received),
    )
    view = block.plan.view_at(level)
    return plan_sends(block.plan.sends_at(level), setting) if view is None else plan(view, setting)


def outline(block: b.AddTemplate, scope: Scope) -> Template:
    """A template that takes no steps: its Q and its clock, no operators, specs when asked for."""
    queries = QueryTable(scope.scope("Q"), len(block.params))
    none = Plan(partial(spec_of, block))
    return Template(block.key, none, queries, *_read(block, 1), scope, block.emission.at_commit)


def build(
    block: b.AddTemplate, level: int, sources: dict[str, SourceLog],
    tables: dict[str, TableStore], ctx: Context, scope: Scope, flows: Flows,
) -> Template:  # fmt: skip
    """The operators of a level's part of a template; their state and Q are in `scope`."""
    spec = spec_of(block, level)
    queries = QueryTable(scope.scope("Q"), len(block.params))
    sets = SetTable(scope.scope("sets")) if block.emission.per_row else None
    try:
        made = instantiate(spec, Site(sources, tables, queries, ctx, scope, flows, sets))
    except Exception:
        scope.free()
        raise
    read = _read(block, level)
    return Template(block.key, made, queries, *read, scope, block.emission.at_commit, sets)


def _roots(block: b.AddTemplate, level: int) -> list[Node]:
    """The nodes of a template's plan that a level computes."""
    view = block.plan.view_at(level)
    return [send.node for send in block.plan.sends_at(level)] + ([] if view is None else [view])


def _read(block: b.AddTemplate, level: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The streams and tables that a level's part reads, directly, through views or level 1."""
    roots = _roots(block, level)
    streams = block.streams if level == 2 else streams_of(*roots)
    return streams, tables_of(*roots)
