"""Restarts on a checkpoint: nothing is lost or done twice, and what is damaged is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import penstock
from oracle.fold import bag, rows_of
from penstock.errors import PenstockError, StateError
from penstock.session import image
from spark.goldens import net
from spark.reading import counts, views

P = "CREATE STREAM p (k INT, n BIGINT, ts BIGINT) TIMESTAMP BY ts"
LIFE: list[Callable[[Any], Any]] = [
    lambda s: s.sql(f"{P}; {P.replace(' p ', ' q ')}; CREATE TABLE names (k INT, name STRING)"),
    lambda s: s.sql(
        "CREATE MATERIALIZED VIEW a AS SELECT k, count(*) AS n FROM p [RANGE 20] GROUP BY k"
    ),
    lambda s: s.sql(
        "CREATE MATERIALIZED VIEW b AS SELECT p.n, q.n AS m FROM p [RANGE 9], "
        "q [RANGE 9] WHERE p.k = q.k"
    ),
    lambda s: s.sql("CREATE MATERIALIZED VIEW c AS SELECT sum(n) AS n FROM p [RANGE 7]"),
    lambda s: push(s, 0, 6),
    lambda s: s.flush(),
    lambda s: s.sql("INSERT INTO names VALUES (0, 'zero'), (1, 'one')"),
    lambda s: s.sql("DROP MATERIALIZED VIEW c"),
    lambda s: s.sql(
        "CREATE MATERIALIZED VIEW d AS SELECT name, n FROM p [RANGE 5], names WHERE p.k = names.k"
    ),
    lambda s: s.query_many(
        "SELECT k FROM q [RANGE 9] WHERE n > $low",
        [{"qid": f"over{i}", "low": i} for i in range(5)],
    ),
    lambda s: push(s, 6, 9),
    lambda s: s.flush(),
    lambda s: push(s, 9, 11),  # not in a batch yet
    lambda s: s["over3"].drop(),
    lambda s: s.sql("CREATE MATERIALIZED VIEW e AS SELECT DISTINCT k FROM q [RANGE 12]"),
    lambda s: s.advance("q", 12),
    # here the process ends, and another goes on
    lambda s: push(s, 12, 15),
    lambda s: s.sql("DELETE FROM names WHERE k = 0; DROP MATERIALIZED VIEW b"),
    lambda s: s.sql("CREATE MATERIALIZED VIEW c AS SELECT sum(n) AS n FROM p [RANGE 7]"),
    lambda s: push(s, 15, 18),
    lambda s: s.flush(),
    lambda s: s.advance(ts=19),
]
CUT = 16
NAMES = ("a", "c", "d", "e", "over0", "over4")


def push(session: Any, first: int, last: int) -> None:
    for ts in range(first, last):
        session.push("p", [{"k": ts % 3, "n": ts, "ts": ts}, {"k": 1, "n": -ts, "ts": ts}])
        session.push("q", [{"k": ts % 2, "n": ts, "ts": ts}])


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "abandoned"])
def test_a_restart_goes_on(spark: SparkSession, tmp_path: Path, closed: bool) -> None:
    one: Any = penstock.connect(runner="inprocess")
    for call in LIFE:
        call(one)
    ps: Any = penstock.connect(spark=spark, shards=2, checkpoint=tmp_path)
    for call in LIFE[:CUT]:
        call(ps)
    assert bag(rows_of(ps["a"].view())) if closed else True  # kept, from here on
    with pytest.raises(StateError, match="PS-STATE-004"):
        penstock.connect(spark=spark, checkpoint=tmp_path)
    if closed:
        ps.close()
    else:  # as after a kill: the session has no time to save anything
        ps._runner.job.close()
        ps._runner.answers.views.shut()
    ps = penstock.connect(spark=spark, checkpoint=tmp_path)
    assert ps._runner.job.shards == 2
    for call in LIFE[CUT:]:
        call(ps)
    ps.flush()
    held = views(ps, [ps[name] for name in NAMES])
    for name in NAMES:
        assert held[ps[name]] == bag(rows_of(one[name].view())), name
        ours, theirs = ps[name].changes(), one[name].changes()
        recent = theirs.filter(pc.greater_equal(theirs["_time"], 13))
        ours = ours.filter(pc.greater_equal(ours["_time"], 13))
        assert net(ours, True) == net(recent, True), name
    names = {row["name"] for row in ps.sql("SHOW QUERIES").to_pylist()}
    assert names == {row["name"] for row in one.sql("SHOW QUERIES").to_pylist()}
    assert counts(ps, "p") == counts(one, "p")
    ps.close()


def go_on(spark: SparkSession, checkpoint: Path) -> None:
    """Open a checkpoint and take a step."""
    with penstock.connect(spark=spark, checkpoint=checkpoint) as session:
        session.push("p", [{"k": 1, "n": 1, "ts": 50}])
        session.flush()


def test_what_is_lost_or_torn_is_named(spark: SparkSession, tmp_path: Path) -> None:
    ps: Any = penstock.connect(spark=spark, shards=1, checkpoint=tmp_path)
    for call in LIFE[:6]:
        call(ps)
    ps.close()

    def refused(path: Path, code: str, change: Callable[[Path], Any]) -> str:
        """What is said when a file is changed; it is put back."""
        aside = tmp_path.parent / f"{tmp_path.name}-aside"
        os.rename(path, aside)
        try:
            change(path)
            with pytest.raises(PenstockError) as caught:
                go_on(spark, tmp_path)
        finally:
            if path.is_dir():
                path.rmdir()
            path.unlink(missing_ok=True)
            os.rename(aside, path)
        assert caught.value.code == code
        return str(caught.value)

    def named(path: Path, code: str, change: Callable[[Path], Any]) -> None:
        said = refused(path, code, change)
        assert str(path) in said, said

    def nothing(path: Path) -> None:
        """It is missing."""

    def torn(path: Path) -> None:
        path.write_bytes(b"PSF1torn")

    mark = max((tmp_path / "manifests").glob("*.done"), key=lambda p: int(p.stem))
    segment = next((tmp_path / "log").glob("*.log"))
    entries = segment.read_bytes()
    identity = tmp_path / "penstock.json"
    named(identity, "PS-STATE-003", nothing)
    named(identity, "PS-STATE-003", torn)
    named(tmp_path / "session.pickle", "PS-STATE-003", torn)
    named(mark, "PS-STATE-003", torn)
    named(mark.with_suffix(".batch"), "PS-STATE-003", torn)
    named(tmp_path / "spark" / "offsets", "PS-STATE-005", nothing)
    named(tmp_path / "log", "PS-STATE-005", nothing)
    named(segment, "PS-STATE-005", lambda p: p.write_bytes(entries[:-9]))
    named(segment, "PS-STATE-006", lambda p: p.write_bytes(b"?" + entries[1:]))
    told = json.loads(identity.read_text())
    said = refused(
        identity, "PS-STATE-002", lambda p: p.write_text(json.dumps({**told, "penstock": "0.0.9"}))
    )
    assert "0.0.9" in said
    named(mark, "PS-STATE-003", nothing)  # when the next batch looks for it


def test_what_only_the_image_knew_is_not_made_up(tmp_path: Path) -> None:
    session: Any = None  # nothing of it is touched
    assert image.load(session, tmp_path, 1, session, session) == 0
    with pytest.raises(StateError, match=r"PS-STATE-003.*session\.pickle"):
        image.load(session, tmp_path, 2, session, session)  # the log begins later
