"""The streams, tables and views that a plan reads.

The streams and tables of a view count as well.
"""

from __future__ import annotations

from penstock.logical.nodes import Node, Scan, TableScan, ViewScan, walk


def streams_of(*plans: Node) -> tuple[str, ...]:
    """The streams that plans read, directly or through views."""
    found = {n.stream for plan in plans for n in walk(plan) if isinstance(n, Scan)}
    return tuple(sorted(found.union(*(view.streams for view in views_of(*plans)))))


def tables_of(*plans: Node) -> tuple[str, ...]:
    """The tables that plans read, directly or through views."""
    found = {n.table for plan in plans for n in walk(plan) if isinstance(n, TableScan)}
    return tuple(sorted(found.union(*(view.tables for view in views_of(*plans)))))


def views_of(*plans: Node) -> list[ViewScan]:
    """The views that plans follow by their changes."""
    return [n for plan in plans for n in walk(plan) if isinstance(n, ViewScan)]
