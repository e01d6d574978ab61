"""The choice of index for a template: the lineage groups of its flow, or an index of its own.

Groups share their filters among templates and are best for few queries of each. A template with
very many queries finds them faster by an index that is made for its predicates alone. Conditions
that groups cannot share leave no choice.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_IN_GROUPS = 1024
"""A template with more queries uses its own index, if it can have one."""


@dataclass(frozen=True, slots=True)
class IndexPolicy:
    """Decides by the number of queries."""

    can_have_own: bool
    needs_own: bool = False

    def uses_own_index(self, queries: int) -> bool:
        """Whether a template with so many queries uses its own index."""
        return self.needs_own or (self.can_have_own and queries > MOST_IN_GROUPS)
