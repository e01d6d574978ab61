"""Base of operators that delegate to a state object chosen when the operator is built.

DISTINCT, EXCEPT and INTERSECT each have two kinds of state, for the two ways in which rows end.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from penstock.arrays import I64
from penstock.delta import Clock, Delta
from penstock.physical.operator import Operator, StringColumns


class KeyedState(Protocol):
    """The state of a keyed operator: values by content, with what is known about their ends."""

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume the inputs up to the clock."""

    def idle(self, now: int) -> bool:
        """Whether nothing ends by `now`."""

    def contents(self, clock: Clock) -> Delta:
        """The live output rows."""

    def purge(self, lins: I64) -> None:
        """Forget the state of these lineage ids."""

    def rows(self) -> int:
        """Number of stored values and entries."""

    def strings(self) -> list[StringColumns]:
        """Arrays with string codes."""


class KeyedOperator(Operator):
    """Forwards each call of the operator contract to its state."""

    _state: KeyedState

    def step(self, inputs: list[Delta], clock: Clock) -> Delta:
        """Consume the inputs up to the clock."""
        return self._state.step(inputs, clock)

    def idle(self, now: int) -> bool:
        """Whether nothing ends by `now`."""
        return self._state.idle(now)

    def contents(self, clock: Clock) -> Delta:
        """The live output rows."""
        return self._state.contents(clock)

    def purge(self, lins: I64) -> None:
        """Forget the state of these lineage ids."""
        self._state.purge(np.asarray(lins, np.int64))

    def rows(self) -> int:
        """Number of stored values and entries."""
        return self._state.rows()

    def strings(self) -> list[StringColumns]:
        """Arrays with string codes."""
        return self._state.strings()
