"""What a standing query reads when it names a view: the view's answer from now on.

Before the streams of a view have brought a row, its definition gives the same answer and is
planned together with the query. Afterwards rows that the view has seen are gone, so the query
begins with the view's answer and follows its changes (`ViewScan`). A view that keeps nothing has no
answer, and one over tables alone is what its definition says: their definition is always used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import NameError_
from penstock.logical.nodes import Node, ViewScan
from penstock.logical.reads import streams_of, tables_of, views_of
from penstock.logical.udf import Udf
from penstock.queries.registry import Chosen
from penstock.sql.catalog import Relation, ViewDef

if TYPE_CHECKING:
    from penstock.session.session import Session


@dataclass(frozen=True, slots=True)
class Standing:
    """The catalog of a session for a query that is registered now.

    `follows` remembers for each view that was asked for whether the query follows its changes.
    """

    session: Session
    follows: dict[str, bool]

    @property
    def names(self) -> list[str]:
        """Of all streams, tables and views."""
        return self.session._catalog.names

    def udf(self, name: str) -> Udf | None:
        """The user-defined function called `name`."""
        return self.session._catalog.udf(name)

    def relation(self, name: str) -> Relation | None:
        """The stream, table or view called `name`."""
        found = self.session._catalog.relation(name)
        if not isinstance(found, ViewDef):
            return found
        if found.name not in self.follows:
            self.follows[found.name] = _has_begun(self.session, found)
        return _followed(self.session, found) if self.follows[found.name] else found


def as_in(session: Session, plan: Node) -> Standing:
    """The catalog as it was for a plan: of the views that it reads it followed these."""
    followed = {view.view for view in views_of(plan)}
    views = [r.name for r in session._catalog.relations.values() if isinstance(r, ViewDef)]
    return Standing(session, {name: name in followed for name in views})


def _has_begun(session: Session, view: ViewDef) -> bool:
    """Whether the answer of a view may depend on rows that came before now."""
    _, template = session._running(view.name)
    return not template.monotonic and any(map(session._has_rows, streams_of(view.node)))


def _followed(session: Session, view: ViewDef) -> ViewDef:
    """The view as what has its answer and changes: the same object as long as it is the same."""
    info = session._query_info(view.name)
    node = ViewScan(
        view.name, view.node.schema, info.template, info.qid,
        streams_of(view.node), tables_of(view.node),
    )  # fmt: skip
    known = session._followed.get(view.name)
    if known is None or known.node != node:
        session._followed[view.name] = known = ViewDef(view.name, node)
    return known


def check_readers(session: Session, chosen: Chosen) -> None:
    """Refuse to drop a view whose changes another query follows."""
    registry = session._registry
    for group, places in chosen if registry.followed else ():
        for name in group.names.at(places):
            for template in sorted(registry.followed.get(name, ())):
                for reader in registry.some_names(template, 1):
                    raise NameError_(
                        f"{name} is read by {reader}",
                        code="PS-NAME-009",
                        remedy=f"drop {reader} first",
                    )
