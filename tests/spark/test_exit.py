"""A program that leaves its session open ends without noise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import penstock

ps = penstock.connect(master="local[2]", shards=2)
ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
view = ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM s [RANGE 10] GROUP BY k")
ps.start()
ps.push("s", [{"k": 1, "ts": 1}])
print(view.view().to_pylist())
ps.push("s", [{"k": 2, "ts": 2}])  # its batch runs when the program ends
"""


def test_a_session_that_is_left_open_says_nothing_at_exit(tmp_path: Path) -> None:
    (tmp_path / "falls_off.py").write_text(PROGRAM)
    (tmp_path / "raises.py").write_text(PROGRAM + 'raise ValueError("mine")\n')
    falls_off, raises = (
        subprocess.Popen(
            [sys.executable, name], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for name in ("falls_off.py", "raises.py")
    )  # fmt: skip
    answer = "[{'k': 1, 'n': 1}]\n"
    out, errors = falls_off.communicate(timeout=600)
    assert (falls_off.returncode, out, errors) == (0, answer, "")
    out, errors = raises.communicate(timeout=600)
    assert (raises.returncode, out) == (1, answer)
    first, *_, last = errors.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "ValueError: mine")
