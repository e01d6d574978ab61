"""Reading a session: many views at once, and what became of the rows of a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from oracle.fold import Values, bag, rows_of
from penstock.errors import PenstockError


def views(session: Any, queries: Iterable[Any]) -> dict[Any, Counter[Values]]:
    """The answers of the queries that have one; on Spark, all are asked for in one batch."""
    found: dict[Any, Counter[Values]] = {}
    asked = []
    for query in queries:
        try:
            info, template = session._running(query.name)
        except PenstockError:  # dropped
            continue
        if template.monotonic or session[query.name] != query:
            continue
        if hasattr(session, "_ask"):
            asked.append((query, session._ask(info), info))
        else:
            found[query] = bag(rows_of(query.view()))
    if asked:
        session.flush()
    for query, request, info in asked:
        found[query] = bag(rows_of(session._answer_of(request, info)))
    return found


def counts(session: Any, stream: str) -> dict[str, int]:
    """What became of the rows of a stream; nothing is lost."""
    told = session.stats()["streams"][stream]
    assert told["received"] == told["accepted"] + told["late"] + told["quarantined"]
    return {name: told[name] for name in ("received", "accepted", "late", "quarantined")}
