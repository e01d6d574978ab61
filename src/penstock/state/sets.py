"""Set table: every distinct set of queries of a template once, as a small code (CACQ §2.2).

A row of a SET edge carries the code of the queries it belongs to. Sets are kept as the string
table keeps texts: by content, in the arena, found by hash; code 0 is the empty set. Codes are
recycled: state that holds codes across steps must report them to `collect`, which frees the rest.
"""

from __future__ import annotations

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import Sets
from penstock.kernels.strings import U8
from penstock.state.arena import Scope
from penstock.state.strings import StringTable

_WORD = np.dtype(np.int32)


class SetTable:
    """Sets of query numbers (ascending) to codes and back."""

    def __init__(self, scope: Scope) -> None:
        self._bytes = StringTable(scope)

    def __len__(self) -> int:
        return len(self._bytes) - 1  # without the empty set

    def intern(self, offsets: I64, qids: I64) -> I64:
        """The code of each set ``qids[offsets[i]:offsets[i + 1]]``."""
        data: U8 = np.ascontiguousarray(qids, _WORD).view(np.uint8)
        data.flags.writeable = False
        return self._bytes.intern_bytes(offsets * _WORD.itemsize, data)

    def explode(self, codes: I64) -> tuple[I64, I64]:
        """The sets of `codes`, as `intern` takes them."""
        offsets, data = self._bytes.gather_bytes(codes)
        return offsets // _WORD.itemsize, data.view(_WORD).astype(np.int64)

    def distinct(self, codes: I64) -> tuple[Sets, I64]:
        """The distinct sets among `codes`, and for each code which of them it is."""
        place = np.zeros(self._bytes.capacity, np.int64)
        place[codes] = 1
        found = np.flatnonzero(place)
        place[found] = np.arange(found.shape[0])
        return Sets(*self.explode(found)), place[codes]

    def without(self, codes: I64, qids: I64) -> I64:
        """The codes of the same sets without these queries."""
        sets, which = self.distinct(codes)
        left = sets.keep(~members(sets.items, qids))
        return self.intern(left.offsets, left.items)[which]

    def only(self, codes: I64, qids: I64) -> tuple[Sets, I64]:
        """As `distinct`, of the sets only these queries."""
        sets, which = self.distinct(codes)
        return sets.keep(members(sets.items, qids)), which

    # ---- reclamation -------------------------------------------------------------------
    def should_collect(self) -> bool:
        """Whether sets (or their bytes) have doubled since the last collection."""
        return self._bytes.should_collect()

    def collect(self, held: list[I64]) -> int:
        """Free all codes that no state holds; returns how many."""
        marks = np.zeros(self._bytes.capacity, np.bool_)
        for codes in held:
            marks[codes[(codes >= 0) & (codes < marks.shape[0])]] = True
        return self._bytes.collect(marks)


def members(items: I64, chosen: I64) -> Bool:
    """Which of the items are among the chosen."""
    mask = np.zeros(int(max(items.max(initial=-1), chosen.max(initial=-1))) + 1, np.bool_)
    mask[chosen] = True
    return mask[items]
