"""Hypothesis strategies: seeds become cases, so that generating stays fast."""

from __future__ import annotations

from hypothesis import strategies as st

from property.cases import Case, case

seeds = st.integers(min_value=0, max_value=2**40)


def cases(queries: int = 1, depth: int | None = None) -> st.SearchStrategy[Case]:
    """Random plans over a random session."""
    return seeds.map(lambda seed: case(seed, queries, depth))


small_ints = st.one_of(st.none(), st.integers(-1, 4))
streams = st.lists(st.tuples(small_ints, small_ints, st.integers(0, 3)), min_size=1, max_size=12)
"""Rows (k, a, gap to the row before)."""
