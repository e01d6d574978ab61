"""Chooses the kind of index for a predicate. A new kind is one entry of a table here.

Among the kinds that can decide a predicate, the cheapest wins; of equally cheap kinds the first.
Lists, prefixes, ranges and NULL tests of one value are sets of intervals, so one kind serves them
all. `eddy.index_policy` decides between groups and an index of the whole template.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import PlanError
from penstock.indexes.bitmap.bitmap_index import BITMAP
from penstock.indexes.call_index import CALL
from penstock.indexes.contract import (
    IndexKind,
    PairQueryIndex,
    SlotIndex,
    SlotPredicate,
    TemplateQueryIndex,
)
from penstock.indexes.pairs.pair_index import PAIRS, PairQueries
from penstock.indexes.template.template_index import TEMPLATE, TemplateQueries
from penstock.predicates.clauses import Conjunct

SlotKind = IndexKind[SlotPredicate, SlotIndex]
TemplateKind = IndexKind[TemplateQueries, TemplateQueryIndex]
PairKind = IndexKind[PairQueries, PairQueryIndex]

SLOT_INDEXES: list[SlotKind] = [BITMAP, CALL]
"""Kinds for the queries of a lineage group, per predicate."""
TEMPLATE_INDEXES: list[TemplateKind] = [TEMPLATE]
"""Kinds for all queries of a template at once."""
PAIR_INDEXES: list[PairKind] = [PAIRS]
"""For all queries of a template over two streams."""

Wanted = TypeVar("Wanted")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class SlotChoice:
    """A predicate, the kind of index it gets, and the cost."""

    predicate: SlotPredicate
    kind: SlotKind
    cost: float

    @property
    def key(self) -> Hashable:
        """The key of the index; predicates with equal keys share one index."""
        return self.kind.name, self.kind.key(self.predicate)


def slot_indexes(conjunct: Conjunct) -> list[SlotChoice]:
    """The indexes of a conjunct: one for all of it, or one for each of its terms."""
    whole = _choice(SlotPredicate.whole(conjunct), SLOT_INDEXES)
    if conjunct.terms is None or len(conjunct.terms) < 2:
        return [whole]
    parts = [_choice(part, SLOT_INDEXES) for part in SlotPredicate.parts(conjunct)]
    return [whole] if whole.cost < sum(part.cost for part in parts) else parts


def verifying_index(conjunct: Conjunct) -> SlotChoice:
    """An exact index, for queries for which a conjunct's other indexes accept too many rows."""
    return _choice(SlotPredicate.whole(conjunct), [k for k in SLOT_INDEXES if k.decides])


def template_index(wanted: TemplateQueries) -> TemplateKind:
    """The kind of index for all queries of a template."""
    return _cheapest(wanted, TEMPLATE_INDEXES)[0]


def pair_index(wanted: PairQueries) -> PairKind:
    """The kind of index for all queries of a template over two streams."""
    return _cheapest(wanted, PAIR_INDEXES)[0]


def _choice(predicate: SlotPredicate, kinds: list[SlotKind]) -> SlotChoice:
    return SlotChoice(predicate, *_cheapest(predicate, kinds))


def _cheapest(
    wanted: Wanted, kinds: list[IndexKind[Wanted, Made]]
) -> tuple[IndexKind[Wanted, Made], float]:
    costs = [(kind, cost) for kind in kinds if (cost := kind.cost(wanted)) is not None]
    if not costs:
        raise PlanError(f"no kind of index decides {wanted}")
    return min(costs, key=lambda found: found[1])
