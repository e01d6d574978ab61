"""The golden files through `penstock run`, in this process; on Spark: tests/spark/test_run.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.scripts import UNFIT, script_of
from penstock.cli.main import main
from spark.goldens import FILES


def test_sinks_of_one_script_hold_what_the_goldens_say(tmp_path: Path) -> None:
    script, unfit = script_of(FILES, tmp_path)
    assert unfit == UNFIT
    script.write()
    (tmp_path / "app.sql").write_text(script.text("out"))
    command = ["run", str(tmp_path / "app.sql"), "--runner", "inprocess"]
    with pytest.raises(SystemExit) as left:
        main([*command, *script.inputs(), "--quiet"])
    assert not left.value.code
    expected = script.expected()
    assert len([name for name, changes in expected.items() if changes]) > 50
    assert script.written("out") == expected
