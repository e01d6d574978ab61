"""The virtual clock: numbers worked out by hand, with a service time that is the same everywhere.

The plan of DISTINCT has five units and its source is the sixth, so a row that finds all of them
idle comes out after six service times.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock
from penstock.pipeline.arrivals import SECOND, Arrivals, AtRate, AtSpeed, Input, Pace
from penstock.pipeline.clock import VirtualClock, measured
from penstock.pipeline.schedule import SCHEDULES, ScheduleName
from penstock.pipeline.simulation import Simulation
from penstock.session.pipelined import PipelinedSession, open_pipelined

MS = SECOND // 1000
UNITS = "CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts"
STAMPS = "CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts"
DISTINCT = "SELECT DISTINCT k FROM s [RANGE {}]"


def ten_ms(_name: str, work: Callable[[], None]) -> int:
    work()
    return 10 * MS


def simulated(
    stream: str, query: str, rows: list[tuple[int, int]], pace: Pace, batch_rows: int = 100,
    schedule: ScheduleName = "round-robin",
) -> tuple[PipelinedSession, Simulation]:  # fmt: skip
    made = open_pipelined(stopwatch=ten_ms)
    made.session.sql(stream)
    made.session.query(query)
    keys, times = zip(*rows, strict=True)
    found = made.stream("s")
    kind = pa.int64() if found.unit_time else pa.timestamp("us")
    table = pa.table(
        {"k": pa.array(keys, pa.int32()), "ts": pa.array(times, pa.int64()).cast(kind)}
    )
    arrivals = Arrivals.of([Input.of(found, table)], pace)
    simulation = made.simulate(arrivals, schedule, batch_rows)
    simulation.run()
    return made, simulation


def delays(simulation: Simulation) -> tuple[float, int, int]:
    """Average and largest delay in ms, and the number of changes."""
    (answers,) = simulation.answers.values()
    return answers.delays.average / MS, answers.delays.most // MS, answers.changes


def test_the_plan_has_six_units() -> None:
    _, run = simulated(UNITS, DISTINCT.format(100), [(1, 1)], AtRate(1))
    assert [u.steps for u in run.units] == [1] * 6
    assert run.busy == run.engine.moment.now == 60 * MS


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rows_that_find_an_idle_pipeline_take_its_service_time(schedule: ScheduleName) -> None:
    rows = [(at, at) for at in range(5)]
    _, run = simulated(UNITS, DISTINCT.format(100), rows, AtRate(10), schedule=schedule)
    assert delays(run) == (60.0, 60, 5)
    assert run.engine.moment.now == 460 * MS  # the last of five rows arrives at 400 ms
    assert (run.most, run.sources[0].area) == (1, 0)


def test_rows_that_come_faster_wait_at_the_source() -> None:
    # arrivals at 0, 10, …, 120 ms; taken at 0 (one row), at 60 and at 120 (six rows each)
    rows = [(at, at) for at in range(13)]
    _, run = simulated(UNITS, DISTINCT.format(100), rows, AtRate(100))
    total = 60 + 2 * sum((110, 100, 90, 80, 70, 60))
    assert delays(run) == (total * MS / 13 / MS, 110, 13)
    (source,) = run.sources
    assert (source.steps, source.most, source.area // MS) == (3, 6, 2 * (50 + 40 + 30 + 20 + 10))
    assert run.engine.moment.now == 180 * MS
    assert run.most == 11  # before the last unit: six rows in its queue, five at the source


def test_a_source_that_takes_single_rows_falls_behind() -> None:
    # row i arrives at 10 i ms and comes out at 60 (i + 1) ms
    rows = [(at, at) for at in range(4)]
    _, run = simulated(UNITS, DISTINCT.format(100), rows, AtRate(100), batch_rows=1)
    assert delays(run) == ((60 + 110 + 160 + 210) / 4, 210, 4)


def test_a_row_that_leaves_is_told_when_the_clock_passes() -> None:
    # the row of 0 s leaves at 4 s; the next row, which moves the clock, arrives at 10 s
    rows = [(1, 0), (2, 10_000_000)]
    _, run = simulated(STAMPS, DISTINCT.format("4 SECONDS"), rows, AtSpeed(1))
    (answers,) = run.answers.values()
    assert (answers.changes, answers.deletes) == (3, 1)
    assert answers.delays.most == 6_060 * MS
    assert answers.delays.total == (60 + 60 + 6_060) * MS
    assert answers.waited == 6_000 * MS


def test_speed_shortens_waiting_but_not_work() -> None:
    rows = [(1, 0), (2, 10_000_000)]
    _, run = simulated(STAMPS, DISTINCT.format("4 SECONDS"), rows, AtSpeed(100))
    assert delays(run)[1] == 60 + 60
    assert run.arrivals.end == 100 * MS


def test_delay_of_a_stream_counts_as_waiting() -> None:
    # with DELAY 2 the row of time t is due when a row of t + 2 arrives, 200 ms later
    rows = [(at, at) for at in range(5)]
    _, run = simulated(f"{UNITS} DELAY 2", DISTINCT.format(100), rows, AtRate(10))
    (answers,) = run.answers.values()
    assert delays(run) == (260.0, 260, 3)
    assert answers.waited == 3 * 200 * MS


def test_minus_rows_are_counted_on_each_edge() -> None:
    rows = [(at, at) for at in range(0, 40, 2)]
    made, run = simulated(UNITS, "SELECT count(*) AS n FROM s [RANGE 3]", rows, AtRate(10))
    root = made.engine.units[-1]
    (queue,) = root.inputs
    (answers,) = run.answers.values()
    assert queue.figures.plus + queue.figures.minus == answers.changes
    assert queue.figures.minus == answers.deletes > 10


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_simulation_gives_the_changes_of_an_ordinary_run(schedule: ScheduleName) -> None:
    query = "SELECT k, count(*) AS n FROM s [RANGE 7] GROUP BY k"
    rows = [(at * at % 5, at) for at in range(60)]
    made, run = simulated(UNITS, query, rows, AtRate(100), batch_rows=7, schedule=schedule)
    with penstock.connect(runner="inprocess") as session:
        session.sql(UNITS)
        plain = session.query(query)
        session.push("s", [{"k": k, "ts": ts} for k, ts in rows])
        want = sorted(map(str, plain.view().to_pylist()))
        (answers,) = run.answers.values()
        assert answers.changes == plain.changes().num_rows
    assert sorted(map(str, made.session["q1"].view().to_pylist())) == want


def test_late_and_malformed_rows_are_counted() -> None:
    rows = [(1, 10), (1, 20), (1, 5), (1, 30)]
    _, run = simulated(UNITS, DISTINCT.format(100), rows, AtRate(1))
    (source,) = run.sources
    assert (source.taken, source.late, source.quarantined) == (4, 1, 0)


def test_the_clock_measures_work_and_jumps_over_waiting() -> None:
    clock = VirtualClock(measured)
    took = clock.spend("work", lambda: None)
    assert 0 < took == clock.now
    clock.wait_until(5)
    assert clock.now == max(took, 5)
    clock.wait_until(10 * SECOND)
    assert clock.now == 10 * SECOND
