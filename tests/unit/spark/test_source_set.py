"""Which sources a start of the job reads, and which must wait for the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.errors import DataError, StateError
from penstock.spark.checkpoint import Checkpoint
from penstock.spark.config import SparkError
from penstock.spark.manifest import Manifest, Manifests, Mark
from penstock.spark.paused import Paused, paused_by_failure
from penstock.spark.replan import forget_found, offsets, planned, take_back
from penstock.spark.source_faults import SourceFaults
from penstock.spark.source_set import SourceSet
from penstock.spark.sources import Source, source_name

NO_FRAME = cast(Any, None)
NAMED = Source(NO_FRAME, under=lambda name: NO_FRAME)


class Unnamed(Source):
    """A frame of which Spark knows no names."""

    def names(self, own: str) -> tuple[str | None, ...]:
        return (None,)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Checkpoint]:
    made = Checkpoint(tmp_path, 1)
    yield made
    made.close()


def start(sources: SourceSet, last: int) -> list[str]:
    """The streams that a start reads, and not a stand-in."""
    return [slot.stream for slot in sources.open(sources.begin(last)) if slot.source is not None]


def test_a_source_waits_for_the_entry_that_declares_it(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {})
    sources.add("a", NAMED, 1)
    sources.add("b", NAMED, 7)
    assert start(sources, last=5) == ["a"]
    assert sources.waits_for() == 7
    assert start(sources, last=7) == ["a", "b"]
    assert (sources.waits_for(), sources.by_name) == (None, True)
    sources.add("c", NAMED, 9)
    assert sources.waits_for() == 9


def test_what_was_read_before_is_read_at_once(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, 1)
    SourceSet(first, {"a": NAMED}).begin(last=0)
    first.close()
    again = Checkpoint(tmp_path, 1)
    sources = SourceSet(again, {})
    sources.add("a", NAMED, 100)  # declared long ago; the log says so after what it has
    assert sources.begin(last=3) == ["a"]
    again.close()


def test_without_names_the_set_is_fixed(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "f": Unnamed(cast(Any, object()))})
    start(sources, last=0)
    assert not sources.by_name
    with pytest.raises(StateError, match=r"PS-STATE-008.*started with a source that has no name"):
        sources.add("b", NAMED, 2)
    sources.add("a", NAMED, 2)
    assert sources.waits_for() is None


def test_a_frame_without_names_comes_too_late(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {})
    sources.begin(last=0)
    with pytest.raises(StateError, match=r"PS-STATE-008.*its DataFrame reads a source"):
        sources.add("f", Unnamed(cast(Any, object())), 2)


def test_names_are_told_apart() -> None:
    streams = ("a", "A", "a_b", "a-b", "a.b", "a_5f_b", "ä", "")
    made = {source_name(stream) for stream in streams}
    assert len(made) == len(streams)
    assert all(c.isascii() and (c.isalnum() or c == "_") for name in made for c in name)


def note_offsets(checkpoint: Checkpoint, *lines: str, batch: int = 0) -> None:
    """As Spark does when it plans a batch."""
    folder = checkpoint.spark / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / str(batch)).write_text("\n".join(lines))


def test_a_stream_that_is_dropped_gives_its_name_away(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "b": NAMED})
    assert start(sources, last=0) == ["a", "b"]
    sources.drop("b", 4)
    assert sources.waits_for() == 0
    assert start(sources, last=4) == ["a"]
    sources.add("b", NAMED, 6)
    assert start(sources, last=5) == ["a"]
    slots = {slot.stream: slot for slot in sources.open(sources.begin(last=6))}
    assert slots["b"].names == ("penstock_b_4",)  # else it would go on where the other was
    assert sources.reads("b")
    sources.drop("b", 4)  # as the log says once more, after a restart
    assert "b" in (checkpoint.identity.sources or ())


def test_a_number_is_never_given_away(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "f": Unnamed(cast(Any, object()))})
    start(sources, last=0)
    sources.drop("a", 3)
    slots = sources.open(sources.begin(last=3))
    assert [(slot.stream, slot.source is None) for slot in slots] == [("a", True), ("f", False)]
    with pytest.raises(StateError, match=r"PS-STATE-008.*started with a source that has no name"):
        sources.add("a", NAMED, 4)


def test_a_paused_source_keeps_its_offset(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "b": NAMED})
    start(sources, last=0)
    sources.pause("b", Paused("x"))
    assert sources.waits_for() == 0
    assert [slot.stream for slot in sources.open(sources.begin(last=0))] == ["a"]  # it has none
    note_offsets(checkpoint, "v2", "{}", 'log:{"entry": 1}', 'penstock_b:{"logOffset":3}')
    slots = sources.open(sources.begin(last=0))
    assert [(slot.stream, slot.source is None) for slot in slots] == [("a", False), ("b", True)]
    assert (sources.waits_for(), sources.reads("b")) == (None, False)
    sources.resume("b")
    assert sources.waits_for() == 0


def test_a_source_that_cannot_be_opened_is_paused(checkpoint: Checkpoint) -> None:
    def fail(name: str | None) -> Any:
        raise DataError("there is no /in/b")

    sources = SourceSet(checkpoint, {"a": NAMED, "b": Source(NO_FRAME, under=fail)})
    assert start(sources, last=0) == ["a"]
    assert sources.paused["b"].reason == "there is no /in/b"


def test_errors_name_their_source(checkpoint: Checkpoint) -> None:
    def at(place: str, family: str = "") -> Source:
        return Source(NO_FRAME, under=lambda name: NO_FRAME, place=place, family=family)

    sources = SourceSet(
        checkpoint, {"a": at("/in"), "b": at("/in/b c"), "k": at("topic", "Kafka"), "o": at("mine")}
    )
    start(sources, last=0)
    for said, streams in {
        "/in/x.json cannot be read as JSON": ("a",),
        "Encountered error while reading file file:///in/b%20c/1.json.": ("b",),
        "Path does not exist: file:/in/b c.": ("b",),
        "/into/x cannot be read": (),
        "/main/in/x cannot be read": (),
        "Kafka: Failed to update metadata": ("k",),
        "division by zero": (),
        "the data source mine raised": ("o",),
        "determined": (),
    }.items():
        assert sources.blamed(SparkError(said)) == streams, said


def test_failures_are_tried_again_later_and_later(tmp_path: Path) -> None:
    file = tmp_path / "1.json"
    delays = [paused_by_failure(f"{file} is torn", n, now=0).until for n in (0, 1, 2, 20)]
    assert delays == [5, 10, 20, 600]
    paused = paused_by_failure(f"{file} is torn", 0, now=0)
    assert (paused.is_over(1), paused.is_over(5)) == (False, True)
    file.write_text("")
    assert paused.is_over(1)  # what it named has changed
    assert not Paused("by the user").is_over(1e9)


def test_what_a_source_found_is_found_again(tmp_path: Path) -> None:
    notes = tmp_path / "sources" / "s"
    notes.mkdir(parents=True)
    line = '{"path":"file:///in/%d","timestamp":1,"batchId":%d}'
    (notes / "9.compact").write_text("\n".join(["v1", *(line % (n, n) for n in range(10))]))
    (notes / "10").write_text(f"v1\n{line % (10, 10)}")
    (notes / ".10.crc").write_text("")
    for other in ("5", '{"t": {"0": 3}}', "at 7"):
        forget_found(tmp_path, "s", other)  # as sources have that are not of files
    assert (notes / "10").read_text() != "v1"
    forget_found(tmp_path, "s", '{"logOffset": 8}')
    assert (notes / "9.compact").read_text().splitlines()[1:] == [line % (n, n) for n in range(9)]
    assert [path.name for path in sorted(notes.iterdir())] == ["10", "9.compact"]
    assert (notes / "10").read_text() == "v1"


def test_a_batch_is_taken_back_unless_it_was_seen(checkpoint: Checkpoint) -> None:
    manifests = Manifests(checkpoint.manifests)
    assert take_back(checkpoint.spark, manifests)
    note_offsets(checkpoint, "v1", "{}", '{"entry": 1}', batch=0)
    manifests.propose(Manifest(0, 1, 1, 0))
    assert planned(checkpoint.spark) == 0
    manifests.note_run(0)
    assert not take_back(checkpoint.spark, manifests)
    manifests.finish(Mark(0, 1))
    (checkpoint.spark / "commits").mkdir()
    (checkpoint.spark / "commits" / "0").write_text("")
    note_offsets(checkpoint, "v1", "{}", '{"entry": 2}', "-", batch=1)
    manifests.propose(Manifest(1, 2, 2, 0))
    assert take_back(checkpoint.spark, manifests)
    assert (planned(checkpoint.spark), manifests.find(1)) == (None, None)
    assert offsets(checkpoint.spark) == {"0": '{"entry": 1}'}


def test_a_batch_without_rows_of_a_paused_source_is_run_again_as_it_was(
    checkpoint: Checkpoint,
) -> None:
    """It may have been seen: a crash, or an error of a sink, came before its end."""
    manifests = Manifests(checkpoint.manifests)
    sources = SourceSet(checkpoint, {"a": NAMED, "b": NAMED})
    faults = SourceFaults(sources, checkpoint.spark, manifests, lambda: None)
    start(sources, last=0)
    log, a, b = 'log:{"entry": 1}', 'penstock_a:{"logOffset": %d}', 'penstock_b:{"logOffset":%d}'
    note_offsets(checkpoint, "v2", "{}", log, a % 1, b % 1, batch=0)
    (checkpoint.spark / "commits").mkdir()
    (checkpoint.spark / "commits" / "0").write_text("")
    note_offsets(checkpoint, "v2", "{}", log, a % 2, 'penstock_b:{"logOffset": 1}', batch=1)
    manifests.note_run(1)
    sources.pause("b", Paused("x"))
    assert len(faults.open(sources.begin(last=0))) == 2
    assert planned(checkpoint.spark) == 1
    note_offsets(checkpoint, "v2", "{}", log, a % 2, b % 2, batch=1)
    with pytest.raises(SparkError, match=r"PS-SRC-007.*stream b is paused: x"):
        faults.open(sources.begin(last=0))


def test_a_source_of_the_batch_that_is_taken_back_has_no_stand_in(checkpoint: Checkpoint) -> None:
    """It would note an offset of its own, with which the source could not go on."""
    sources = SourceSet(checkpoint, {"a": NAMED, "b": NAMED})
    faults = SourceFaults(sources, checkpoint.spark, Manifests(checkpoint.manifests), lambda: None)
    start(sources, last=0)
    note_offsets(checkpoint, "v2", "{}", 'log:{"entry": 1}', 'penstock_b:{"logOffset":0}')
    sources.pause("b", Paused("x"))
    assert [slot.stream for slot in faults.open(sources.begin(last=0))] == ["a"]
    assert planned(checkpoint.spark) is None


def test_the_log_declares_again_what_it_drops_later(checkpoint: Checkpoint) -> None:
    """As after a kill: the directory knows of the drop when the log is only at the declaration."""
    sources = SourceSet(checkpoint, {"a": NAMED, "f": Unnamed(cast(Any, object()))})
    start(sources, last=0)
    sources.drop("a", 7)
    again = SourceSet(checkpoint, {"f": Unnamed(cast(Any, object()))})
    again.add("a", NAMED, 2)
    again.drop("a", 7)
    assert "a" not in again
    with pytest.raises(StateError, match="PS-STATE-008"):
        again.add("a", NAMED, 8)


def test_a_frame_given_again_is_the_same_stream(checkpoint: Checkpoint) -> None:
    """Until the next start the query reads the former one, whose rows are taken in."""
    sources = SourceSet(checkpoint, {"a": NAMED})
    start(sources, last=0)
    sources.add("a", Source(NO_FRAME, under=lambda name: NO_FRAME, place="/in"), 3)
    assert sources.reads("a")
    assert sources.waits_for() == 0
    sources.drop("a", 4)
    sources.add("a", NAMED, 5)
    sources._read["a"] = Source(NO_FRAME, place="/other")
    assert not sources.reads("a")


def test_a_stand_in_needs_an_offset_where_sources_have_numbers(checkpoint: Checkpoint) -> None:
    sources = SourceSet(checkpoint, {"a": NAMED, "f": Unnamed(cast(Any, object()))})
    sources.pause("a", Paused("x"))
    with pytest.raises(StateError, match=r"PS-STATE-008.*a is paused and was never read"):
        start(sources, last=0)
    note_offsets(checkpoint, "v1", "{}", '{"entry": 1}', '{"logOffset":3}', "-")
    assert start(sources, last=0) == ["f"]
