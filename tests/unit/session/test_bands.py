"""Bounds of bands in texts: which texts share a plan, and that each has its own answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import penstock
from penstock.session.known_texts import KnownTexts

BAND = "SELECT r.k, s.k AS sk FROM r [RANGE {w}] r JOIN s [RANGE 5] s ON s.a - r.a {bounds}"


@pytest.fixture
def ps() -> Iterator[Any]:
    with penstock.connect(runner="inprocess") as session:
        for name in "rs":
            columns = "k BIGINT, a BIGINT, x DOUBLE, ts BIGINT"
            session.sql(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts")
        yield session


def text(bounds: str, w: int = 5) -> str:
    return BAND.format(bounds=bounds, w=w)


def templates(ps: Any) -> int:
    return len(ps._books.queries.registry.templates)


def plan_of(query: Any) -> str:
    return str(query.explain().splitlines()[0].split(":")[1].split(",")[0].strip())


def test_all_bands_but_the_first_share_a_plan(ps: Any) -> None:
    queries = [ps.query(text(f"BETWEEN {i} AND {i + 3}", w=5 + i % 2)) for i in range(6)]
    assert [plan_of(q) for q in queries] == ["template 1", *["template 2"] * 5]
    again = ps.query(text("BETWEEN 0 AND 3"))
    assert plan_of(again) == "template 1", "the bounds that have a plan keep it"
    other_window = ps.query(text("BETWEEN 0 AND 3", w=9))
    assert plan_of(other_window) == "template 3", "with other windows they have another"


def test_one_sided_bands_and_two_sided_ones_are_different_plans(ps: Any) -> None:
    for bounds in ("<= 3", "BETWEEN 1 AND 3"):
        for i in range(3):
            ps.query(text(bounds.replace("3", str(3 + i))))
    assert templates(ps) == 4


def test_a_band_with_other_conditions_is_shared_from_the_first_on(ps: Any) -> None:
    for i in range(4):
        ps.query(text(f"BETWEEN {i} AND {i + 1} AND r.k > {i} AND s.x < {i}.5", w=3 + i))
    assert templates(ps) == 1


def test_each_query_has_its_own_answer(ps: Any) -> None:
    queries = {
        (low, high): ps.query(text(f"BETWEEN {low} AND {high}"))
        for low, high in ((-1, 1), (0, 0), (1, 2), (2, 1), (-9, 9))
    }
    ps.push("r", [{"k": i, "a": i, "ts": 1} for i in range(4)])
    ps.push("s", [{"k": 10 + i, "a": i, "ts": 2} for i in range(4)])
    ps.advance(ts=3)
    for (low, high), query in queries.items():
        wanted = sorted((i, 10 + j) for i in range(4) for j in range(4) if low <= j - i <= high)
        found = sorted((row["k"], row["sk"]) for row in query.view().to_pylist())
        assert found == wanted, (low, high)
    ps.advance(ts=6)
    assert all(query.view().num_rows == 0 for query in queries.values())


@pytest.mark.parametrize(
    "bounds",
    [
        "BETWEEN 17 AND 99", "= 17", ">= 17 AND s.a - r.a <= 99", "BETWEEN -17 AND 99",
        "BETWEEN 17 AND 99 AND r.k > 45",
    ],
)  # fmt: skip
def test_a_text_that_differs_in_bounds_is_not_parsed_again(
    ps: Any, bounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in (1, 2):
        ps.query(text(bounds.replace("17", str(i))))
    learnt: list[str] = []
    learn = KnownTexts._learn

    def counting(self: KnownTexts, *args: Any) -> Any:
        learnt.append("a text")
        return learn(self, *args)

    monkeypatch.setattr(KnownTexts, "_learn", counting)
    before = templates(ps)
    ps.query(text(bounds.replace("17", "3").replace("99", "77").replace("45", "44")))
    assert not learnt
    assert templates(ps) == before


def test_strict_bounds_share_a_plan_with_loose_ones(ps: Any) -> None:
    for bounds in ("<= 1", "< 2", "<= 7", "< 9"):
        ps.query(text(bounds))
    assert templates(ps) == 2


def test_bands_of_doubles_are_lifted(ps: Any) -> None:
    for i in range(4):
        ps.query(
            "SELECT r.k FROM r [RANGE 5] r JOIN s [RANGE 5] s"
            f" ON s.x - r.x BETWEEN {i}.5 AND {i + 2}.25"
        )
    assert templates(ps) == 2


def test_constants_of_one_side_in_on_are_lifted(ps: Any) -> None:
    for i in range(4):
        ps.query(
            "SELECT r.a FROM r [RANGE 5] r JOIN s [RANGE 5] s"
            f" ON r.k = s.k AND r.a > {i} AND s.a BETWEEN {i} AND {i + 5}"
        )
    assert templates(ps) == 1


def test_a_restart_keeps_which_bands_have_plans(tmp_path: Any) -> None:
    directory = str(tmp_path / "kept")
    with penstock.connect(runner="inprocess", checkpoint=directory) as ps:
        for name in "rs":
            ps.sql(f"CREATE STREAM {name} (k BIGINT, a BIGINT, ts BIGINT) TIMESTAMP BY ts")
        for i in range(3):
            ps.query(text(f"BETWEEN {i} AND {i + 3}"))
    with penstock.connect(runner="inprocess", checkpoint=directory) as ps:
        assert templates(ps) == 2
        ps.query(text("BETWEEN 0 AND 3"))
        ps.query(text("BETWEEN 8 AND 9"))
        assert templates(ps) == 2
