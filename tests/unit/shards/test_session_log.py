"""The session log: records come back, torn ones never were, damaged ones are named."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.shards.session_log import LogReader, SessionLog, segment_path, segments


def filled(directory: Path, count: int, segment_bytes: int = 100) -> SessionLog:
    log = SessionLog(directory, segment_bytes=segment_bytes)
    for i in range(1, count + 1):
        assert log.append(b"call%d" % i, b"blocks%d" % i * i) == i
    return log


def test_records_come_back_over_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    assert log.last == 20
    assert len(segments(tmp_path)) > 3
    assert list(log.read_blocks(3, 18)) == [(i, b"blocks%d" % i * i) for i in range(3, 19)]
    assert list(log.read_calls(7)) == [(i, b"call%d" % i) for i in range(7, 21)]
    assert list(log.read_blocks(21, 20)) == []


def test_opening_goes_on(tmp_path: Path) -> None:
    filled(tmp_path, 5, 1 << 20).close()
    log = SessionLog(tmp_path, sync=True)
    assert log.last == 5
    assert log.append(b"c", b"b") == 6
    assert [n for n, _ in log.read_calls(1)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("cut", [1, 7, 39, 45])
def test_a_torn_record_never_was(tmp_path: Path, cut: int) -> None:
    log = filled(tmp_path, 3, 1 << 20)
    log.close()
    path = segment_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-cut])
    assert [r.number for r in LogReader(tmp_path).poll()] == [1, 2]
    again = SessionLog(tmp_path)
    assert again.append(b"x", b"other") == 3
    assert dict(again.read_blocks(1, 3))[3] == b"other"


def test_room_that_was_never_written_is_no_record(tmp_path: Path) -> None:
    filled(tmp_path, 2, 1 << 20).close()
    with segment_path(tmp_path, 1).open("ab") as file:
        file.write(bytes(500))
    log = SessionLog(tmp_path)
    assert log.append(b"c", b"three") == 3
    assert list(log.read_blocks(3, 3)) == [(3, b"three")]


@pytest.mark.parametrize("at", [2, 20, 36, 41])
def test_a_damaged_record_is_named(tmp_path: Path, at: int) -> None:
    log = filled(tmp_path, 3, 1 << 20)
    path = segment_path(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateError, match=str(path)):
        list(log.read_blocks(1, 3))


def test_a_record_torn_in_the_middle_of_the_log_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    first = segment_path(tmp_path, 1)
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(StateError, match=str(first)):
        list(log.read_blocks(1, 20))


def test_a_missing_segment_is_said(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    segment_path(tmp_path, segments(tmp_path)[1]).unlink()
    with pytest.raises(StateError, match="gone"):
        list(log.read_blocks(1, 20))


def test_trim_deletes_whole_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    starts = segments(tmp_path)
    log.trim(starts[2] + 1)
    assert segments(tmp_path) == starts[2:]
    assert [n for n, _ in log.read_calls(starts[2] + 1)] == list(range(starts[2] + 1, 21))
    with pytest.raises(StateError, match="are gone"):
        list(log.read_calls(1))
    log.trim(1000)
    assert SessionLog(tmp_path).last == 20


def follow(directory: str, count: int, answers: multiprocessing.SimpleQueue[int]) -> None:
    reader = LogReader(Path(directory))
    seen = 0
    while seen < count:
        for record in reader.poll():
            call, blocks = reader.read(record)
            assert call == b"call%d" % record.number
            assert blocks == b"b" * record.number * 100
            seen += 1
            answers.put(record.number)


def test_another_process_follows(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.SimpleQueue[int] = context.SimpleQueue()
    process = context.Process(target=follow, args=(str(tmp_path / "log"), 300, answers))
    process.start()
    log = SessionLog(tmp_path / "log", segment_bytes=100_000)
    for i in range(1, 301):
        log.append(b"call%d" % i, b"b" * i * 100)
    assert [answers.get() for _ in range(300)] == list(range(1, 301))
    process.join()
    assert process.exitcode == 0
