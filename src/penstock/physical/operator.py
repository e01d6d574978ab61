"""The operator contract: frozen configuration, state in the arena, `step` (DESIGN §5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.patterns.edge import Edge
from penstock.state.arena import Scope


@dataclass(frozen=True, slots=True)
class StringColumns:
    """Tells the string table's collector where codes live: arena array and its columns.

    `columns` index the last axis of a row-major array (an empty tuple: the whole array).
    """

    array: str
    columns: tuple[int, ...] = ()


class Operator:
    """Base of physical operators.

    `step` consumes what the inputs emitted in the interval of `clock`, in time order, and
    returns its own rows in time order, every ts within the interval. It keeps no state
    outside `scope`. `contents` is the live output at `clock.now`, signs +1, ts = clock.now.
    `purge` forgets the given lineage ids (of the output edge's level) without emitting.
    """

    name = "operator"

    def __init__(self, inputs: Iterable[Operator], edge: Edge, scope: Scope) -> None:
        self.inputs = tuple(inputs)
        self.edge = edge
        self.scope = scope

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume one batch per input, emit the output's changes."""
        raise PlanError(f"{self.name} takes no steps")

    def idle(self, now: int) -> bool:
        """Whether a step without input up to `now` would change and emit nothing.

        Only asked when no input has rows; an operator that is cheap to ask need not know.
        """
        return False

    def contents(self, clock: Clock) -> Delta:
        """The live output rows at `clock.now`."""
        raise PlanError(f"{self.name} has no contents")

    def purge(self, lins: I64) -> None:
        """Forget all state of these lineage ids. Stateless operators have none."""

    def rows(self) -> int:
        """Rows held in state."""
        return 0

    def strings(self) -> list[StringColumns]:
        """Where this operator's state holds string codes (array names are full arena names)."""
        return []

    def held_sets(self) -> list[I64]:
        """Arrays with the codes of query sets that this operator's state holds (and maybe more)."""
        return []

    def structure(self) -> str:
        """The state structure, for EXPLAIN: FIFO, calendar, hash, group array or –."""
        return "–"

    def detail(self) -> str:
        """Configuration, for EXPLAIN."""
        return ""

    def notes(self) -> list[str]:
        """What else there is to say, for EXPLAIN: a line each."""
        return []


def counted(n: int, what: str) -> str:
    """So many of something, for EXPLAIN."""
    plural = what.removesuffix("y") + "ies" if what.endswith("y") else what + "s"
    return f"{n:,} {what if n == 1 else plural}"
