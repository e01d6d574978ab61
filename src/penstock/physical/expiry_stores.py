"""Expiry stores: what an operator keeps of each row until it expires (DESIGN §5.3).

An entry is its `exp`, a sequence number, and a row of int64 words of the operator's choice.
Which one an operator gets is in its spec (`physical/expiry.py`).
"""

from __future__ import annotations

from typing import Protocol

from penstock.arrays import I64
from penstock.physical.expiry import Kept, Store
from penstock.state.arena import Scope
from penstock.state.calendar import Calendar
from penstock.state.fifo import Fifo
from penstock.state.row_list import RowList


class ExpiryStore(Protocol):
    """Entries that leave in order of (exp, insertion)."""

    def add(self, exp: I64, words: I64) -> None:
        """Insert entries: `exp` (n), `words` (n × width). Entries with exp NEVER stay."""

    def add_rows(self, exp: I64, lin: I64, rows: I64) -> None:
        """Insert entries with words [lin, row…], the rows column-major."""

    def take(self, until: int) -> tuple[I64, I64]:
        """As expire, giving places in `words` that stay readable until something is added."""

    def due(self, until: int) -> bool:
        """Whether an entry may expire by `until`; false is certain."""

    @property
    def words(self) -> I64:
        """The words of all entries, by place."""

    def expire(self, until: int) -> tuple[I64, I64]:
        """Remove and return all entries with exp ≤ until: (exp ascending, words row-major)."""

    def cancel(self, exp: I64, words: I64) -> I64:
        """Remove, for each given entry, one stored entry equal to it; 1 where found, else 0."""

    def entries(self) -> tuple[I64, I64]:
        """All entries (exp, words), in insertion order where the structure knows it."""

    def filter(self, keep: I64) -> None:
        """Keep only the entries at these positions of `entries()`."""

    def replace(self, exp: I64, words: I64) -> None:
        """Keep these entries instead of all others; in order of expiry where `entries()` is."""

    def __len__(self) -> int: ...


def is_due(store: ExpiryStore | None, until: int) -> bool:
    """Whether something may expire by `until`."""
    return store is not None and store.due(until)


def make_store(scope: Scope, kept: Kept, width: int) -> ExpiryStore | None:
    """The store for rows of an input: None where they are not kept."""
    if kept.store is Store.FIFO:
        return Fifo(scope, width)
    if kept.store is Store.CALENDAR:
        return Calendar(scope, width, searched=kept.searched)
    if kept.store is Store.LIST:
        return RowList(scope, width)
    return None
