"""The golden files through `penstock run` on Spark: sources and sinks of one script.

The same script runs in process in tests/golden/test_run.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from golden.scripts import script_of
from penstock.cli.main import main
from spark.goldens import FILES


def test_sinks_of_one_script_hold_what_the_goldens_say(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = penstock.connect

    def connect_here(**options: object) -> object:
        """What runs on Spark runs on the one that all tests share."""
        if options.get("runner") == "inprocess":
            return connect(**options)  # type: ignore[arg-type]
        return connect(spark=spark, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(penstock, "connect", connect_here)
    script, _ = script_of(FILES, tmp_path)
    script.write()
    (tmp_path / "app.sql").write_text(script.text("out"))
    command = ["run", str(tmp_path / "app.sql"), "--shards", "2", "--available-now"]
    command += ["--output", "changes", "--format", "json", "--out", str(tmp_path / "changes")]
    with pytest.raises(SystemExit) as left:
        main([*command, *script.inputs(), "--quiet"])
    assert not left.value.code
    assert script.written("out") == script.expected()
