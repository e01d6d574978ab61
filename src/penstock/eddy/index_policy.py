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

    most_in_groups: int | None
    """None: the template cannot have its own index. A negative number: it always uses it."""

    def uses_own_index(self, queries: int) -> bool:
        """Whether a template with this many queries uses its own index."""
        return self.most_in_groups is not None and queries > self.most_in_groups
