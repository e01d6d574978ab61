"""The grouped filter, by each of its methods, equals the scan of all pairs; also inside the engine.

Populations of queries come and go between batches, so that parts are merged, emptied and built
again, and qids are recycled.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from oracle.check import check, compare
from penstock.arrays import I8, I64, Bool
from penstock.delta import Lineage
from penstock.eddy import index_policy
from penstock.indexes.contract import AttributeRows
from penstock.indexes.template.predicates import TemplatePredicates
from penstock.indexes.template.template_index import TemplateIndex
from penstock.kernels.grouped_filter import signed_pairs
from penstock.kernels.match import match_queries
from penstock.logical.expr import conjunction
from penstock.logical.expr import conjuncts as conjuncts_of
from penstock.queries.query_table import QueryTable
from penstock.state.arena import Arena
from property.cases import CHUNKS, Case, case, seeds, tally, verify
from property.data import params_of, session, streams_of
from property.predicates import KINDS, Predicates, expected, new_context
from property.test_many import TEMPLATES, together

ENDS = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max])
PATTERNS = [None, "", "a", "a%", "%b", "_", "ab%", "%", "_b", "A%"]
AWKWARD = np.array([np.nan, np.inf, -np.inf, 0.0])


class Population:
    """A random template, its queries, and rows for them."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        count = int(rng.integers(0, 6))
        attributes = rng.integers(0, max(count, 1), count)
        attributes = np.unique(attributes, return_inverse=True)[1]  # none is missing
        self.floats: Bool = rng.random(count) < 0.3
        ops = rng.integers(0, 6, count)
        params = rng.permutation(count)
        self.preds: I64 = np.stack(
            [ops, self.floats[attributes], params, attributes], axis=1
        ).reshape(count, 4)
        self.attributes = int(attributes.max()) + 1 if count else 0
        self.spread = int(rng.choice([2, 20, 10**6]))
        self.table = QueryTable(Arena().scope("Q"), count)

    def words(self, n: int, is_float: bool) -> I64:
        """Values with ties and awkward ones among them."""
        rng = self.rng
        plain = rng.integers(-self.spread, self.spread, n)
        odd = rng.random(n) < 0.05
        if is_float:
            return np.where(odd, rng.choice(AWKWARD, n), plain / 4 + 0.0).view(np.int64)
        return np.where(odd, rng.choice(ENDS, n), plain)

    def matrix(self, n: int, kinds: list[bool]) -> I64:
        """Columns of these kinds, some NULL."""
        out = np.zeros((1 + len(kinds), n), np.int64)
        for c, is_float in enumerate(kinds):
            null = self.rng.random(n) < 0.03
            out[0] |= null.astype(np.int64) << c
            out[1 + c] = np.where(null, 0, self.words(n, is_float))
        return out

    def change(self) -> None:
        """Some queries come, some go."""
        rng = self.rng
        kinds = self.preds[np.argsort(self.preds[:, 2]), 1].astype(bool).tolist()
        self.table.add(self.matrix(int(rng.integers(1, 400)), kinds), int(rng.integers(0, 4)))
        live = self.table.live(Lineage.QUERY)
        gone = rng.choice([0.0, 0.2, 0.9])
        self.table.drop(live[rng.random(live.shape[0]) < gone])

    def rows(self, keyed: bool) -> tuple[I64, I64, I8]:
        """Values, lineage and signs of some rows."""
        rng, n = self.rng, int(self.rng.integers(1, 300))
        kinds = [bool(self.floats[a]) for a in range(self.attributes)]
        lin = rng.integers(0, 4, n)
        sign = rng.choice([-1, 1], n).astype(np.int8)
        first = np.arange(0, n - 1, 2)[rng.random((n - 1 + 1) // 2) < 0.5] if n > 1 else []
        if keyed:
            sign[first], sign[np.add(first, 1)] = -2, 2
            lin[np.add(first, 1)] = lin[first]
        return self.matrix(n, kinds), lin, sign


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_method_equals_the_scan(chunk: int) -> None:
    for seed in seeds(41, chunk, 400):
        _compare(Population(seed))
        tally["grouped filter"] += 1


def _compare(some: Population) -> None:
    table = some.table
    by_cohort, keyed = (bool(some.rng.integers(2)) for _ in range(2))
    grouped = TemplateIndex(table, some.preds, by_cohort)
    for _ in range(4):
        some.change()
        values, lin, sign = some.rows(keyed)
        live = table.live(Lineage.QUERY)
        expected = match_queries(
            lin, sign, by_cohort, keyed, values, some.preds, table.matrix(), live,
            table.since(Lineage.QUERY), table.cohort(),
        )  # fmt: skip
        for method in (None, "index", "bits"):
            sets = grouped.match(AttributeRows(values, lin), method)  # type: ignore[arg-type]
            found = signed_pairs(sets, sign, keyed)
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs, err_msg=str(method))
        queries, counts = grouped.count(AttributeRows(values, lin))
        np.testing.assert_array_equal(queries, live)
        per_query = np.bincount(expected[1], minlength=live.max(initial=0) + 1)
        np.testing.assert_array_equal(counts, per_query[live])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_terms_equal_the_plain_evaluation(chunk: int) -> None:
    for seed in seeds(44, chunk, 400):
        _compare_terms(Random(seed))
        tally["grouped filter, terms"] += 1


def _compare_terms(rng: Random) -> None:
    """Every method finds what a query takes, and no more for those it is sure of."""
    ctx, source = new_context(), Predicates(rng)
    conjuncts = conjuncts_of(source.predicate())
    for _ in range(rng.randint(0, 2)):
        conjuncts += conjuncts_of(source.predicate())
    parts = TemplatePredicates(conjuncts, counting=rng.random() < 0.5)
    table = QueryTable(Arena().scope("Q"), len(source.params))
    by_cohort = rng.random() < 0.3
    grouped = TemplateIndex(
        table, parts.preds, by_cohort, parts.attributes, parts.alternatives, ctx
    )
    every = conjunction(conjuncts)
    told = conjunction([c for c in conjuncts if c not in conjuncts_of(parts.called)])
    assert every is not None
    for _ in range(3):
        table.add(source.rows(source.params, rng.choice([1, 10, 80]), ctx), rng.randrange(3))
        live = table.live(Lineage.QUERY)
        table.drop(live[np.array([rng.random() < rng.choice([0, 0.3, 0.9]) for _ in live]) > 0])
        live = table.live(Lineage.QUERY)
        columns = source.rows(list(KINDS), rng.choice([1, 30]), ctx)
        lin = np.array([rng.randrange(3) for _ in range(columns.shape[1])])
        values = np.zeros((1 + len(parts.attributes), columns.shape[1]), np.int64)
        for a, attribute in enumerate(parts.attributes):
            values[1 + a], null = attribute.words(ctx)(columns)
            values[0] |= 0 if null is None else null.astype(np.int64) << a
        seen = lin[:, None] >= table.since(Lineage.QUERY)[live]
        if by_cohort:
            seen = lin[:, None] == table.cohort()[live]
        pairs = {}
        for method in ("index", "bits", None):
            found = grouped.match(AttributeRows(values, lin), method)  # type: ignore[arg-type]
            rows = np.repeat(np.arange(lin.shape[0]), np.diff(found.offsets))
            pairs[method] = list(zip(rows.tolist(), found.items.tolist(), strict=True))
            assert pairs[method] == sorted(set(pairs[method]))
        assert pairs["index"] == pairs["bits"] == pairs[None]
        taken = np.zeros((lin.shape[0], int(live.max(initial=0)) + 1), np.bool_)
        taken[[r for r, _ in pairs[None]], [q for _, q in pairs[None]]] = True
        for q, sees, sure in zip(live, seen.T, grouped.exact(live), strict=True):
            assert not (taken[:, q] & ~sees).any()
            wanted, known = expected(every, columns, table.matrix()[q], ctx)
            assert not (wanted & known & sees & ~taken[:, q]).any()
            if sure and told is not None:
                most, known = expected(told, columns, table.matrix()[q], ctx)
                assert not (taken[:, q] & known & ~most).any()
        counted, counts = grouped.count(AttributeRows(values, lin))
        assert np.array_equal(counted, live)
        assert np.array_equal(counts, taken[:, live].sum(axis=0))


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine asks the grouped filter however little there is to compare."""
    monkeypatch.setattr(index_policy, "MOST_IN_GROUPS", 0)
    monkeypatch.setattr(TemplateIndex, "pays", staticmethod(lambda rows, queries: True))


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_plans_through_the_filter(chunk: int) -> None:
    def exact(subject: Case) -> None:
        check(list(subject.sqls), subject.scenario)

    for seed in seeds(42, chunk, 100):
        verify("through the filter", case(seed, queries=2), exact)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_through_the_filter(template: str) -> None:
    for seed in seeds(43, TEMPLATES.index(template), CHUNKS):
        rng = Random(seed)
        params = [params_of(rng) for _ in range(12)]
        compare(together(template, params, session(rng, streams_of(template), set(), 20)))


FORMS = (
    "SELECT k, a FROM r [RANGE 4] WHERE a IN ($lo, $hi) AND k >= $k",
    "SELECT k, a FROM r [RANGE 4] WHERE a NOT IN ($lo, $hi, 2)",
    "SELECT k, a FROM r [RANGE 4] WHERE k = $k OR a > $lo",
    "SELECT k, a FROM r [RANGE 4] WHERE (k = $k AND a > $lo) OR a = $hi OR k + a = 3",
    "SELECT k, a FROM r [RANGE 4] WHERE (a IS NULL OR a < $lo) AND k IN ($k, $hi)",
    "SELECT k, a FROM r [RANGE 4] WHERE (a >= $lo OR $lo IS NULL) AND (k = $k OR $k IS NULL)",
    "SELECT k, a FROM r [RANGE 4] WHERE NOT (a BETWEEN $lo AND $hi) AND greatest(k, $k) > 1",
    "SELECT k, a FROM r [RANGE 4] WHERE a IS DISTINCT FROM $lo AND (k = $k) IS NOT TRUE",
    "SELECT k, c FROM u [RANGE 4] WHERE c LIKE $w AND k <> $k",
    "SELECT k, c FROM u [RANGE 4] WHERE c NOT LIKE $w || '%' OR c = $v",
    "SELECT k, c FROM u [RANGE 4] WHERE c > $v AND NOT c IN ($w, 'a')",
    "SELECT k, c FROM u [RANGE 4] WHERE starts_with(c, $v) OR c ILIKE $w OR c IS NULL",
    "SELECT k, count(*) AS n FROM u [RANGE 4] WHERE c IN ($v, $w) OR k = $k GROUP BY k",
)


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize("template", FORMS)
def test_other_forms_through_the_filter(template: str) -> None:
    stream = "u" if " u " in template else "r"
    for seed in seeds(45, FORMS.index(template), 6 * CHUNKS):
        rng = Random(seed)
        params: list[dict[str, object]] = [_some_params(rng) for _ in range(12)]
        compare(together(template, params, session(rng, {stream}, set(), 20)))
        tally["forms through the filter"] += len(params)


def _some_params(rng: Random) -> dict[str, object]:
    numbers = {name: rng.choice([None, -1, 0, 1, 2, 3, 4]) for name in ("lo", "hi", "k")}
    texts = {"v": rng.choice([None, "", "a", "ab", "b"]), "w": rng.choice(PATTERNS)}
    return {**numbers, **texts}
