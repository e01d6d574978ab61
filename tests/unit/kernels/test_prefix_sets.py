"""Sets that are prefixes of ranked lists, against plain twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import penstock.shards.changes as block_changes
from penstock.delta import PrefixSets, Ranked, Sets, concat_sets, start_offsets
from penstock.kernels.prefix_sets import copy_lists, expand_prefixes, places_by_rank
from penstock.shards.changes import NUMBERED_NAMES, in_texts, numbered_lists
from penstock.state.prefixes import plain

Lists = list[list[int]]


def lists_of(sets: Sets) -> Lists:
    return [part.tolist() for part in np.split(sets.items, sets.offsets[1:-1])][: len(sets)]


def random_sets(rng: np.random.Generator) -> tuple[PrefixSets, Lists]:
    """Sets over lists of very different lengths that share no member; what each has."""
    sizes = rng.choice([0, 1, 3, 50, 400], int(rng.integers(1, 6)))
    pool = np.split(rng.permutation(3_000), np.cumsum(sizes))[: sizes.shape[0]]
    members = [np.sort(part) for part in pool]
    ranks = [rng.permutation(n) for n in sizes]
    ranked = Ranked(Sets(start_offsets(sizes), np.concatenate(members)), np.concatenate(ranks))
    lists, lengths, starts, wanted = list[int](), list[int](), [0], Lists()
    for _ in range(int(rng.integers(0, 12))):
        has = list[int]()
        for at in rng.permutation(sizes.shape[0])[: int(rng.integers(0, 4))].tolist():
            length = int(rng.choice([0, min(2, sizes[at]), rng.integers(0, sizes[at] + 1)]))
            lists.append(at)
            lengths.append(length)
            has += members[at][ranks[at] < length].tolist()
        starts.append(len(lists))
        wanted.append(sorted(has))
    columns = (np.array(column, np.int64) for column in (starts, lists, lengths))
    return PrefixSets(*columns, ranked), wanted


@pytest.mark.parametrize("word", [np.int64, np.int32])
@pytest.mark.parametrize("seed", range(40))
def test_members_ascend_whatever_a_set_consists_of(seed: int, word: type) -> None:
    sets, wanted = random_sets(np.random.default_rng(seed))
    offsets, members = sets.ranked.members.offsets, sets.ranked.members.items
    ranks, out = sets.ranked.ranks, np.full(int(sets.lengths.sum()) + 1, -1, word)
    places = places_by_rank(offsets, ranks)
    for a, b in pairwise(offsets):
        assert (ranks[places[a:b]] == np.arange(b - a)).all()
    ends = expand_prefixes(
        sets.starts, sets.lists, sets.lengths, offsets, members, ranks, places, out
    )
    assert lists_of(Sets(ends, out[:-1])) == wanted
    assert sets.sizes.tolist() == [len(some) for some in wanted]


@pytest.mark.parametrize("seed", range(40))
def test_sets_taken_kept_held_and_joined(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, wanted = random_sets(rng)
    assert lists_of(plain(sets)) == wanted
    index = rng.integers(0, len(sets), 7) if len(sets) else np.empty(0, np.int64)
    assert lists_of(plain(sets.take(index))) == [wanted[i] for i in index]
    assert lists_of(plain(sets.keep(sets.items % 3 != 0))) == [
        [x for x in some if x % 3] for some in wanted
    ]
    one = int(rng.choice(sets.items)) if sets.items.shape[0] else 1
    assert sets.holding(one).tolist() == [one in some for some in wanted]
    assert plain(sets).holding(one).tolist() == [one in some for some in wanted]
    other = Sets(np.array([0, 2, 2]), np.array([4, 9]))
    both = concat_sets([sets, other, sets])
    assert isinstance(both, PrefixSets)
    assert lists_of(plain(both)) == [*wanted, [4, 9], [], *wanted]


@pytest.mark.parametrize("seed", range(40))
def test_members_are_replaced_by_their_owners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, wanted = random_sets(rng)
    owners = rng.permutation(9_000)[: 3 * 3_000].reshape(3_000, 3)  # by member, in no order
    taken = rng.integers(0, 4, 3_000)
    own = [owners[m, : taken[m]].tolist() for m in range(3_000)]
    items = np.array([o for m in sets.items.tolist() for o in own[m]], np.int64)
    spread = sets.spread(items, taken[sets.items])
    assert lists_of(plain(spread)) == [sorted(o for m in some for o in own[m]) for some in wanted]
    renamed = sets.spread(owners[sets.items, 0], None)
    assert lists_of(plain(renamed)) == [sorted(owners[some, 0].tolist()) for some in wanted]


@pytest.mark.parametrize("seed", range(10))
def test_copied_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, wanted = random_sets(rng)
    listed = plain(sets)
    who = rng.integers(0, len(sets), 20) if len(sets) else np.empty(0, np.int64)
    offsets, items = copy_lists(who, listed.offsets, listed.items)
    assert offsets.dtype == items.dtype == np.int32
    assert lists_of(Sets(offsets, items)) == [wanted[i] for i in who]


@pytest.mark.parametrize("most", [1 << 30, 300, 1])
@pytest.mark.parametrize("seed", range(6))
def test_numbered_lists(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_MOST_NAMES", "_MOST_BYTES"):
        monkeypatch.setattr(block_changes, limit, most)  # chunks as of very many names
    rng = np.random.default_rng(seed)
    sets, wanted = random_sets(rng)
    names = ["", "bé", "日本語", *(f"q{i}" for i in range(2_997))]
    who = rng.integers(0, len(sets), 20) if len(sets) else np.empty(0, np.int64)
    for form in (sets, plain(sets)):
        found = numbered_lists(who, form, pa.array(names))
        found.validate(full=True)
        assert found.type == NUMBERED_NAMES
        assert found.to_pylist() == [[names[m] for m in wanted[i]] for i in who]
        assert in_texts(found).to_pylist() == found.to_pylist()
        assert in_texts(found).type == block_changes.NAMES
    plain_column = pa.chunked_array([pa.array([1, 2])])
    assert in_texts(plain_column) is plain_column


def test_a_member_without_a_name_is_null() -> None:
    sets = Sets(np.array([0, 2, 3]), np.array([0, 1, 1]))
    found = numbered_lists(np.array([1, 0]), sets, pa.array(["a", None]))
    assert found.to_pylist() == in_texts(found).to_pylist() == [[None], ["a", None]]
