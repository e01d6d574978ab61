"""What a plan reads: streams, tables and views that stand; a view brings its own along."""

from __future__ import annotations

from penstock.logical.nodes import Node, Scan, TableScan, ViewScan, walk


def streams_of(*plans: Node) -> tuple[str, ...]:
    """The streams that plans read, also by way of views."""
    found = {n.stream for plan in plans for n in walk(plan) if isinstance(n, Scan)}
    return tuple(sorted(found.union(*(view.streams for view in views_of(*plans)))))


def tables_of(*plans: Node) -> tuple[str, ...]:
    """The tables that plans read, also by way of views."""
    found = {n.table for plan in plans for n in walk(plan) if isinstance(n, TableScan)}
    return tuple(sorted(found.union(*(view.tables for view in views_of(*plans)))))


def views_of(*plans: Node) -> list[ViewScan]:
    """The views that plans follow."""
    return [n for plan in plans for n in walk(plan) if isinstance(n, ViewScan)]
