"""The eddy: who is drawn, what is learnt, what is forgotten."""

from __future__ import annotations

from collections import Counter

from penstock.eddy.eddy import Eddy


def _draws(eddy: Eddy, ready: list[str], times: int = 2000) -> Counter[str]:
    return Counter(ready[eddy.choose(ready)] for _ in range(times))


def test_the_module_that_rejects_more_is_drawn_more_often() -> None:
    eddy = Eddy()
    for _ in range(20):
        eddy.learn("good", 1000, 1000, 100, 0, 1000)
        eddy.learn("bad", 1000, 1000, 900, 0, 1000)
    draws = _draws(eddy, ["bad", "good"])
    assert draws["good"] > 5 * draws["bad"] > 0


def test_what_is_slow_is_drawn_less_often() -> None:
    eddy = Eddy()
    for _ in range(20):
        eddy.learn("slow", 1000, 1000, 500, 0, 50_000_000)
        eddy.learn("fast", 1000, 1000, 500, 0, 1000)
    draws = _draws(eddy, ["slow", "fast"])
    assert draws["fast"] > 20 * draws["slow"]
    assert draws["slow"], "a little exploration always"


def test_a_visit_that_was_interrupted_says_nothing() -> None:
    eddy = Eddy()
    for ns in (50_000_000, 1000, 1000, 1000, 50_000_000):  # loading code; another process
        eddy.learn("a", 1000, 1000, 500, 0, ns)
        eddy.learn("b", 1000, 1000, 500, 0, 1000)
    draws = _draws(eddy, ["a", "b"])
    assert 0.5 < draws["a"] / draws["b"] < 2.0


def test_what_has_become_slow_is_noticed() -> None:
    eddy = Eddy()
    for ns in (1000, 50_000_000):
        for _ in range(10):
            eddy.learn("a", 1000, 1000, 500, 0, ns)
            eddy.learn("b", 1000, 1000, 500, 0, 1000)
    draws = _draws(eddy, ["a", "b"])
    assert draws["b"] > 20 * draws["a"]


def test_tickets_fade_when_selectivities_change() -> None:
    eddy = Eddy()
    for _ in range(100):
        eddy.enter(1000)
        eddy.learn("old", 1000, 1000, 0, 0, 1000)
        eddy.learn("new", 1000, 1000, 1000, 0, 1000)
    assert eddy.shares()["old"] > 0.9
    for _ in range(30):
        eddy.enter(1000)
        eddy.learn("old", 1000, 1000, 1000, 0, 1000)
        eddy.learn("new", 1000, 1000, 0, 0, 1000)
    assert eddy.shares()["new"] > 0.9


def test_tickets_fade_by_rows_that_enter_however_many_modules_they_visit() -> None:
    eddy = Eddy()
    eddy.learn("a", 1000, 1001, 0, 0, 1000)
    eddy.learn("b", 1000, 0, 0, 0, 1000)
    before = eddy.score("a").tickets
    eddy.learn("b", 1000, 0, 0, 0, 1000)
    assert eddy.score("a").tickets == before
    eddy.enter(5000)
    assert eddy.score("a").tickets == before / 2


def test_a_query_taken_too_early_to_spare_a_visit_earns_a_fifth() -> None:
    eddy = Eddy()
    eddy.learn("a", 100, 100, 50, 0, 1000)
    eddy.learn("b", 100, 100, 50, 50, 1000)
    eddy.learn("c", 100, 100, 50, 20, 1000)
    assert [eddy.score(key).tickets for key in "abc"] == [51.0, 11.0, 35.0]
    assert eddy.score("b").selectivity == 0.5


def test_a_stem_that_multiplies_rows_keeps_one_ticket() -> None:
    eddy = Eddy()
    eddy.learn("stem", 100, 100, 5000, 0, 1000)
    assert eddy.score("stem").tickets == 1.0
    assert eddy.score("stem").selectivity == 50.0


def test_policies() -> None:
    fixed = Eddy("fixed")
    assert set(_draws(fixed, ["a", "b", "c"], 50)) == {"a"}
    random = _draws(Eddy("random"), ["a", "b", "c"], 3000)
    assert min(random.values()) > 800
    best = Eddy("optimal")
    assert best.choose(["a", "b"]) == 0, "what is not known is tried"
    best.learn("a", 100, 100, 50, 0, 1000)
    assert best.choose(["a", "b"]) == 1
    best.learn("b", 100, 100, 10, 0, 1000)
    assert set(_draws(best, ["a", "b"], 20)) == {"b"}


def test_the_same_seed_draws_the_same() -> None:
    def run() -> list[int]:
        eddy = Eddy(seed=7)
        eddy.learn("a", 10, 10, 5, 0, 10)
        return [eddy.choose(["a", "b", "c"]) for _ in range(50)]

    assert run() == run()


def test_a_module_that_is_gone_is_forgotten() -> None:
    eddy = Eddy()
    eddy.learn("a", 10, 10, 5, 0, 10)
    eddy.forget({"a", "unknown"})
    assert eddy.shares() == {}
