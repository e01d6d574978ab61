"""How rows leave an operator, as one frozen value per spec (docs/design/0014).

`physical/expiry_policy.py` decides it when a spec enters a plan. Operators and EXPLAIN read it and
decide nothing themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto

from penstock.patterns.edge import Edge, Emit


class Signal(Flag):
    """The sign that a row leaves: its own `exp`, a −1 row, or its place in a stream's log."""

    NONE = 0
    EXP = auto()
    MINUS = auto()
    LOG = auto()


class Store(Enum):
    """The structures that hold rows or results until they leave, in the words of EXPLAIN."""

    NONE = "–"
    COUNTS = "counts"
    FIFO = "FIFO"
    QUEUES = "FIFO per partition"
    CALENDAR = "calendar"
    HASH = "hash"
    ARRAY = "array"
    GROUPS = "group array"
    STEM = "SteM"
    LOG = "log"


_SIGNALS = (
    (Signal.NONE, Signal.MINUS),
    (Signal.EXP, Signal.EXP | Signal.MINUS),
)


def signal_of(edge: Edge) -> Signal:
    """The signs by which rows of an edge leave."""
    return _SIGNALS[edge.expiring][edge.negatives]


@dataclass(frozen=True, slots=True)
class Kept:
    """Of one input: how an operator learns that rows leave, and where it keeps them until then."""

    learns: Signal = Signal.NONE
    store: Store = Store.NONE

    @property
    def retracted(self) -> bool:
        """Whether −1 rows may come."""
        return Signal.MINUS in self.learns

    @property
    def searched(self) -> bool:
        """Whether −1 rows must find the entries that they end."""
        return self.retracted and self.store is not Store.NONE


@dataclass(frozen=True, slots=True)
class Expiry:
    """How an operator learns that rows leave, what it keeps, and how it says that results leave.

    `emits` has EXP where results leave silently; premature ends are −1 rows in any case.
    `results` is the structure of the results beside the stores of the inputs. An operator that
    `recalls` can tell its live output, from state or from a log.
    """

    emits: Signal = Signal.NONE
    inputs: tuple[Kept, ...] = ()
    results: Store = Store.NONE
    recalls: bool = True

    @property
    def tells(self) -> bool:
        """Whether every result that leaves is a −1 row."""
        return Signal.EXP not in self.emits

    @property
    def emit(self) -> Emit:
        """The same in the words of the optimiser and of EXPLAIN."""
        return "explicit" if self.tells else "expiring"

    def structure(self, separator: str = " + ") -> str:
        """All that is kept, for EXPLAIN."""
        kept = [k.store.value for k in self.inputs if k.store is not Store.NONE]
        if self.results is Store.NONE:
            return kept[0] if kept else Store.NONE.value  # both inputs of a join have the same
        return separator.join([self.results.value, *([" / ".join(kept)] if kept else [])])


UNDECIDED = Expiry()
"""The expiry of a spec before it enters a plan."""
