"""Plan a template from its block, and build it for run time."""

from __future__ import annotations

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


def spec_of(block: b.AddTemplate) -> PlanSpec:
    """The specs of a template, or of this shard's part of it: a pure function of its block."""
    streams, tables = _read(block)
    setting = Setting(
        block.emission.at_commit,
        block.emission.per_row,
        frozenset(streams),
        bool(tables or views_of(*_roots(block))),
        dict(block.emits),
        dict(block.received),
    )
    return plan_sends(block.sends, setting) if block.node is None else plan(block.node, setting)


def outline(block: b.AddTemplate, scope: Scope) -> Template:
    """A template that takes no steps: its specs, its Q and its clock, but no operators."""
    queries = QueryTable(scope.scope("Q"), len(block.params))
    none = Plan(spec_of(block))
    return Template(block.key, none, queries, *_read(block), scope, block.emission.at_commit)


def build(
    block: b.AddTemplate, sources: dict[str, SourceLog], tables: dict[str, TableStore],
    ctx: Context, scope: Scope, flows: Flows,
) -> Template:  # fmt: skip
    """The operators of a template over these streams and tables; their state and Q in `scope`."""
    spec = spec_of(block)
    queries = QueryTable(scope.scope("Q"), len(block.params))
    sets = SetTable(scope.scope("sets")) if block.emission.per_row else None
    try:
        made = instantiate(spec, Site(sources, tables, queries, ctx, scope, flows, sets))
    except Exception:
        scope.free()
        raise
    return Template(block.key, made, queries, *_read(block), scope, block.emission.at_commit, sets)


def _roots(block: b.AddTemplate) -> list[Node]:
    """The plan of a template, or this shard's part of it."""
    return [send.node for send in block.sends] + ([] if block.node is None else [block.node])


def _read(block: b.AddTemplate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The streams and tables that a template reads, directly or through views."""
    roots = _roots(block)
    return block.streams or streams_of(*roots), tables_of(*roots)
