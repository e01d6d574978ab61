"""EXPLAIN of a logical plan: one line per operator with its pattern and estimated cost.

`lines` gives depth, node and text for other explainers to add to.
"""

from __future__ import annotations

from penstock.logical.nodes import (
    Band,
    Distinct,
    Filter,
    GroupBy,
    Join,
    Node,
    Now,
    Project,
    Range,
    Rows,
    Scan,
    SetOp,
    TableScan,
    Unbounded,
    ViewScan,
    Window,
    Windowed,
)
from penstock.optimizer.cost import cost
from penstock.optimizer.stats import Stats
from penstock.patterns.rules import is_nrr, pattern_of
from penstock.schema import Schema


def explain(node: Node, stats: Stats) -> str:
    """The plan as an ASCII tree: operator, details, pattern of its output, cost per second."""
    costs = cost(node, stats).per_node
    rows = [
        ("  " * depth + text, pattern_of(part).value, f"{costs[part]:.4g}/s")
        for depth, part, text in lines(node)
    ]
    wide = max(len(text) for text, _, _ in rows)
    return "\n".join(f"{text:<{wide}}  {label:<3}  cost {price}" for text, label, price in rows)


def lines(node: Node, depth: int = 0) -> list[tuple[int, Node, str]]:
    """Depth, node and description of every operator, parents first."""
    result = [(depth, node, describe(node))]
    for child in node.inputs:
        result += lines(child, depth + 1)
    return result


def describe(node: Node) -> str:
    """One operator in words: its name and what it is told to do."""
    match node:
        case Scan():
            window = describe_window(node.window, node.stream_schema)
            return f"scan {node.stream} {window} ({_names(node.schema)})"
        case TableScan():
            kind = "NRR" if node.nonretroactive else "table"
            return f"{kind} {node.table} ({_names(node.schema)})"
        case ViewScan():
            return f"view {node.view} ({_names(node.schema)})"
        case Filter():
            return f"filter {node.predicate}"
        case Project():
            pairs = zip(node.exprs, node.names, strict=True)
            return "project " + ", ".join(
                str(e) if str(e) == n else f"{e} AS {n}" for e, n in pairs
            )
        case Join():
            return _describe_join(node)
        case GroupBy():
            keys = ", ".join(node.input.schema[k].name for k in node.keys) or "()"
            return f"group by {keys}: " + ", ".join(map(str, node.aggs))
        case Distinct():
            return "distinct"
        case SetOp():
            return node.kind.value + (" all" if node.all else "")
        case Windowed():
            return f"window {describe_window(node.window, node.schema)}"
        case _:
            return type(node).__name__.lower()


def describe_window(window: Window, schema: Schema) -> str:
    """A window in the dialect's words; lengths in units of event time."""
    match window:
        case Range():
            slide = f" SLIDE {window.slide}" if window.slide else ""
            return f"[RANGE {window.length}{slide}]"
        case Rows():
            by = ", ".join(schema[p].name for p in window.partition)
            return f"[PARTITION BY {by} ROWS {window.count}]" if by else f"[ROWS {window.count}]"
        case Now():
            return "[NOW]"
        case Unbounded():
            return "[UNBOUNDED]"


def _describe_join(node: Join) -> str:
    left, right = node.left.schema, node.right.schema
    equals = " IS NOT DISTINCT FROM " if node.null_safe else " = "
    parts = [f"{left[a].name}{equals}{right[b].name}" for a, b in node.equi]
    if node.band is not None:
        parts.append(_describe_band(node.band, left, right))
    if node.residual is not None:
        parts.append(str(node.residual))
    name = "join NRR" if is_nrr(node.right) else f"{node.kind.value} join"
    return f"{name} on {' AND '.join(parts)}" if parts else name


def _describe_band(band: Band, left: Schema, right: Schema) -> str:
    low = "" if band.low is None else f"{band.low} <= "
    high = "" if band.high is None else f" <= {band.high}"
    return f"{low}{right[band.right_column].name} - {left[band.left_column].name}{high}"


def _names(schema: Schema) -> str:
    return ", ".join(schema.names)
