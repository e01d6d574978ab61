"""Plans that read views: they begin with a view's answer and follow its changes, step by step.

A view's template has a smaller key than its readers. An engine that runs templates in key order
therefore delivers a view's changes before its readers run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from penstock.arrays import BEGINNING, I64
from penstock.changes import Changes
from penstock.engine.template import Template
from penstock.kernels.changes import INSERT
from penstock.logical.nodes import ViewScan

RowOf = Callable[[int, int], int | None]
"""The row of Q that serves a query of a template; None if it is not here."""


def same_row(_template: int, qid: int) -> int | None:
    """For engines in which every row of Q is one query."""
    return qid


class ViewReaders:
    """Which templates of an engine read the views of which."""

    def __init__(self, templates: dict[int, Template]) -> None:
        self.row_of: RowOf = same_row
        self._templates = templates
        self._by_view: dict[int, set[int]] = {}  # readers by the template of what they read

    def add(self, template: Template) -> None:
        """Add a template that may read views."""
        for leaf in template.plan.views:
            self._by_view.setdefault(leaf.node.template, set()).add(template.key)

    def remove(self, template: Template) -> None:
        """Remove a template."""
        for leaf in template.plan.views:
            readers = self._by_view.get(leaf.node.template, set())
            readers.discard(template.key)
            if not readers:
                self._by_view.pop(leaf.node.template, None)

    def all_of(self, keys: set[int]) -> set[int]:
        """The templates that read views of these, directly or through other views."""
        found: set[int] = set()
        todo = list(keys) if self._by_view else []
        while todo:
            new = self._by_view.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return found

    def begin(self, template: Template) -> None:
        """Give a new template the answers of the views that it reads."""
        for leaf in template.plan.views:
            if not leaf.begun:
                view = self._templates.get(leaf.node.template)
                answer = None if view is None else self._answer(view, leaf.node)
                leaf.begin(answer, BEGINNING if view is None else view.clock)

    def _answer(self, view: Template, node: ViewScan) -> I64 | None:
        row = self.row_of(node.template, node.qid)
        if row is None or view.plan.view is None:
            return None
        return view.held(np.array([row]), INSERT, view.clock).rows

    def tell(self, view: Template, changes: Changes) -> None:
        """Hand the changes of a step to the plans that read them."""
        for key in self._by_view.get(view.key, ()) if len(changes) else ():
            for leaf in self._templates[key].plan.views:
                row = self.row_of(view.key, leaf.node.qid)
                if leaf.node.template == view.key and row is not None:
                    leaf.put(changes, row)

    def readers_of(self, view: int, rows: I64) -> Iterator[tuple[Template, str]]:
        """The templates that read one of some rows of Q, and the view's name."""
        for key in sorted(self._by_view.get(view, ())):
            template = self._templates[key]
            for leaf in template.plan.views:
                if leaf.node.template == view and self.row_of(view, leaf.node.qid) in rows:
                    yield template, leaf.node.view
                    break
