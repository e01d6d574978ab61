"""Queries on their way out: dropped here, while the shards may still send changes of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.arrays import I64
from penstock.session.changelog import Callback, Changelog
from penstock.session.delivery import call, of_batch
from penstock.session.readers import Readers


@dataclass(frozen=True, slots=True)
class Leaving:
    """Queries whose drop is entry `entry`: until that is run, changes of them may come."""

    entry: int
    readers: Readers
    places: I64
    listeners: dict[int, tuple[Callback, ...]] = field(default_factory=dict)  # by place

    def concerns(self, readers: Readers, at: int | None) -> bool:
        """Whether a reader (or any) waits for its last changes."""
        return self.readers is readers and (at is None or at in self.places)

    @property
    def qids(self) -> I64:
        """Their numbers."""
        return self.readers.qids[self.places]

    def tell(self, batch: int) -> list[BaseException]:
        """The changes of a batch to subscribers of the queries; what they raised."""
        errors: list[BaseException] = []
        for at, callbacks in self.listeners.items():
            name, qid = self.readers.names[at], int(self.readers.qids[at])
            table = of_batch(self.readers.log, qid, name, batch)
            for callback in callbacks:
                errors += call(callback, table, name)
        return errors


class LeavingQueries:
    """All queries on their way out."""

    def __init__(self) -> None:
        self._found: list[Leaving] = []

    def add(self, gone: Leaving) -> None:
        """Queries were dropped."""
        self._found.append(gone)

    def all(self) -> list[Leaving]:
        """Those whose drop has not been run."""
        return list(self._found)

    def of(self, template: int) -> list[Leaving]:
        """Those of a template."""
        return [gone for gone in self._found if gone.readers.template == template]

    def logs(self) -> dict[int, Changelog]:
        """The changelogs that their last changes go to, by template."""
        return {gone.readers.template: gone.readers.log for gone in self._found}

    def awaited(self, readers: Readers, at: int | None) -> int | None:
        """The entry after which a reader (or all) has its last changes; None: it has them."""
        return max((gone.entry for gone in self._found if gone.concerns(readers, at)), default=None)

    def let_go(self, entry: int) -> list[Leaving]:
        """Entries up to this one were run: their last changes go to their handles."""
        done = [gone for gone in self._found if gone.entry <= entry]
        self._found = [gone for gone in self._found if gone.entry > entry]
        for gone in done:
            gone.readers.leave(gone.places)
        return done
