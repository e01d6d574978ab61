"""The properties of a plan edge: its update pattern, and the physical facts beside it."""

from __future__ import annotations

import enum
from typing import Literal

from penstock.delta import Lineage
from penstock.frozen import record
from penstock.schema import Schema


class Pattern(enum.Enum):
    """Update patterns (Golab & Özsu 2005, §3.1)."""

    MON = "MON"
    WKS = "WKS"
    WK = "WK"
    STR = "STR"


Emit = Literal["explicit", "expiring"]
"""How a keyed operator ends its results: by −1 rows, or silently at `exp`."""


@record
class Edge:
    """Properties of the rows that flow along one plan edge.

    `expiring`: rows have a finite `exp` and leave silently at it. `negatives`: −1 rows may come.
    `fifo`: rows of equal lineage come in order of `exp`. `span`: exp − ts, if it is constant.
    `keyed`: rows come as (−2, +2) replacements by key. `netted`: only the net change of each row at
    an instant is sent.
    """

    schema: Schema
    pattern: Pattern
    lineage: Lineage
    expiring: bool
    negatives: bool
    fifo: bool = False
    span: int | None = None
    keyed: bool = False
    netted: bool = False
