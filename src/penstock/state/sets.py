"""Set table: the sets of queries of a template as codes, which rows of SET edges carry (CACQ §2.2).

A code is one of three kinds. A *listed* set is kept as the string table keeps texts: once, by
content, in the arena; code 0 is the empty set. A *prefix* of a ranked list has its length and the
number of the list in the code itself, so that a set of any size costs a word; only the list is in
the arena, once. A *union* of such codes, which have no query in common, is kept once too. Codes and
lists are recycled: state that holds codes across steps must report them to `collect`, which frees
the rest. Numbers of lists are valid until `version` changes; then they have to be asked for again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from penstock.arrays import I64, Bool
from penstock.delta import PrefixSets, QuerySets, Ranked, Sets, concat_ranked, start_offsets
from penstock.kernels.strings import U8
from penstock.state.arena import Scope
from penstock.state.prefixes import cheaper, plain
from penstock.state.strings import StringTable

_WORD = np.dtype(np.int32)
_RANKED = np.dtype(np.int64)  # a member and its rank
_UNION = 1 << 62
"""Codes of unions begin here; those of prefixes are negative."""
_LENGTH_BITS = 32


def prefix_codes(lists: I64, lengths: I64) -> I64:
    """The codes of prefixes; none of them is empty."""
    return ~(lists << _LENGTH_BITS | lengths)


class _Kinds(NamedTuple):
    """Marks of codes by kind."""

    listed: Bool
    prefix: Bool
    union: Bool


def _kinds(codes: I64) -> _Kinds:
    prefix, union = codes < 0, codes >= _UNION
    return _Kinds(~(prefix | union), prefix, union)


class SetTable:
    """Sets of query numbers (ascending) to codes and back."""

    def __init__(self, scope: Scope) -> None:
        self._bytes = StringTable(scope)
        self._lists = StringTable(scope.scope("lists"))
        self._unions = StringTable(scope.scope("unions"))
        self._collections = 0
        self._known: tuple[tuple[I64, int], I64, Ranked] | None = None  # the lists read last

    def __len__(self) -> int:
        return len(self._bytes) + len(self._unions) - 2  # without the empty sets

    @property
    def lists(self) -> int:
        """The number of ranked lists."""
        return len(self._lists) - 1

    @property
    def version(self) -> tuple[I64, int]:
        """Equal while numbers of lists stay valid; the array is compared by identity."""
        return self._lists.identity, self._collections

    # ---- sets to codes -----------------------------------------------------------------
    def intern(self, offsets: I64, qids: I64) -> I64:
        """The code of each set ``qids[offsets[i]:offsets[i + 1]]``."""
        return _intern(self._bytes, offsets, np.ascontiguousarray(qids, _WORD))

    def intern_lists(self, ranked: Ranked) -> I64:
        """The number of each ranked list."""
        words = np.empty((ranked.ranks.shape[0], 2), _WORD)
        words[:, 0], words[:, 1] = ranked.members.items, ranked.ranks
        return _intern(self._lists, ranked.members.offsets, words.view(_RANKED).reshape(-1))

    def unite(self, starts: I64, codes: I64) -> I64:
        """The code of each union of ``codes[starts[i]:starts[i + 1]]``, listed sets or prefixes."""
        sizes = np.diff(starts)
        out = np.zeros(sizes.shape[0], np.int64)
        one = sizes == 1
        out[one] = codes[starts[:-1][one]]
        several = np.flatnonzero(sizes > 1)
        if several.shape[0]:
            parts = Sets(starts, codes).take(several)
            items = parts.items[np.lexsort((parts.items, parts.owners))]
            out[several] = _UNION + _intern(self._unions, parts.offsets, items)
        return out

    # ---- codes to sets -----------------------------------------------------------------
    def explode(self, codes: I64) -> tuple[I64, I64]:
        """The sets of `codes`, as `intern` takes them."""
        if _kinds(codes).listed.all():
            return self._listed(codes)
        found, which = np.unique(codes, return_inverse=True)
        sets = plain(self._prefixes(found)).take(which)
        return sets.offsets, sets.items

    def distinct(self, codes: I64) -> tuple[QuerySets, I64]:
        """The distinct sets among `codes`, and for each code which of them it is."""
        if not _kinds(codes).listed.all():
            found, which = np.unique(codes, return_inverse=True)
            return cheaper(self._prefixes(found)), which
        place = np.zeros(self._bytes.capacity, np.int64)
        place[codes] = 1
        found = np.flatnonzero(place)
        place[found] = np.arange(found.shape[0])
        return Sets(*self._listed(found)), place[codes]

    def without(self, codes: I64, qids: I64) -> I64:
        """The codes of the same sets without these queries."""
        found, which = np.unique(codes, return_inverse=True)
        segments = self._segments(found)
        left, kinds = segments.items.copy(), _kinds(segments.items)
        sets = Sets(*self._listed(left[kinds.listed]))
        sets = sets.keep(~members(sets.items, qids))
        left[kinds.listed] = self.intern(sets.offsets, sets.items)
        left[kinds.prefix] = self._prefixes_without(left[kinds.prefix], qids)
        segments = Sets(segments.offsets, left).keep(left != 0)
        return self.unite(segments.offsets, segments.items)[which]

    def only(self, codes: I64, qids: I64) -> tuple[QuerySets, I64]:
        """As `distinct`, of the sets only these queries."""
        sets, which = self.distinct(codes)
        return sets.keep(members(sets.items, qids)), which

    def _listed(self, codes: I64) -> tuple[I64, I64]:
        offsets, data = self._bytes.gather_bytes(codes)
        return offsets // _WORD.itemsize, data.view(_WORD).astype(np.int64)

    def _segments(self, codes: I64) -> Sets:
        """The listed sets and prefixes that each set consists of."""
        union = np.flatnonzero(_kinds(codes).union)
        offsets, data = self._unions.gather_bytes(codes[union] - _UNION)
        parts = Sets(offsets // _RANKED.itemsize, data.view(_RANKED).astype(np.int64))
        sizes = np.ones(codes.shape[0], np.int64)
        sizes[union] = parts.sizes
        items = np.repeat(codes, sizes)
        items[items >= _UNION] = parts.items
        return Sets(start_offsets(sizes), items)

    def _ranked(self, lists: I64) -> Ranked:
        """The ranked lists with these numbers; the same object while nothing else is asked for."""
        if self._known is None or not self._is_known(lists):
            self._known = self.version, lists, self._read_lists(lists)
        return self._known[2]

    def _is_known(self, lists: I64) -> bool:
        assert self._known is not None
        (identity, count), known, _ = self._known
        now = self.version
        return identity is now[0] and count == now[1] and np.array_equal(known, lists)

    def _read_lists(self, lists: I64) -> Ranked:
        offsets, data = self._lists.gather_bytes(lists)
        words = data.view(_WORD).reshape(-1, 2).astype(np.int64)
        members = Sets(offsets // _RANKED.itemsize, np.ascontiguousarray(words[:, 0]))
        return Ranked(members, np.ascontiguousarray(words[:, 1]))

    def _prefixes(self, codes: I64) -> PrefixSets:
        """The sets of codes; a listed set is a whole list."""
        segments = self._segments(codes)
        kinds = _kinds(segments.items)
        listed = Sets(*self._listed(segments.items[kinds.listed]))
        known, places, lengths = _taken_apart(segments.items[kinds.prefix])
        ranked = self._ranked(known)
        lists, sizes = np.empty_like(segments.items), np.empty_like(segments.items)
        lists[kinds.prefix], sizes[kinds.prefix] = places, lengths
        lists[kinds.listed] = known.shape[0] + np.arange(len(listed))
        sizes[kinds.listed] = listed.sizes
        if len(listed):
            ranked = concat_ranked([ranked, Ranked.as_they_are(listed)])
        return PrefixSets(segments.offsets, lists, sizes, ranked)

    def _prefixes_without(self, codes: I64, qids: I64) -> I64:
        """The codes of prefixes without these queries; 0 where none is left."""
        known, places, lengths = _taken_apart(codes)
        every = PrefixSets(np.arange(codes.shape[0] + 1), places, lengths, self._ranked(known))
        left = every.keep(~members(every.items, qids))
        numbers = self.intern_lists(left.ranked)
        return np.where(left.lengths > 0, prefix_codes(numbers[left.lists], left.lengths), 0)

    # ---- reclamation -------------------------------------------------------------------
    def should_collect(self) -> bool:
        """Whether sets (or their bytes) have doubled since the last collection."""
        return any(table.should_collect() for table in (self._bytes, self._lists, self._unions))

    def collect(self, held: list[I64]) -> int:
        """Free all codes that no state holds, and lists without a prefix; returns how many."""
        codes = np.concatenate([np.empty(0, np.int64), *held])
        unions = np.unique(codes[_kinds(codes).union])
        codes = np.concatenate([codes, self._segments(unions).items])
        kinds = _kinds(codes)
        self._collections += 1
        return (
            self._bytes.collect(_marks(self._bytes, codes[kinds.listed]))
            + self._unions.collect(_marks(self._unions, unions - _UNION))
            + self._lists.collect(_marks(self._lists, ~codes[kinds.prefix] >> _LENGTH_BITS))
        )


def _intern(table: StringTable, offsets: I64, items: I64) -> I64:
    data: U8 = items.view(np.uint8)
    data.flags.writeable = False
    return table.intern_bytes(offsets * items.itemsize, data)


def _taken_apart(codes: I64) -> tuple[I64, I64, I64]:
    """The lists of prefixes, for each prefix which of them it is, and its length."""
    known, places = np.unique(~codes >> _LENGTH_BITS, return_inverse=True)
    return known, places, ~codes & ((1 << _LENGTH_BITS) - 1)


def _marks(table: StringTable, codes: I64) -> Bool:
    """Marks the codes of a table that are in use."""
    marks = np.zeros(table.capacity, np.bool_)
    marks[codes[(codes >= 0) & (codes < marks.shape[0])]] = True
    return marks


def members(items: I64, chosen: I64) -> Bool:
    """Which of the items are among the chosen."""
    mask = np.zeros(int(max(items.max(initial=-1), chosen.max(initial=-1))) + 1, np.bool_)
    mask[chosen] = True
    return mask[items]
