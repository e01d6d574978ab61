"""One test per golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.runner import Golden

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.slt"))


@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(HERE)) for f in FILES])
def test_golden(path: Path) -> None:
    Golden(path).run()


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(HERE)) for f in FILES])
def test_golden_on_shards(path: Path, shards: int) -> None:
    Golden(path, shards).run()
