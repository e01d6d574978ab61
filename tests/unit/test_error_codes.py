"""Every code that the source raises has one row in docs/errors.md, and no other code has one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"PS-[A-Z]+-[0-9]+")
ROW = re.compile(r"^\| (PS-[A-Z]+-[0-9]+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def raised() -> set[str]:
    """The codes in the source."""
    return {
        code for path in (ROOT / "src").rglob("*.py") for code in CODE.findall(path.read_text())
    }


def documented() -> Counter[str]:
    """The codes in the first cell of a row, with a meaning and a remedy."""
    return Counter(ROW.findall((ROOT / "docs/errors.md").read_text()))


def test_every_code_has_one_row():
    assert sorted(documented().elements()) == sorted(raised())


def test_codes_have_rows_in_no_other_page():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    others = [page for page in pages if page.name != "errors.md"]
    assert not {page.name: found for page in others if (found := ROW.findall(page.read_text()))}
