"""What a job on Spark writes and where it listens: for its user alone."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock

PASSWORD = "correct horse battery"
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
LISTENING = "0A"


def test_a_password_is_in_one_private_file_and_survives_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "c"
    with penstock.connect(spark=spark, checkpoint=directory, shards=1) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        ps.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s [RANGE 5]")
        ps.sql(f"CREATE SINK o FROM v INTO noop OPTIONS (password '{PASSWORD}')")
        ps.push("s", [{"k": 1, "ts": 1}])
        ps.flush()
        text = str([ps.stats(), ps.progress(), ps.sql("SHOW SINKS").to_pylist(), ps["v"].explain()])
        assert PASSWORD not in text
        assert opened_with(ps) == PASSWORD
    with penstock.connect(spark=spark, checkpoint=directory) as ps:
        ps.push("s", [{"k": 2, "ts": 2}])
        ps.flush()
        assert opened_with(ps) == PASSWORD
        assert sorted(ps["v"].view()["k"].to_pylist()) == [1, 2]
    files = [path for path in directory.rglob("*") if path.is_file()]
    holders = [path for path in files if PASSWORD.encode() in path.read_bytes()]
    assert holders == [directory / "secrets.json"]
    assert mode(directory) == 0o700
    assert mode(directory / "secrets.json") == 0o600


def opened_with(ps: penstock.Session) -> str:
    """The password that the sink's writer has."""
    held = ps._runner.spark_sinks._open["o"]  # type: ignore[attr-defined]
    return str(held.writer.options["password"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_listens_beyond_loopback(spark: SparkSession) -> None:
    with penstock.connect(spark=spark, shards=1) as ps:
        ps.sql("CREATE STREAM s (k INT, ts BIGINT) TIMESTAMP BY ts")
        query = ps.query("SELECT k FROM s [RANGE 5]")
        ps.push("s", [{"k": 1, "ts": 1}])
        assert query.view().num_rows == 1
        addresses = list(listening(Path("/proc/self").resolve()))
    if not addresses:
        pytest.skip("this system has no /proc that tells who listens")
    assert [found for found in addresses if found not in LOOPBACK] == []


def listening(process: Path) -> Iterator[str]:
    """Addresses at which a process and all that it started listen, as the kernel writes them."""
    sockets = {link for pid in family(process) for link in links(pid)}
    for table in ("tcp", "tcp6"):
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                yield fields[1].split(":")[0]


def links(process: Path) -> Iterator[str]:
    """What a process has open; files and processes come and go while this looks."""
    with suppress(OSError):
        for link in list((process / "fd").iterdir()):
            with suppress(OSError):
                yield str(link.readlink())


def family(process: Path) -> Iterator[Path]:
    yield process
    with suppress(OSError):
        for task in list((process / "task").iterdir()):
            with suppress(OSError):
                for child in (task / "children").read_text().split():
                    yield from family(Path("/proc", child))
