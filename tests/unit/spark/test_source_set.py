"""Which sources a start of the job reads, and which must wait for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.errors import StateError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.source_set import SourceSet
from penstock.spark.sources import Source, source_name

NO_FRAME = cast(Any, None)
NAMED = Source(NO_FRAME, under=lambda name: NO_FRAME)


class Unnamed(Source):
    """A frame of which Spark knows no names."""

    def can_be_named(self) -> bool:
        return False


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(tmp_path, 1)
    yield made
    made.close()


def test_a_source_waits_for_the_entry_that_declares_it(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {})
    sources.add("a", NAMED, 1)
    sources.add("b", NAMED, 7)
    assert list(sources.begin(last=5)) == ["a"]
    assert sources.waits_for() == 7
    assert list(sources.begin(last=7)) == ["a", "b"]
    assert (sources.waits_for(), sources.by_name) == (0, True)
    sources.add("c", NAMED, 9)
    assert sources.waits_for() == 9


def test_what_was_read_before_is_read_at_once(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 1)
    SourceSet(first, {"a": NAMED}).begin(last=0)
    first.close()
    again = Checkpoint(tmp_path, 1)
    sources = SourceSet(again, {})
    sources.add("a", NAMED, 100)  # declared long ago; the log says so after what it has
    assert list(sources.begin(last=3)) == ["a"]
    again.close()


def test_without_names_the_set_is_fixed(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "f": Unnamed(NO_FRAME)})
    sources.begin(last=0)
    assert not sources.by_name
    with pytest.raises(StateError, match=r"PS-STATE-008.*started with a source that has no name"):
        sources.add("b", NAMED, 2)
    sources.add("a", NAMED, 2)
    assert sources.waits_for() == 0


def test_a_frame_without_names_comes_too_late(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {})
    sources.begin(last=0)
    with pytest.raises(StateError, match=r"PS-STATE-008.*its DataFrame reads a source"):
        sources.add("f", Unnamed(NO_FRAME), 2)


def test_names_are_told_apart() -> None:
    streams = ("a", "A", "a_b", "a-b", "a.b", "a_5f_b", "ä", "")
    made = {source_name(stream) for stream in streams}
    assert len(made) == len(streams)
    assert all(c.isascii() and (c.isalnum() or c == "_") for name in made for c in name)
