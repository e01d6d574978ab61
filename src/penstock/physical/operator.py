"""The operator contract: a spec, state in the arena, `step` (DESIGN §5.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.errors import PlanError
from penstock.physical.specs import Spec
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

    The spec is the whole configuration. `step` consumes what the inputs emitted in the interval of
    `clock`, in time order, and returns its own rows in time order, every ts within the interval.
    It keeps no state outside `scope`. `contents` is the live output at `clock.now`, signs +1,
    ts = clock.now. `purge` forgets the given lineage ids (of the output edge's level) without
    emitting.
    """

    def __init__(self, spec: Spec, inputs: Iterable[Operator], scope: Scope) -> None:
        self.spec = spec
        self.inputs = tuple(inputs)
        self.edge = spec.edge
        self.scope = scope

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume one batch per input, emit the output's changes."""
        raise PlanError(f"{self.spec.name} takes no steps")

    def idle(self, now: int) -> bool:
        """Whether a step without input up to `now` would change and emit nothing.

        Only asked when no input has rows; an operator that is cheap to ask need not know.
        """
        return False

    def contents(self, clock: Clock) -> Delta:
        """The live output rows at `clock.now`."""
        raise PlanError(f"{self.spec.name} has no contents")

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

    def notes(self) -> list[str]:
        """What it has learnt while it ran, for EXPLAIN: a line each."""
        return []

    def close(self) -> None:
        """Leave what it shares with other plans: its own plan is gone."""


def counted(n: int, what: str) -> str:
    """So many of something, for EXPLAIN."""
    plural = what.removesuffix("y") + "ies" if what.endswith("y") else what + "s"
    return f"{n:,} {what if n == 1 else plural}"
