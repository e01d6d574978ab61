"""Scripts: where statements end, and where errors are."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.cli.feed import parse_input
from penstock.cli.report import print_error
from penstock.cli.script import Script, ScriptError, parse
from penstock.cli.shell import Gatherer
from penstock.errors import PenstockError, Place


def pieces(text: str) -> list[tuple[str, bool]]:
    return [(piece.text, piece.closed) for piece in Script("s", text).pieces()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a; b ;", [("a", True), ("b", True)]),
        ("a 'x;''y'; \"b;\"; `c;`", [("a 'x;''y'", True), ('"b;"', True), ("`c;`", False)]),
        ("-- no; comment\n/* ; */ ;", []),
        ("a -- ;\n;", [("a -- ;", True)]),
        ("a 'open ;", [("a 'open ;", False)]),
        ("", []),
    ],
)
def test_statements_end_at_semicolons(text: str, expected: list[tuple[str, bool]]) -> None:
    assert pieces(text) == expected


def test_places_count_in_the_script() -> None:
    first, second = Script("s", "a;\n  b\n c").pieces()
    assert first.start == Place(1, 1)
    assert second.place(Place(1, 1)) == Place(2, 3)
    assert second.place(Place(2, 2)) == Place(3, 2)


def test_an_error_shows_its_line_and_a_caret() -> None:
    script = Script("app.sql", "SHOW STREAMS;\nSELECT k FRUM s;")
    with pytest.raises(ScriptError) as caught:
        parse(script)
    out = io.StringIO()
    print_error(Console(file=out, width=80), caught.value)
    text = out.getvalue()
    assert "PS-SQL-001" in text
    assert "app.sql:2:" in text
    assert "2 │ SELECT k FRUM s;" in text
    assert "^" in text


def test_gatherer_holds_until_the_semicolon() -> None:
    gatherer = Gatherer()
    assert gatherer.add("SELECT 1\n") == []
    assert gatherer.held
    assert gatherer.add("\\not a command\n") == []
    ((_, piece),) = gatherer.add("FROM s; -- done\n")
    assert piece.text.startswith("SELECT 1")
    assert not gatherer.held
    assert gatherer.add("  \\quit\n") == ["quit"]


def test_inputs() -> None:
    assert parse_input("s=a.csv").format == "csv"
    assert parse_input("s=-").format == "json"
    assert parse_input("s=csv:-").options == {"path": "-"}
    assert parse_input("s = C:x.json").options == {"path": "C:x.json"}
    for wrong in ("a.csv", "=a.csv", "s=", "s=a.txt"):
        with pytest.raises(PenstockError):
            parse_input(wrong)
