"""Services that every operator of a plan may use besides its own state."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.arrays import I64
from penstock.delta import Lineage
from penstock.expressions.hidden import Totals
from penstock.logical.udf import Udf
from penstock.state.strings import StringTable


@dataclass(slots=True)
class Failures:
    """Lineage ids that failed in this step, with the reason; other queries are not affected."""

    found: list[tuple[Lineage, int, str]] = field(default_factory=list)

    def add(self, level: Lineage, lins: I64, reason: str) -> None:
        """Record that all of `lins` failed for `reason`."""
        self.found.extend((level, int(lin), reason) for lin in np.unique(lins))

    def drain(self) -> list[tuple[Lineage, int, str]]:
        """Everything recorded since the last call."""
        found, self.found = self.found, []
        return found


@dataclass(frozen=True, slots=True)
class Context:
    """Shared services of one engine shard."""

    strings: StringTable
    udfs: dict[str, Udf]
    failures: Failures
    hidden: Totals = field(default_factory=Totals)
