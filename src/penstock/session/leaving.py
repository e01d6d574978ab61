"""Queries that are dropped here while the shards may still send changes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.arrays import I64
from penstock.session.changelog import Callback, Changelog
from penstock.session.delivery import call, of_batch
from penstock.session.readers import Readers


@dataclass(frozen=True, slots=True)
class Leaving:
    """Queries dropped by log entry `entry`: until shards have run it, their changes may arrive."""

    entry: int
    readers: Readers
    places: I64
    listeners: dict[int, tuple[Callback, ...]] = field(default_factory=dict)  # by place

    def concerns(self, readers: Readers, at: int | None) -> bool:
        """Whether one reader, or any, waits for its last changes."""
        return self.readers is readers and (at is None or at in self.places)

    @property
    def qids(self) -> I64:
        """The rows of Q of these queries."""
        return self.readers.qids[self.places]

    def tell(self, batch: int) -> list[BaseException]:
        """Send the changes of a batch to subscribers of the queries; return what they raised."""
        errors: list[BaseException] = []
        for at, callbacks in self.listeners.items():
            name, qid = self.readers.names[at], int(self.readers.qids[at])
            table = of_batch(self.readers.log, qid, name, batch)
            for callback in callbacks:
                errors += call(callback, table, name)
        return errors


class LeavingQueries:
    """All queries with a drop that the shards have not run yet."""

    def __init__(self) -> None:
        self._found: list[Leaving] = []

    def add(self, gone: Leaving) -> None:
        """Add dropped queries."""
        self._found.append(gone)

    def all(self) -> list[Leaving]:
        """All of them."""
        return list(self._found)

    def of(self, template: int) -> list[Leaving]:
        """The leaving queries of one template."""
        return [gone for gone in self._found if gone.readers.template == template]

    def logs(self) -> dict[int, Changelog]:
        """The changelogs that receive their last changes, by template."""
        return {gone.readers.template: gone.readers.log for gone in self._found}

    def awaited(self, readers: Readers, at: int | None) -> int | None:
        """The entry after which a reader (or all) has its last changes.

        None if it has them already.
        """
        return max((gone.entry for gone in self._found if gone.concerns(readers, at)), default=None)

    def let_go(self, entry: int) -> list[Leaving]:
        """Remove queries dropped by entries up to this one, and return them."""
        done = [gone for gone in self._found if gone.entry <= entry]
        self._found = [gone for gone in self._found if gone.entry > entry]
        for gone in done:
            gone.readers.leave(gone.places)
        return done
