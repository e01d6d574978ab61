"""What a standing query reads when it names a view: the view's answer from now on.

Before the streams of a view have brought a row, its definition gives the same answer and is
planned together with the query. Afterwards rows that the view has seen are gone, so the query
begins with the view's answer and follows its changes (`ViewScan`). A view that keeps nothing has no
answer, and one over tables alone is what its definition says: their definition is always used.
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
    """The catalog of a session for a query that is registered now.

    `follows` remembers for each view that was asked for whether the query follows its changes.
    """

    catalog: SessionCatalog
    queries: QueryBook
    has_rows: HasRows
    follows: dict[str, bool]

    @property
    def names(self) -> list[str]:
        """Of all streams, tables and views."""
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
        """The catalog as it was for a plan: of the views that it reads it followed these."""
        followed = {view.view for view in views_of(plan)}
        follows = {view.name: view.name in followed for view in self.catalog.views()}
        return Standing(self.catalog, self.queries, self.has_rows, follows)

    def _has_begun(self, view: ViewDef) -> bool:
        """Whether the answer of a view may depend on rows that came before now."""
        _, template = self.queries.running(view.name)
        return not template.monotonic and any(map(self.has_rows, streams_of(view.node)))

    def _followed(self, view: ViewDef) -> ViewDef:
        """The view as what has its answer and changes: one object as long as it is the same."""
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
    """Refuse to drop a view whose changes another query follows."""
    for group, places in chosen if registry.followed else ():
        for name in group.names.at(places):
            for template in sorted(registry.followed.get(name, ())):
                for reader in registry.some_names(template, 1):
                    raise NameError_(
                        f"{name} is read by {reader}",
                        code="PS-NAME-009",
                        remedy=f"drop {reader} first",
                    )
