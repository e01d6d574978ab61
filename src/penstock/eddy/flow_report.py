"""Reports on a flow for EXPLAIN and stats(): templates, queries, and routing statistics."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from penstock.eddy.eddy import Routing
from penstock.eddy.lineage_group import EddyReport
from penstock.eddy.membership import Membership
from penstock.eddy.stem_step import StemStep
from penstock.optimizer.span import Span


@dataclass(frozen=True, slots=True)
class FlowReport:
    """Reads the parts of a flow; it changes nothing."""

    span: Span
    membership: Membership
    stems: list[StemStep]
    routing: Routing

    def learnt(self) -> list[str]:
        """The statistics of the eddies, one line per alias that has seen rows."""
        return [
            self._line(alias, eddy)
            for group in self.membership.groups
            for alias, eddy in enumerate(group.report(self.stems))
            if eddy.rows
        ]

    def _line(self, alias: int, eddy: EddyReport) -> str:
        modules = ", ".join(
            f"{m.module} ({m.share:.0%} of tickets, selectivity {m.selectivity:.2f})"
            for m in eddy.modules
        )
        visits = f"{eddy.rows:,} rows, {eddy.visits_per_row:.2f} visits each"
        return f"eddy {self.span.streams[alias]}: {visits}: {modules}"

    def numbers(self) -> dict[str, object]:
        """Streams, queries, bits that rows carry, bytes of filters, statistics of the eddies."""
        groups = self.membership.groups
        return {
            "streams": list(self.span.streams),
            "templates": len(self.membership),
            "queries": self.membership.queries(),
            "pooled": sum(len(group) for group in groups),
            "lineage_bits": sum(64 * group.words for group in groups),
            "bytes": sum(group.nbytes for group in groups),
            "routing": self.routing,
            "eddies": [asdict(eddy) for group in groups for eddy in group.report(self.stems)],
        }
