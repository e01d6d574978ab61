"""The specs of re-evaluation: contents of windows, and a plan that runs over them from scratch."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.patterns import edges
from penstock.physical.specs import Spec


@dataclass(frozen=True, slots=True)
class HoldSpec(Spec):
    """The rows that are in a window, instant by instant."""

    name = "contents"

    @classmethod
    def of(cls, source: Spec) -> HoldSpec:
        """With its edge, which is its input's."""
        return cls(edge=source.edge, inputs=(source,))


@dataclass(frozen=True, slots=True)
class HeldSpec(Spec):
    """A leaf of the inner plan: all rows of a window, as rows that arrive."""

    window: Spec
    name = "window"

    @classmethod
    def of(cls, window: HoldSpec) -> HeldSpec:
        """With its edge: rows of one instant do not leave."""
        return cls(window, edge=edges.held_edge(window.edge))


@dataclass(frozen=True, slots=True)
class ReevaluateSpec(Spec):
    """The `inner` plan, evaluated from scratch over the contents of its inputs.

    `top` is the spec of the inner plan with the answer.
    """

    inner: tuple[Spec, ...]
    top: Spec
    name = "re-evaluate"
    nets = True

    @classmethod
    def of(cls, inner: tuple[Spec, ...], top: Spec, windows: tuple[Spec, ...]) -> ReevaluateSpec:
        """With its edge: the difference of two answers."""
        return cls(inner, top, edge=edges.difference_edge(top.edge), inputs=windows)
