"""One call at a time; what no call could raise is raised by the next that ends."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.session.gate import Gate


def test_only_the_outermost_call_ends() -> None:
    ended: list[bool] = []
    gate = Gate(ended=lambda: ended.append(gate.in_call))
    with gate.open():
        with gate.open():
            pass
        assert not ended
    assert ended == [True]
    assert not gate.in_call


def test_a_call_that_cannot_be_ended_leaves_the_gate_usable() -> None:
    failures = [PenstockError("the log is full")]

    def end() -> None:
        if failures:
            raise failures.pop()

    gate = Gate(ended=end)
    with pytest.raises(PenstockError, match="the log is full"), gate.open():
        pass
    assert not gate.in_call
    with gate.open():
        pass


def test_the_first_complaint_waits_but_what_ends_the_program_comes_before() -> None:
    gate = Gate()
    gate.complain(PenstockError("first"))
    gate.complain(PenstockError("second"))
    with pytest.raises(PenstockError, match="first"), gate.open():
        pass
    gate.complain(PenstockError("third"))
    gate.complain(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), gate.open():
        pass
    gate.raise_complaint()  # each is raised once


def test_a_look_catches_up_and_says_what_ended_the_job_until_the_session_is_closed() -> None:
    seen: list[str] = []

    def dead() -> None:
        raise PenstockError("the job is dead")

    gate = Gate(catch_up=lambda: seen.append("caught up"), check=dead)
    with gate.glance():
        pass
    with pytest.raises(PenstockError, match="the job is dead"), gate.look():
        pass
    assert seen == ["caught up"] * 2
    gate.closed = True
    with gate.look():
        pass
    with pytest.raises(PenstockError, match="PS-RUN-003"), gate.open():
        pass
