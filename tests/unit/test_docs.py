"""What the documentation says is executed: every Python block of a page, in order.

Blocks after a comment "needs Spark" are executed in tests/spark/test_docs.py.
"""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"(?<!<!-- needs Spark -->\n)" + BLOCK.pattern, BLOCK.flags)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if HERE.search(p.read_text())], ids=name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    text = page.read_text()
    for block in HERE.finditer(text):
        line = text.count("\n", 0, block.start(1))
        code = compile("\n" * line + block.group(1), name(page), "exec")
        with redirect_stdout(io.StringIO()):
            exec(code, namespace)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md"], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{name(page)} links to {target}"


def test_readme_example_is_short() -> None:
    (example,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert len([line for line in example.splitlines() if line.strip()]) <= 22


@pytest.mark.parametrize("word", ["sources", "sinks", "cli", "engine", "physical"])
def test_map_names_what_exists(word: str) -> None:
    assert word in (ROOT / "ARCHITECTURE.md").read_text()


def test_paths_of_the_map_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", text)
    for path in paths:
        assert (ROOT / path).exists() or (ROOT / "src/penstock" / path).exists(), path
