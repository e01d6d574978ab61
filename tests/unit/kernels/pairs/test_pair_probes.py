"""The kernels of the strategies against their plain twins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.unit.indexes.pairs.cases import Kind, make_case, make_groups

from penstock.indexes.pairs.plain import DataOuter, Merge, SelectFirst, Vanilla
from penstock.indexes.pairs.ssi import Ssi
from penstock.indexes.pairs.strategy import probing_order, slot_bits
from penstock.kernels.pairs.coded import probe_coded
from penstock.kernels.pairs.data_outer import probe_data_outer
from penstock.kernels.pairs.merge import probe_merge
from penstock.kernels.pairs.select_first import probe_select_first
from penstock.kernels.pairs.ssi import affected_prefixes, probe_ssi
from penstock.kernels.pairs.ssi_own import affected_slots, probe_ssi_own
from penstock.kernels.pairs.vanilla import probe_vanilla

KINDS = [
    Kind(has_key=True, runs=2),
    Kind(is_float=True, ends=True, rest=1, windows=True),
    Kind(is_band=False, own=1, runs=2),
    Kind(is_float=True, own=2, rest=1, has_key=True, queries=60),
]


def calls(kind: Kind) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Every kernel with what it takes."""
    case = make_case(11, kind)
    queries, grouping = case.queries, make_groups(case.queries)
    order, bits = probing_order(case.probes), slot_bits(queries)
    data = (order, bits, case.probes, case.entries, case.partner, queries)
    first = (order, case.probes, case.entries)
    yield probe_vanilla, (Vanilla.build(queries, grouping).slots, *data)
    yield probe_data_outer, (DataOuter.build(queries, grouping).forest, *data)
    yield probe_merge, (Merge.build(queries, grouping).sorted, *data)
    yield probe_select_first, (SelectFirst.build(queries, grouping).forest, *data)
    members = Ssi.build(queries, grouping).members
    if kind.own:
        yield probe_ssi_own, (members, *data)
        yield affected_slots, (members, *first)
    elif not kind.windows:
        yield probe_ssi, (members, *data)
        yield affected_prefixes, (members, *first)
        yield probe_coded, (members, *first)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_kernels_equal_their_plain_twins(kind: Kind) -> None:
    for kernel, arguments in calls(kind):
        compiled, plain = kernel(*arguments), kernel.py_func(*arguments)
        assert type(compiled) is type(plain)
        assert compiled[0].shape[0] > 20, kernel
        for name, one, other in zip(compiled._fields, compiled, plain, strict=True):
            end = compiled.starts[-1] if name == "words" else None  # room, beyond
            assert np.array_equal(one[:end], other[:end]), (kernel, name)
