"""Decides where a template's queries are matched: in lineage groups, or in an index of its own.

Lineage groups share filters among templates and are best for few queries per template. A template
with very many queries finds them faster with an index made for its predicates only. Conditions that
groups cannot share always need an index of the template's own.
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
        """Whether a template with this many queries uses its own index."""
        return self.needs_own or (self.can_have_own and queries > MOST_IN_GROUPS)
