"""Reading a session: many views at once, and what became of the rows of a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from oracle.fold import Values, bag, rows_of
from penstock.errors import PenstockError
from penstock.session.asking import AskedAnswers, Question
from penstock.session.served_views import ServedViews


def views(session: Any, queries: Iterable[Any]) -> dict[Any, Counter[Values]]:
    """The answers of the queries that have one; on Spark, all are asked for in one batch."""
    found: dict[Any, Counter[Values]] = {}
    asked, posed = [], _asking(session)
    for query in queries:
        try:
            info, template = session._books.queries.running(query.name)
        except PenstockError:  # dropped
            continue
        if template.monotonic or session[query.name] != query:
            continue
        if posed is not None:
            question = Question(template, info)
            posed.pose(question, np.array([info.qid]))
            asked.append((query, question))
        else:
            found[query] = bag(rows_of(query.view()))
    if posed is not None and asked:
        session.flush()
        posed.questions.clear()
    return found | {query: bag(rows_of(question.rows())) for query, question in asked}


def _asking(session: Any) -> AskedAnswers | None:
    """What asks shards for answers; None where there are none."""
    answers = session._runner.answers
    answers = answers.asked if isinstance(answers, ServedViews) else answers
    return answers if isinstance(answers, AskedAnswers) else None


def counts(session: Any, stream: str) -> dict[str, int]:
    """What became of the rows of a stream; nothing is lost."""
    told = session.stats()["streams"][stream]
    assert told["received"] == told["accepted"] + told["late"] + told["quarantined"]
    return {name: told[name] for name in ("received", "accepted", "late", "quarantined")}
