"""The benchmarks run at a small size, check their own answers, and are shown with verdicts."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import chart, pipeline, run  # noqa: E402

TARGETS = {  # how many of the measures have a target
    "agarwal_fig10": 0,
    "agarwal_fig11": 3,
    "agarwal_fig12": 10,
    "agarwal_fig15": 10,
    "agarwal_fig18": 12,
    "agarwal_fig2": 1,
    "agarwal_fig7": 0,
    "agarwal_fig8": 0,
    "agarwal_fig9": 0,
    "agarwal_table2": 0,
    "band_join_many": 5,
    "cacq_fig10": 5,
    "cacq_fig12": 3,
    "cacq_fig13": 1,
    "cacq_fig4": 1,
    "cacq_fig6": 1,
    "cacq_fig7": 1,
    "cacq_fig9": 1,
    "cacq_filter": 6,
    "cacq_lineage": 2,
    "cacq_state": 3,
    "cacq_table1": 0,
    "distinct": 2,
    "except_": 2,
    "group_by": 4,
    "join": 3,
    "join_many": 8,
    "own_windows": 3,
    "pair_totals": 1,
    "live": 32,
    "pair_axis": 2,
    "pair_memory": 3,
    "predicate_forms": 5,
    "query_many": 1,
    "select_join_many": 3,
    "strategies": 0,
    "template": 4,
    "window_growth": 6,
}
ON_SPARK = {  # they start several Sparks each: not run here
    "spark_filters",
    "spark_join",
    "spark_live",
    "spark_small_batch",
    "spark_state",
    "spark_throughput",
}


def test_every_benchmark_is_listed_with_what_it_measures() -> None:
    known = run.available()
    assert set(known) == set(TARGETS) | ON_SPARK
    assert all(known.values())


@pytest.mark.parametrize("name", TARGETS)
def test_benchmark_runs_small(name: str) -> None:
    result = importlib.import_module(f"benchmarks.{name}").run(0.01)
    measures = [m for m in result.values() if isinstance(m, dict) and not chart.is_chart(m)]
    assert all(m["cpu"] > 0 for m in measures)
    judged = [m for m in measures if m["target"]]
    assert len(judged) == TARGETS[name]
    assert all(isinstance(m["met"], bool) for m in judged)
    json.dumps(result)


def test_verdicts() -> None:
    assert pipeline.at_most(1.9, 2.1, 2.0)["met"]
    assert not pipeline.at_most(2.1, 1.9, 2.0)["met"]
    assert pipeline.at_least(3.0, 2.9, 3.0, "M rows/s")["met"]
    assert pipeline.plain(1.0, None, "s")["met"] is None


def test_batches_of_two_streams_alternate() -> None:
    streams = {"r": pipeline.stream(25, 3, 1, 0), "s": pipeline.stream(15, 3, 1, 1)}
    cut = [(name, table.num_rows) for name, table in pipeline.cut(streams, 10)]
    assert cut == [("r", 10), ("s", 10), ("r", 10), ("s", 5), ("r", 5)]


def test_turns_must_agree() -> None:
    answers = iter((1, 2))
    with pytest.raises(AssertionError, match="gave 1 rows, then 2"):
        pipeline.take_turns({"x": lambda: (next(answers), pipeline.Cost(1.0, 1.0))})


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    lines = chart.chart("Rates", "queries", "rows/s", [1, 20], {"ours": [5.0, 12345.0]})
    result = {"rows in": 300_000, "ratio": pipeline.at_most(1.5, 1.6, 2.0), "figure": lines}
    run.show({"benchmark": "join", "seconds": 1.0, "result": result})
    text = capsys.readouterr().out
    assert "300,000" in text
    assert "1.234e+04" in text
    assert "≤ 2 ×" in text
    assert "yes" in text


def test_a_line_has_a_value_for_every_place() -> None:
    with pytest.raises(ValueError, match="every line needs 2 values"):
        chart.chart("Rates", "queries", "rows/s", [1, 20], {"ours": [5.0]})


def test_charts_are_drawn(tmp_path: Path) -> None:
    lines = chart.chart("Rates", "queries", "rows/s", [1, 20], {"ours": [5.0, 6.0]})
    assert chart.draw([lines, lines], tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_result_is_written_and_the_remedy_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    lines = chart.chart("Rates", "queries", "rows/s", [1, 20], {"ours": [5.0, 6.0]})
    run.write({"benchmark": "x", "seconds": 1.0, "result": {"figure": lines}}, tmp_path / "x")
    assert json.loads((tmp_path / "x.json").read_text())["result"]["figure"] == lines
    assert "penstock[bench]" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.run", "nothing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"there are: {next(iter(run.available()))}" in done.stderr
