"""The meaning of a view's name in a new standing query: the view's answer from now on.

While the streams of a view have brought no row, its definition gives the same answer, so the query
is planned together with the definition. Later, rows that the view has seen are gone, so the query
starts with the view's answer and follows its changes (`ViewScan`). A view without state and a view
over tables alone are always replaced by their definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import NameError_
from penstock.logical.nodes import Node, ViewScan
from penstock.logical.reads import streams_of, tables_of, views_of
from penstock.logical.udf import Udf
from penstock.queries.registry import Chosen, Registry
from penstock.session.catalog import SessionCatalog
from penstock.session.query_book import QueryBook
from penstock.sql.catalog import Relation, ViewDef

HasRows = Callable[[str], bool]
"""Whether a stream may have brought rows."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The catalog as a query sees it that is registered now.

    `follows` records, for each view that was looked up, whether the query follows its changes.
    """

    catalog: SessionCatalog
    queries: QueryBook
    has_rows: HasRows
    follows: dict[str, bool]

    @property
    def names(self) -> list[str]:
        """The names of all streams, tables and views."""
        return self.catalog.names

    def udf(self, name: str) -> Udf | None:
        """The user-defined function called `name`."""
        return self.catalog.udf(name)

    def relation(self, name: str) -> Relation | None:
        """The stream, table or view called `name`."""
        found = self.catalog.relation(name)
        if not isinstance(found, ViewDef):
            return found
        if found.name not in self.follows:
            self.follows[found.name] = self._has_begun(found)
        return self._followed(found) if self.follows[found.name] else found

    def as_for(self, plan: Node) -> Standing:
        """The catalog as it was when `plan` was made: the plan tells which views it followed."""
        followed = {view.view for view in views_of(plan)}
        follows = {view.name: view.name in followed for view in self.catalog.views()}
        return Standing(self.catalog, self.queries, self.has_rows, follows)

    def _has_begun(self, view: ViewDef) -> bool:
        """Whether the answer of a view may depend on rows that arrived before now."""
        _, template = self.queries.running(view.name)
        return not template.monotonic and any(map(self.has_rows, streams_of(view.node)))

    def _followed(self, view: ViewDef) -> ViewDef:
        """The view as a relation with its answer and changes.

        The same object until the view changes.
        """
        info = self.queries.info(view.name)
        node = ViewScan(
            view.name, view.node.schema, info.template, info.qid,
            streams_of(view.node), tables_of(view.node),
        )  # fmt: skip
        known = self.queries.followed.get(view.name)
        if known is None or known.node != node:
            self.queries.followed[view.name] = known = ViewDef(view.name, node)
        return known


def check_readers(registry: Registry, chosen: Chosen) -> None:
    """Raise an error for dropping a view if another query follows its changes."""
    for group, places in chosen if registry.followed else ():
        for name in group.names.at(places):
            for template in sorted(registry.followed.get(name, ())):
                for reader in registry.some_names(template, 1):
                    raise NameError_(
                        f"{name} is read by {reader}",
                        code="PS-NAME-009",
                        remedy=f"drop {reader} first",
                    )
