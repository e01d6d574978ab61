"""Dropping queries: one retraction for all that go together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from penstock.engine import blocks as b
from penstock.errors import NameError_
from penstock.kernels.changes import DELETE
from penstock.session import delivery, registration
from penstock.sharing.registry import QueryInfo
from penstock.sql.catalog import ViewDef

if TYPE_CHECKING:
    from penstock.session.session import Session


def check_sinks(session: Session, names: list[str]) -> None:
    """Refuse to drop a query that feeds a sink."""
    fed = {create.view: create.name for create, _ in session._sinks.values()}
    for name in names if fed else ():
        if name in fed:
            raise NameError_(
                f"{name} feeds the sink {fed[name]}",
                code="PS-NAME-003",
                remedy=f"DROP SINK {fed[name]} first",
            )


def retract(session: Session, infos: list[QueryInfo]) -> None:
    """Take queries of one template out of the engine, but for rows of Q that others share."""
    template = infos[0].template
    leaving = Counter(info.qid for info in infos)
    subscribers = session._registry.subscribers
    shared = {qid for qid, n in leaving.items() if subscribers(template, qid) > n}
    last = np.array([qid for qid in leaving if qid not in shared], np.int64)
    try:
        if last.shape[0]:
            session._apply([b.DropQueries(template, last)])
    finally:  # whatever a subscriber raised
        for readers, places in delivery.by_readers(session, infos):
            readers.leave(places)
        if shared:  # retract what they hold of rows of Q that stay
            registration.tell_held(session, [i for i in infos if i.qid in shared], DELETE)


def forget(session: Session, infos: list[QueryInfo]) -> None:
    """Take queries that the engine no longer has out of all books."""
    for info in infos:
        session._registry.remove_query(info.name)
        session._subscribers.pop(info.name, None)
        session._handles.pop(info.name, None)
        if isinstance(session._catalog.relation(info.name), ViewDef):
            del session._catalog.relations[info.name.lower()]
    delivery.let_listeners_go(session)
    for template in {info.template for info in infos}:
        if template not in session._engine.templates and not session._registry.count(template):
            session._registry.forget_template(template)
            del session._changelogs[template]
