"""What the documentation says of Spark is executed: the blocks after "needs Spark"."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.session import Session

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^<!-- needs Spark -->\n```python\n(.*?)^```(?:\n\nIt prints:\n\n```text\n(.*?)^```)?",
    re.MULTILINE | re.DOTALL,
)
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Session] = []
    connect = penstock.connect

    def connect_here(**options: Any) -> Session:
        """A session in the Spark that all tests share, with fewer shards than it might have."""
        opened.append(connect(**{"spark": spark, "shards": 2, **options}))
        return opened[-1]

    monkeypatch.setattr(penstock, "connect", connect_here)
    monkeypatch.chdir(tmp_path)
    # Spark resolves relative paths in the directory in which its JVM was started
    text = re.sub(r"(path '|\"|')(traffic|in|out)\b", rf"\g<1>{tmp_path}/\2", page.read_text())
    namespace: dict[str, object] = {}
    try:
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start(1))
            code = compile("\n" * line + block.group(1), page.name, "exec")
            with redirect_stdout(io.StringIO()) as printed:
                exec(code, namespace)
            assert block.group(2) in (None, printed.getvalue())
    finally:
        for session in opened:
            session.close()
    assert opened


def test_the_readme_starts_on_spark() -> None:
    ((example, answers),) = BLOCK.findall((ROOT / "README.md").read_text())
    assert "penstock.connect()" in example
    assert answers
