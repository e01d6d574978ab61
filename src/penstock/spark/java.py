"""The Java process of Spark: find it, and start it quickly.

Loading Spark's classes from jars takes Java seconds in every process. `python -m penstock.warm`
records the classes of a small job in a file, which Java then maps into memory. Java ignores a
file that does not fit (other jars, another build of Java), but crashes on a truncated one; so the
file's size is part of its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark import __version__ as spark_version
from pyspark.find_spark_home import _find_spark_home

OPTIONS = "spark.driver.extraJavaOptions"
_WRITING = 300.0
"""Seconds for Java to write the file when it ends."""


def find_java() -> Path | None:
    """The binary that Spark's scripts start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        binary = Path(home, "bin", "java")
        return binary if binary.exists() else None
    found = shutil.which("java")
    return None if found is None else Path(found)


def start_options(asked: Mapping[str, str]) -> dict[str, str]:
    """Settings that let Java start quickly, if its classes were recorded."""
    classes = _recorded()
    if classes is None:
        return dict(asked)
    return {**asked, OPTIONS: f"-XX:SharedArchiveFile={classes} {asked.get(OPTIONS, '')}".strip()}


@contextmanager
def recorded() -> Iterator[dict[str, str] | None]:
    """Settings that record the classes of Spark; None if that is not possible or needed."""
    place = _place()
    if place is None or _recorded() is not None or not os.access(place.parent, os.W_OK):
        yield None
        return
    written = place.with_suffix(f".{os.getpid()}")
    yield {OPTIONS: f"-XX:ArchiveClassesAtExit={written}"}
    if _end_java() == 0 and written.exists():
        written.replace(f"{place}-{written.stat().st_size}.jsa")
    else:
        written.unlink(missing_ok=True)


def _recorded() -> Path | None:
    """The complete file for this Spark and this Java, if there is one."""
    place = _place()
    found = [] if place is None else place.parent.glob(f"{place.name}-*.jsa")
    whole = (file for file in found if file.stem.endswith(f"-{file.stat().st_size}"))
    return next(whole, None)


def _place() -> Path | None:
    """The prefix of the file's name; None without Java, or if the path has spaces."""
    java = find_java()
    folder = Path(__file__).parent / "__pycache__"
    if java is None or " " in str(folder):
        return None
    folder.mkdir(exist_ok=True)
    home = java.resolve().parent.parent
    release = home / "release"
    build = release.read_bytes() if release.exists() else b""
    of = f"{home} {_find_spark_home()} {spark_version} ".encode() + build
    name = hashlib.sha256(of).hexdigest()[:16]
    return folder / f"spark-{name}"


def _end_java() -> int:
    """End Spark's process, which writes the file, and return its exit code."""
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    SparkContext._gateway = SparkContext._jvm = None
    try:
        return int(gateway.proc.wait(_WRITING))
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        return int(gateway.proc.wait())
