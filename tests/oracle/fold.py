"""Bags of rows and changelogs: compare the ones, fold the others (DESIGN §3, Changelog)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

from oracle.windows import BEGINNING

TOLERANCE = 1e-9
META = ("_query", "_change_type", "_time", "_batch", "_seq")
SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}

Values = tuple[object, ...]
NAN = "NaN"


class FoldError(AssertionError):
    """A changelog that is not a history of bags."""


def rows_of(table: pa.Table, skip: tuple[str, ...] = ()) -> list[Values]:
    """The rows of an Arrow table as tuples, duplicate column names allowed."""
    names = table.column_names
    kept = [i for i, name in enumerate(names) if name not in skip]
    if not kept:
        return [()] * table.num_rows
    return list(zip(*(table.column(i).to_pylist() for i in kept), strict=True))


def plain(value: object) -> object:
    """A value in comparable form: one NaN, one zero, numbers as int or float."""
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        if math.isnan(value):
            return NAN
        return 0.0 if value == 0 else value
    return value


def bag(rows: Iterable[Values]) -> Counter[Values]:
    """The multiset of `rows`."""
    return Counter(tuple(plain(v) for v in row) for row in rows)


def same(left: Counter[Values], right: Counter[Values]) -> bool:
    """Equality of bags, floats within the tolerance."""
    if left == right:
        return True
    if left.total() != right.total():
        return False
    a, b = (sorted(x.elements(), key=_rank) for x in (left, right))
    return all(_close_rows(x, y) for x, y in zip(a, b, strict=True)) or _matching(a, b)


def _rank(row: Values) -> tuple[object, ...]:
    exact = [("", "") if isinstance(v, float) else (str(type(v)), str(v)) for v in row]
    return (*exact, *(("float", f"{v:.6e}") for v in row if isinstance(v, float)))


def _close_rows(a: Values, b: Values) -> bool:
    return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))


def _close(x: object, y: object) -> bool:
    if isinstance(x, bool) or isinstance(y, bool):
        return x is y
    if isinstance(x, int | float) and isinstance(y, int | float):
        return x == y or math.isclose(x, y, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return x == y


def _matching(a: list[Values], b: list[Values]) -> bool:
    """Greedy pairing: sorting can put two almost equal floats in different order."""
    left = list(b)
    for row in a:
        hit = next((i for i, other in enumerate(left) if _close_rows(row, other)), None)
        if hit is None:
            return False
        del left[hit]
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """One row of a changelog; `key` is (_batch, _seq), unique for a query's whole life."""

    sign: int
    time: int
    row: Values
    key: tuple[int, int] = (0, 0)


def changes_of(table: pa.Table) -> list[Change]:
    """The changelog as signed rows; fails on a malformed one."""
    missing = [name for name in META if name not in table.column_names]
    if missing:
        raise FoldError(f"the changelog has no {missing}")
    kinds = table.column("_change_type").to_pylist()
    # NULL is the time before any: a query over streams that have brought nothing yet.
    times = [BEGINNING if t is None else t for t in table.column("_time").to_pylist()]
    _check_pairs(kinds, times)
    _check_sequence(table)
    keys = zip(*(table.column(name).to_pylist() for name in ("_batch", "_seq")), strict=True)
    rows = rows_of(table, skip=META)
    return [
        Change(SIGNS[kind], time, tuple(plain(v) for v in row), key)
        for kind, time, row, key in zip(kinds, times, rows, keys, strict=True)
    ]


def _check_pairs(kinds: list[str], times: list[int]) -> None:
    for i, kind in enumerate(kinds):
        if kind not in SIGNS:
            raise FoldError(f"unknown change type {kind!r}")
        follows = kinds[i + 1] if i + 1 < len(kinds) else None
        paired = follows == "update_postimage" and times[i + 1] == times[i]
        if kind == "update_preimage" and not paired:
            raise FoldError(f"update_preimage at row {i} without its postimage")
        before = kinds[i - 1] if i else None
        if kind == "update_postimage" and before != "update_preimage":
            raise FoldError(f"update_postimage at row {i} without its preimage")
    if any(b < a for a, b in pairwise(times)):
        raise FoldError(f"_time goes back: {times}")


def _check_sequence(table: pa.Table) -> None:
    names = ("_query", "_batch", "_seq")
    ids = list(zip(*(table.column(n).to_pylist() for n in names), strict=True))
    if len(set(map(str, ids))) != len(ids):
        raise FoldError("(_query, _batch, _seq) is not unique")


@dataclass(slots=True)
class Fold:
    """The bag a changelog has built so far, up to the instant last closed."""

    held: Counter[Values] = field(default_factory=Counter)
    clock: int | None = None

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply all changes of one instant (of one batch)."""
        touched = set()
        for change in changes:
            if self.clock is not None and change.time < self.clock:
                raise FoldError(f"a change at {change.time} after one at {self.clock}")
            self.clock = change.time
            self.held[change.row] += change.sign
            touched.add(change.row)
        for row in touched:
            if self.held[row] < 0:
                raise FoldError(f"{row} has multiplicity {self.held[row]} at {self.clock}")
            if not self.held[row]:
                del self.held[row]


def show(rows: Counter[Values], limit: int = 12) -> str:
    """A bag, for messages."""
    items = sorted(rows.items(), key=lambda kv: _rank(kv[0]))
    text = ", ".join(f"{row}×{n}" if n > 1 else str(row) for row, n in items[:limit])
    return "{" + text + (", …" if len(items) > limit else "") + "}"
