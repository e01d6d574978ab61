"""Undo the plan of a batch that a source could not deliver.

Spark would try to read the same rows of the same files forever. No result of the batch has left
the job (`Manifests.has_run`), so its plan, its manifest and the failed source's notes are deleted;
the next start plans it again, without the source. Other sources read their rows again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from penstock.spark.manifest import Manifests

Offsets = dict[str, str]


def planned(spark: Path) -> int | None:
    """The number of the batch that is planned and not committed."""
    plans, commits = _numbers(spark / "offsets"), _numbers(spark / "commits")
    last = max(plans, default=-1)
    return last if last > max(commits, default=-1) else None


def take_back(spark: Path, manifests: Manifests) -> bool:
    """Delete the plan of the next batch; False if its results may be visible."""
    batch = planned(spark)
    if batch is None:
        return True
    if manifests.has_run(batch):
        return False
    manifests.forget(batch)
    _remove(spark / "offsets" / str(batch))
    if batch == 0:  # Spark requires an empty state before the first batch
        shutil.rmtree(spark / "state", ignore_errors=True)
    return True


def offsets(spark: Path) -> Offsets | None:
    """The offsets of the last plan by name or, without names, by number; None: no plan."""
    last = max(_numbers(spark / "offsets"), default=-1)
    return None if last < 0 else _offsets(spark / "offsets" / str(last))


def reads_on(spark: Path, sources: Iterable[str]) -> bool:
    """Whether the batch that is planned and not committed may have rows of some sources."""
    batch = planned(spark)
    if batch is None:
        return False
    now, path = _offsets(spark / "offsets" / str(batch)), spark / "offsets" / str(batch - 1)
    before = _offsets(path) if path.exists() else {}
    return any(_value(now, name) != _value(before, name) for name in sources)


def _value(known: Offsets, source: str) -> object:
    """An offset in a canonical form: a stand-in writes it with other spacing."""
    return _parsed(known[source]) if source in known else None


def _parsed(offset: str) -> object:
    """The value of an offset; its text if it is not JSON, as other sources may write."""
    try:
        return json.loads(offset)
    except ValueError:
        return offset


def _offsets(path: Path) -> Offsets:
    version, _, *lines = path.read_text().splitlines()
    if version == "v1":
        return {str(n): line for n, line in enumerate(lines) if line != "-"}
    named = (line.partition(":") for line in lines)
    return {name: offset for name, _, offset in named if offset != "-"}


def forget_found(spark: Path, source: str, offset: str | None) -> None:
    """Let a file source find the files after an offset again."""
    found = {"logOffset": -1} if offset is None else _parsed(offset)
    if not isinstance(found, dict) or "logOffset" not in found:
        return  # not a file source
    kept = int(found["logOffset"])
    for path in (spark / "sources" / source).glob("[0-9]*"):
        if int(path.name.split(".")[0]) > kept:
            _keep_lines(path, kept)


def _keep_lines(path: Path, kept: int) -> None:
    """Remove the lines of later batches from a list of found files."""
    version, *lines = path.read_text().splitlines()
    left = [line for line in lines if json.loads(line)["batchId"] <= kept]
    _remove(path)
    path.write_text("\n".join([version, *left]))


def _numbers(directory: Path) -> list[int]:
    return [int(p.name) for p in directory.glob("[0-9]*") if p.name.isdigit()]


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
