"""Cuts plans into units and lays a queue on every edge between them.

Tables do not change while a pipeline runs. So what reads tables alone has no unit: its queues have
progressed for ever. Plans that show the net change of a batch (EMIT ON COMMIT, EMIT … PER ROW) are
not cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.arrays import NEVER
from penstock.eddy.flow import Flow
from penstock.engine.template import Template
from penstock.physical.flow import FlowOp
from penstock.physical.operator import Operator
from penstock.physical.scan import ScanOp
from penstock.physical.table_scan import TableScanOp
from penstock.physical.view import ViewOp
from penstock.physical.view_scan import ViewScanOp
from penstock.physical.window_join import WindowJoinOp
from penstock.pipeline.queue import Level, Queue
from penstock.pipeline.units import Host, Leaf, Reader, Root, Stage, Unit, ViewLeaf, Whole

Wake = Callable[[Unit], None]


@dataclass(slots=True)
class Wiring:
    """The units of some templates, and those that a change of a stream or view concerns."""

    host: Host
    templates: Mapping[int, Template]
    wake: Wake
    level: Level = field(default_factory=Level)
    units: list[Unit] = field(default_factory=list)
    leaves: dict[int, list[Leaf]] = field(default_factory=dict)  # by template
    followers: dict[int, list[ViewLeaf | Whole]] = field(
        default_factory=dict
    )  # by the view's template
    wholes: dict[int, Whole] = field(default_factory=dict)  # by template
    _shared: dict[tuple[int, tuple[str, ...]], Leaf] = field(default_factory=dict)

    def lay(self) -> Wiring:
        """Cut all templates."""
        for group in uncut(self.templates):
            self._add_whole(group)
        for key in sorted(self.templates.keys() - self.wholes.keys()):
            if self.templates[key].streams:
                self._cut(self.templates[key])
        return self

    def _add_whole(self, keys: set[int]) -> None:
        templates = [self.templates[key] for key in sorted(keys)]
        views = [
            (template, self.templates[view])
            for template in templates
            for view in sorted(read_views(template) & self.templates.keys() - keys)
        ]
        unit = Whole(len(self.units), templates, views, self.host)
        self.units.append(unit)
        self.wholes.update(dict.fromkeys(keys, unit))
        for _, view in views:
            self.followers.setdefault(view.key, []).append(unit)

    def _cut(self, template: Template) -> None:
        outputs: dict[Operator, list[Queue]] = {}
        moving: set[Operator] = set()
        self.leaves[template.key] = []
        for operator in template.plan.operators:
            outputs[operator] = []
            if operator.inputs and moving.isdisjoint(operator.inputs):
                continue  # it reads tables alone
            if operator.inputs:
                self._add_stage(template, operator, outputs, moving)
            elif isinstance(operator, TableScanOp):
                continue
            else:
                self._add_leaf(Reader(template, operator, outputs[operator]))
            moving.add(operator)

    def _add_stage(
        self, template: Template, operator: Operator, outputs: dict[Operator, list[Queue]],
        moving: set[Operator],
    ) -> None:  # fmt: skip
        inputs = []
        for source in operator.inputs:
            at = template.clock if source in moving else NEVER
            queue = Queue(len(source.edge.schema), at, self.level, _asleep)
            outputs[source].append(queue)
            inputs.append(queue)
        kind = Root if isinstance(operator, ViewOp) else Stage
        stage = kind(len(self.units), template, operator, inputs, self.host)
        stage.outputs = outputs[operator]
        for queue in inputs:
            queue.wake = lambda: self.wake(stage)
        self.units.append(stage)

    # ---- leaves ----------------------------------------------------------------------
    def _add_leaf(self, reader: Reader) -> None:
        template, operator = reader.template, reader.operator
        key = (id(operator.shared), template.streams)
        leaf = self._shared.get(key) if operator.shared is not None else None
        if leaf is None:
            leaf = self._new_leaf(reader)
            self._shared[key] = leaf
            self.units.append(leaf)
        else:
            leaf.join(reader)
        self.leaves[template.key].append(leaf)

    def _new_leaf(self, reader: Reader) -> Leaf:
        number, operator = len(self.units), reader.operator
        if isinstance(operator, ViewScanOp):
            view = self.templates.get(operator.node.template)
            leaf = ViewLeaf(number, reader, view, self.host)
            self.followers.setdefault(operator.node.template, []).append(leaf)
            return leaf
        flow = operator.flow if isinstance(operator, FlowOp) else None
        return Leaf(number, [reader], _streams(operator), flow, self.host)


def _asleep() -> None:
    """The consumer of a queue that is being laid."""


def _streams(operator: Operator) -> frozenset[str]:
    """The streams that a leaf reads."""
    match operator:
        case ScanOp():
            return frozenset([operator.node.stream])
        case FlowOp():
            return frozenset(operator.flow.span.streams)
        case WindowJoinOp():
            return frozenset(operator.streams)
    raise TypeError(f"{operator.spec.name} reads no log")


def read_views(template: Template) -> set[int]:
    """The templates of the views that a template reads."""
    return {leaf.node.template for leaf in template.plan.views}


def _flows(templates: Sequence[Template]) -> set[Flow]:
    return {flow for template in templates for flow in template.flows}


# ---- plans that are not cut ----------------------------------------------------------
def uncut(templates: Mapping[int, Template]) -> list[set[int]]:
    """Groups of templates that are not cut: they share flows, or read each other's views."""
    found: list[set[int]] = []
    for key, template in templates.items():
        if template.at_commit or template.sets is not None:
            group = _grown({key}, templates)
            overlapping = [other for other in found if other & group]
            found = [other for other in found if not other & group]
            found.append(group.union(*overlapping))
    return found


def _grown(group: set[int], templates: Mapping[int, Template]) -> set[int]:
    """The group with all that share its flows or read its views, directly or not."""
    while True:
        flows = _flows([templates[key] for key in group])
        more = {
            key
            for key, template in templates.items()
            if read_views(template) & group or not flows.isdisjoint(template.flows)
        }
        if more <= group:
            return group
        group = group | more
