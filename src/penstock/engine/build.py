"""Build a template at run time from its block."""

from __future__ import annotations

from penstock.eddy.flows import Flows
from penstock.engine import blocks as b
from penstock.engine.template import Template
from penstock.expressions.context import Context
from penstock.logical.nodes import Node
from penstock.logical.reads import streams_of, tables_of, views_of
from penstock.physical.planner import Plan, Planner
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Scope
from penstock.state.sets import SetTable
from penstock.state.source_log import SourceLog
from penstock.state.table_store import TableStore


def outline(block: b.AddTemplate, scope: Scope) -> Template:
    """A template that takes no steps: it has inputs, a Q and a clock, but no operators."""
    queries = QueryTable(scope.scope("Q"), len(block.params))
    none = Plan((), {}, None)
    return Template(block.key, none, queries, *_read(block), scope, block.emission.at_commit)


def build(
    block: b.AddTemplate, sources: dict[str, SourceLog], tables: dict[str, TableStore],
    ctx: Context, scope: Scope, flows: Flows, queries: QueryTable | None = None,
) -> Template:  # fmt: skip
    """The operators of a template over these streams and tables, with their state in `scope`.

    Its Q is there too, unless one is given.
    """
    if queries is None:
        queries = QueryTable(scope.scope("Q"), len(block.params))
    sets = SetTable(scope.scope("sets")) if block.emission.per_row else None
    streams, read = _read(block)
    views = tuple(view.view for view in views_of(*_roots(block)))
    at_commit = block.emission.at_commit
    planner = Planner(
        sources, tables, queries, ctx, scope, at_commit, dict(block.emits), flows,
        frozenset(streams), (*read, *views), dict(block.received), sets,
    )  # fmt: skip
    try:
        plan = planner.plan_sends(block.sends) if block.node is None else planner.plan(block.node)
    except Exception:
        planner.give_up()
        scope.free()
        raise
    return Template(block.key, plan, queries, streams, read, scope, at_commit, sets)


def _roots(block: b.AddTemplate) -> list[Node]:
    """The plan of a template, or this shard's part of it."""
    return [send.node for send in block.sends] + ([] if block.node is None else [block.node])


def _read(block: b.AddTemplate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The streams and tables that a template reads, directly or through views."""
    roots = _roots(block)
    return block.streams or streams_of(*roots), tables_of(*roots)
