"""What a command line wants to know of a session: where it runs, its streams, names to complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.sql.catalog import StreamDef, ViewDef

if TYPE_CHECKING:
    from penstock.session.session import Session

_SOME = 100  # queries of a group


def streams(session: Session) -> list[StreamDef]:
    """The streams of a session."""
    relations = list(session._catalog.relations.values())
    return [relation for relation in relations if isinstance(relation, StreamDef)]


def typed_words(session: Session) -> list[str]:
    """Names that a statement may use: relations, their columns, some of the queries."""
    found = []
    for relation in list(session._catalog.relations.values()):
        schema = relation.node.schema if isinstance(relation, ViewDef) else relation.schema
        found += [relation.name, *schema.names]
    for group in list(session._registry.groups.values()):
        found += group.names[:_SOME]
    return found


def runs_on(session: Session) -> str:
    """Where a session works, in words."""
    spark = getattr(session, "_spark", None)
    if spark is None:
        return "in this process, on one core, without Spark"
    shards, master = session._job.shards, spark.sparkContext.master  # type: ignore[attr-defined]
    return f"Spark {spark.version} on {master}, {shards} shards"
