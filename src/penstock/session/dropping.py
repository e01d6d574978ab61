"""Drops queries: one retraction covers all queries that are dropped together."""

from __future__ import annotations

from penstock.arrays import I64
from penstock.errors import NameError_
from penstock.queries.registry import Chosen, Group, QueryInfo
from penstock.session.books import Books
from penstock.session.runner import Runner
from penstock.session.standing import check_readers
from penstock.sql.catalog import ViewDef


def drop_queries(books: Books, runner: Runner, places: list[tuple[int, I64]]) -> None:
    """Drop queries of one template, given as groups and places, in one step."""
    registry = books.queries.registry
    chosen = [(registry.groups[number], some) for number, some in places]
    _check_sinks(books, chosen)
    check_readers(registry, chosen)
    for group, some in chosen:
        group.dropped[some] = True
    running = [(group, group.running(some)) for group, some in chosen]
    running = [(group, some) for group, some in running if some.shape[0]]
    try:
        if running:
            runner.steps.retract(running)
    finally:  # even if a subscriber raises
        _forget(books, chosen)
        runner.answers.forget()


def _check_sinks(books: Books, chosen: Chosen) -> None:
    """Raise an error if one of the queries feeds a sink."""
    for create in books.delivery.sinks.statements():
        info = books.queries.registry.find(create.view)
        if info is not None and _is_among(info, chosen):
            raise NameError_(
                f"{create.view} feeds the sink {create.name}",
                code="PS-NAME-009",
                remedy=f"DROP SINK {create.name} first",
            )


def _is_among(info: QueryInfo, chosen: Chosen) -> bool:
    return any(group is info.group and info.at in places for group, places in chosen)


def _forget(books: Books, chosen: Chosen) -> None:
    """Remove queries that the engine no longer has from all books."""
    registry = books.queries.registry
    registry.remove(chosen)
    for group, places in chosen:
        _forget_views(books, group, places)
    books.delivery.forget(chosen)
    for template in {group.template for group, _ in chosen}:
        if template not in books.engine.templates and not registry.count(template):
            registry.forget_template(template)
            del books.delivery.logs[template]


def _forget_views(books: Books, group: Group, places: I64) -> None:
    for name in group.names.at(places) if group.names.given is not None else ():
        if isinstance(books.catalog.relation(name), ViewDef):
            books.catalog.remove(name)
