"""The operator contract: a spec, state in the arena, and `step` (DESIGN §5.2)."""

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
    """An array of the arena that holds string codes, for the collector of the string table.

    `columns` index the last axis of a row-major array; an empty tuple means the whole array.
    """

    array: str
    columns: tuple[int, ...] = ()


class Operator:
    """Base of physical operators.

    The spec is the whole configuration. `step` consumes what the inputs emitted in the interval of
    `clock`, in time order, and returns its own rows in time order, every ts within the interval.
    All state is in `scope`. `contents` returns the live output at `clock.now`, with sign +1 and ts
    = clock.now. `purge` forgets the given lineage ids (of the output edge's level) and emits
    nothing.
    """

    def __init__(self, spec: Spec, inputs: Iterable[Operator], scope: Scope) -> None:
        self.spec = spec
        self.inputs = tuple(inputs)
        self.edge = spec.edge
        self.scope = scope

    @property
    def shared(self) -> object | None:
        """The flow or join that operators of several plans step together; None for most."""
        return None

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume one batch per input; return the changes of the output."""
        raise PlanError(f"{self.spec.name} takes no steps")

    def idle(self, now: int) -> bool:
        """Whether a step without input up to `now` would change and emit nothing.

        The engine asks only when no input has rows. Returning False is always correct.
        """
        return False

    def contents(self, clock: Clock) -> Delta:
        """The live output rows at `clock.now`."""
        raise PlanError(f"{self.spec.name} has no contents")

    def purge(self, lins: I64) -> None:
        """Forget all state of these lineage ids; a stateless operator does nothing."""

    def rows(self) -> int:
        """Number of rows in state."""
        return 0

    def strings(self) -> list[StringColumns]:
        """Arrays of this operator's state that hold string codes, by full arena name."""
        return []

    def held_sets(self) -> list[I64]:
        """Arrays that contain the codes of all query sets in state, and maybe more."""
        return []

    def notes(self) -> list[str]:
        """For EXPLAIN: facts learnt at run time, one line each."""
        return []

    def close(self) -> None:
        """Leave everything shared with other plans, because this plan is gone."""


def counted(n: int, what: str) -> str:
    """A number and a noun in the right form, for EXPLAIN."""
    plural = what.removesuffix("y") + "ies" if what.endswith("y") else what + "s"
    return f"{n:,} {what if n == 1 else plural}"
