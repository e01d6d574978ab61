"""The session log: a disk that is full, and damage at every byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.books import clear_stop
from faults.disk import full_disk
from penstock.errors import PenstockError
from penstock.shards.session_log import SessionLog, segment_path


def calls(log: SessionLog) -> list[bytes]:
    return [call for _, call in log.read_calls(1)]


@pytest.mark.parametrize("room", [0, 300])
def test_a_full_disk_ends_the_log_before_the_call(tmp_path: Path, room: int) -> None:
    """What could not be written never was; nothing follows it until the log is opened again."""
    log = SessionLog(tmp_path)
    if room:
        log.append(b"first", b"x" * 100)
    with full_disk(room), pytest.raises(PenstockError) as caught:
        log.append(b"second", b"y" * 1000)
    assert clear_stop(caught.value).code == "PS-STATE-007"
    with pytest.raises(PenstockError) as again:
        log.append(b"third", b"")
    assert clear_stop(again.value).code == "PS-STATE-007"
    log.close()
    log = SessionLog(tmp_path)
    known = [b"first"] if room else []
    assert calls(log) == known
    log.append(b"fourth", b"z")
    assert calls(log) == [*known, b"fourth"]
    log.close()


def test_a_segment_that_cannot_be_made_ends_the_log_too(tmp_path: Path) -> None:
    """As on a disk without room for one more file."""
    log = SessionLog(tmp_path, segment_bytes=10)
    log.append(b"first", b"x" * 100)
    in_the_way = segment_path(tmp_path, 2)
    in_the_way.mkdir()
    for _ in range(2):
        with pytest.raises(PenstockError) as caught:
            log.append(b"second", b"y")
        assert clear_stop(caught.value).code == "PS-STATE-007"
    log.close()
    in_the_way.rmdir()
    log = SessionLog(tmp_path, segment_bytes=10)
    assert log.append(b"second", b"z") == 2
    assert calls(log) == [b"first", b"second"]
    log.close()


def test_every_byte_of_the_log_counts(tmp_path: Path) -> None:
    log = SessionLog(tmp_path)
    for n in range(3):
        log.append(b"call %d" % n, b"blocks %d" % n)
    log.close()
    path = log.newest
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(PenstockError) as caught:
            calls(SessionLog(tmp_path))
        assert clear_stop(caught.value).code in ("PS-STATE-005", "PS-STATE-006")
    for end in range(len(whole)):  # torn: the records before are there
        path.write_bytes(whole[:end])
        log = SessionLog(tmp_path)
        assert calls(log) == [b"call %d" % n for n in range(log.last)]
        log.close()
