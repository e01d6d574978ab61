"""Checks that a query can be read, and says why if it failed or was dropped.

Callers check when a call begins and again when the answer is there: in between, another thread may
have dropped the query, or a batch may have failed it.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.arrays import I64
from penstock.engine.engine import Engine
from penstock.errors import NameError_, PenstockError, QueryFailed, UnsupportedError
from penstock.logical.on_error import apply
from penstock.queries.registry import Group, QueryInfo, Registry, TemplateInfo
from penstock.roomy import roomy
from penstock.session.changelog import ChangeBatch
from penstock.state.convert import to_arrow


def held(engine: Engine, template: TemplateInfo, qids: I64) -> ChangeBatch:
    """The answers of queries in an engine, given their rows of Q."""
    found, schema = engine.answers(template.key, qids), template.plan.schema
    columns = to_arrow(found.rows, schema, engine.strings)
    rows = pa.Table.from_arrays(columns, schema=schema.arrow())
    return ChangeBatch(0, found.qid, rows, found.sets)


def running(registry: Registry, group: Group) -> I64:
    """The places of a group's running queries.

    Raises an error if all remaining ones have failed.
    """
    there = group.there()
    check_any_runs(registry, group, there)
    return group.running(there)


def check_runs(registry: Registry, info: QueryInfo) -> None:
    """Raise an error if a query failed or was dropped."""
    if info.failure is not None:
        raise failed(registry, info)
    if info.group.dropped[info.at]:
        raise dropped(info.name)


def check_any_runs(registry: Registry, group: Group, places: I64) -> None:
    """Raise the first query's failure if all queries that were not dropped have failed."""
    left = places[~group.dropped[places]] if group.failures else places[:0]
    if left.shape[0] and not group.running(left).shape[0]:
        raise failed(registry, QueryInfo(group, int(left[0])))


def check_keeps(template: TemplateInfo, name: str) -> None:
    """Raise an error if a query has no view because it keeps no state."""
    if template.monotonic:
        raise UnsupportedError(
            f"query {name} keeps no rows, so it has changes but no view",
            code="PS-VIEW-005",
            remedy="read changes(), or put a window on its stream",
        )


def failed(registry: Registry, info: QueryInfo) -> PenstockError:
    """The error for a query that failed."""
    template = registry.templates.get(info.template)
    return QueryFailed(
        f"query {info.name} failed: {info.failure}",
        remedy="drop it and register it again"
        + (": corrected, or with ON ERROR NULL or SKIP ROW" if _has_risks(template) else ""),
    )


@roomy
def _has_risks(template: TemplateInfo | None) -> bool:
    """Whether the plan of a query has expressions that ON ERROR covers."""
    return template is not None and apply(template.template, "null", ()) != template.template


def dropped(name: str) -> PenstockError:
    """The error for a query that was dropped; another query may have its name by now."""
    return NameError_(
        f"query {name} was dropped",
        code="PS-NAME-010",
        remedy="register it again; changes() still returns the changes that were not read",
    )
