"""Queries over random views, registered while rows come: at every instant what the view has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

import penstock
from oracle.fold import Fold, Values, bag, changes_of, rows_of, same
from oracle.scenario import Action, Advance, Push
from property.cases import CHUNKS, Case, case, seeds, tally, verify

Rows = Counter[Values]


def _counts(base: Rows) -> Rows:
    groups: Rows = Counter()
    for row, n in base.items():
        groups[row[:1]] += n
    return groups


def _pairs(base: Rows) -> Rows:
    groups = _counts(base)
    return Counter({(k,): n * n for (k,), n in groups.items() if k is not None})


FOLLOWERS: tuple[tuple[str, Callable[[Rows], Rows]], ...] = (
    ("SELECT * FROM base", lambda base: base),
    ("SELECT * FROM base", lambda base: base),
    (
        "SELECT c0, count(*) AS n FROM base GROUP BY c0",
        lambda base: Counter({(*k, n): 1 for k, n in _counts(base).items()}),
    ),
    ("SELECT DISTINCT c0 FROM base", lambda base: Counter(dict.fromkeys(_counts(base), 1))),
    ("SELECT count(*) AS n FROM base", lambda base: Counter([(base.total(),)])),
    ("SELECT x.c0 FROM base x JOIN base y ON x.c0 = y.c0", _pairs),
    ("SELECT c0 FROM base EXCEPT SELECT c0 FROM base", lambda base: Counter()),
    ("SELECT * FROM base EMIT ON COMMIT", lambda base: base),
    (
        "SELECT sum(n) AS n FROM (SELECT c0, count(*) AS n FROM up GROUP BY c0)",
        lambda base: Counter([(base.total() or None,)]),
    ),
)


def _do(ps: penstock.Session, subject: Case, action: Action) -> None:
    match action:
        case Push(stream, rows):
            ps.push(stream, subject.scenario.dicts(stream, rows))
        case Advance(stream, ts):
            ps.advance(stream, ts)
        case _:
            ps.sql(subject.scenario.dml(action))


def _registered(ps: penstock.Session, text: str) -> penstock.Query | None:
    """A follower, unless shards cannot have it because rows of the view would have to move."""
    try:
        if "FROM up" in text:
            ps.sql("CREATE MATERIALIZED VIEW up AS SELECT * FROM base")
        return ps.query(text)
    except penstock.PenstockError as error:
        if error.code != "PS-PLAN-008":
            raise
        tally["over views: on other shards"] += 1
        return None


def check_followers(subject: Case, shards: int | None, seed: int) -> None:
    rng = Random(seed)
    options = {} if shards is None else {"shards": shards}
    with penstock.connect(runner="inprocess", **options) as ps:
        for text in subject.scenario.ddl():
            ps.sql(text)
        base = ps.sql(f"CREATE MATERIALIZED VIEW base AS {subject.sqls[0]}")
        base.view()  # refused for a plan that keeps nothing
        actions = subject.scenario.actions
        when = sorted(rng.randint(0, len(actions)) for _ in FOLLOWERS)
        standing: list[tuple[penstock.Query, Callable[[Rows], Rows], Fold]] = []
        for at, action in enumerate((*actions, None)):
            for (text, wanted), due in zip(FOLLOWERS, when, strict=True):
                if due == at and (query := _registered(ps, text)) is not None:
                    standing.append((query, wanted, Fold()))
            if action is not None:
                _do(ps, subject, action)
            there = bag(rows_of(base.view()))
            for query, wanted, fold in standing:
                fold.apply(changes_of(query.changes()))
                assert same(bag(rows_of(query.view())), wanted(there)), query.explain()
                assert same(fold.held, wanted(there)), query.explain()
        for query, _, fold in standing:
            query.drop()
            fold.apply(changes_of(query.changes()))
            assert not fold.held.total()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_followers_have_what_the_view_has(chunk: int) -> None:
    for seed in seeds(91, chunk, 80):
        shards = (None, 1, 2, 3)[seed % 4]
        verify("over views", case(seed), lambda c, n=shards, s=seed: check_followers(c, n, s))
