"""Dropping queries: one retraction for all that go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.arrays import I64
from penstock.engine import blocks as b
from penstock.errors import NameError_
from penstock.kernels.changes import DELETE
from penstock.queries.registry import Chosen, Group, QueryInfo
from penstock.session import delivery, registration
from penstock.sql.catalog import ViewDef

if TYPE_CHECKING:
    from penstock.session.session import Session


def check_sinks(session: Session, chosen: Chosen) -> None:
    """Refuse to drop a query that feeds a sink."""
    for create, _ in session._sinks.values():
        info = session._registry.find(create.view)
        if info is not None and _is_among(info, chosen):
            raise NameError_(
                f"{create.view} feeds the sink {create.name}",
                code="PS-NAME-009",
                remedy=f"DROP SINK {create.name} first",
            )


def _is_among(info: QueryInfo, chosen: Chosen) -> bool:
    return any(group is info.group and info.at in places for group, places in chosen)


def retract(session: Session, chosen: Chosen) -> None:
    """Take queries of one template out of the engine, but for rows of Q that others share."""
    template = chosen[0][0].template
    info = session._registry.templates[template]
    last = session._leave(info, np.concatenate([g.qids[places] for g, places in chosen]))
    try:
        if last.shape[0]:
            session._apply([b.DropQueries(template, last)])
    finally:  # whatever a subscriber raised
        _leave(session, chosen, last)


def _leave(session: Session, chosen: Chosen, last: I64) -> None:
    """Let readers go; those of rows of Q that stay are told that what they hold is taken back."""
    staying: Chosen = []
    for group, places in chosen:
        session._readers[group.number].leave(places)
        stay = places[~np.isin(group.qids[places], last)]
        if stay.shape[0]:
            staying.append((group, stay))
    if staying:
        registration.tell_held(session, staying, DELETE)


def forget(session: Session, chosen: Chosen) -> None:
    """Take queries that the engine no longer has out of all books."""
    session._registry.remove(chosen)
    for group, places in chosen:
        _forget_names(session, group, places)
        if not group.left:
            del session._readers[group.number]
    delivery.let_listeners_go(session)
    for template in {group.template for group, _ in chosen}:
        if template not in session._engine.templates and not session._registry.count(template):
            session._registry.forget_template(template)
            del session._changelogs[template]


def _forget_names(session: Session, group: Group, places: I64) -> None:
    """What is kept by name: who listens to single queries, and views."""
    if session._subscribers:
        for name in group.names.at(places):
            session._subscribers.pop(name, None)
    for name in group.names.at(places) if group.names.given is not None else ():
        if isinstance(session._catalog.relation(name), ViewDef):
            del session._catalog.relations[name.lower()]
