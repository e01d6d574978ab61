"""Changes of the answers of a template's queries: the output of its view in a step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.arrays import I8, I64
from penstock.delta import QuerySets, concat_sets


@dataclass(frozen=True, slots=True)
class Changes:
    """Changelog rows of one step: payload (column-major), event time, kind and query.

    With `sets` (EMIT … PER ROW), `qid` is the index of a row's set of queries.
    """

    rows: I64
    time: I64
    kind: I8
    qid: I64
    sets: QuerySets | None = None

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def with_(self, **changes: Any) -> Changes:
        """A copy with some parts replaced."""
        return replace(self, **changes)

    def take(self, index: I64) -> Changes:
        """The changes at these positions."""
        taken = self.rows[:, index], self.time[index], self.kind[index], self.qid[index]
        return Changes(*taken, self.sets)


def concat_changes(parts: list[Changes]) -> Changes:
    """Changes one after another."""
    if len(parts) == 1:
        return parts[0]
    sets = [p.sets for p in parts if p.sets is not None]
    before = np.cumsum([0, *map(len, sets)])
    qids = [p.qid + before[i] if sets else p.qid for i, p in enumerate(parts)]
    return Changes(
        np.concatenate([p.rows for p in parts], axis=1),
        np.concatenate([p.time for p in parts]),
        np.concatenate([p.kind for p in parts]),
        np.concatenate(qids),
        concat_sets(sets) if sets else None,
    )
