"""Options of sources: names without case, nearest names, values that can be meant."""

from __future__ import annotations

import pytest

from penstock.errors import DataError
from penstock.sql.source_options import FILES, SOURCES, check_options


def refused(format: str, **options: str) -> DataError:
    with pytest.raises(DataError) as caught:
        check_options(format, options, "stream s")
    assert caught.value.code == "PS-SRC-002"
    return caught.value


def test_names_are_compared_without_case() -> None:
    for kind, known in SOURCES.items():
        assert len({name.lower() for name in known}) == len(known), kind
    check_options("PARQUET", {"PATH": "x", "MaxFilesPertrigger": "3"}, "stream s")


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("parquet", "maxFilePerTriger", "maxFilesPerTrigger"),
        ("json", "multiLines", "multiLine"),
        ("csv", "headers", "header"),
        ("kafka", "startingOffset", "startingOffsets"),
        ("rate", "rowsPerSec", "rowsPerSecond"),
        ("socket", "hosts", "host"),
        ("orc", "recursiveLookup", "recursiveFileLookup"),
    ],
)
def test_the_nearest_name_is_the_remedy(kind: str, wrong: str, right: str) -> None:
    error = refused(kind, **{wrong: "1"})
    assert error.remedy == f"write {right}"
    assert error.message == f"stream s: {kind} has no option {wrong}"


def test_what_is_near_nothing_is_told_all() -> None:
    assert refused("socket", zzz="1").remedy == "the options of socket are host, port"


def test_options_that_mean_something_elsewhere_are_explained() -> None:
    assert "declared" in refused("csv", inferSchema="true").remedy
    assert "maxFileAge" in refused("json", modifiedAfter="2020-01-01").remedy
    assert "quarantine()" in refused("json", columnNameOfCorruptRecord="c").remedy


@pytest.mark.parametrize(
    ("option", "good", "bad"),
    [
        ("maxFilesPerTrigger", ("1", "1000"), ("0", "-1", "x", "", "1.5", "٣")),
        ("maxBytesPerTrigger", ("1", "64m", "2 GB"), ("0", "-1", "big", "1x", "")),
        ("latestFirst", ("true", "FALSE"), ("yes", "1", "")),
        ("maxCachedFiles", ("0", "7"), ("-1", "x")),
        ("discardCachedInputRatio", ("0", "0.5", "1"), ("2", "-0.1", "x")),
        ("cleanSource", ("off", "Archive", "delete"), ("keep", "")),
        ("pathGlobFilter", ("*.json",), ("",)),
    ],
)
def test_values_are_judged(option: str, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert option in FILES
    for value in good:
        check_options("json", {option: value}, "stream s")
    for value in bad:
        error = refused("json", **{option: value})
        assert repr(value) in error.message
        assert error.remedy.startswith("give it ")


def test_options_for_kafka_itself_and_for_unknown_formats_pass() -> None:
    check_options("kafka", {"kafka.anything.at.all": "x", "subscribe": "t"}, "stream s")
    check_options("com.example.source", {"anything": ""}, "stream s")
