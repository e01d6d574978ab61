"""Translate errors of Spark into ours: the essential line, never a Java stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.spark.config import SparkError, log_remedy
from penstock.spark.workers import unfit_workers

_OURS = re.compile(
    r"penstock\.(?:\w+\.)+\w+: \[(PS-[A-Z]+-\d+)\] ([^\n]*)(?:\n\s+remedy: ([^\n]*))?"
)
_PYTHON = re.compile(r"^\s*((?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): (.*)$")
_AROUND = re.compile(  # Spark's text around the message
    r"^(?::\s|Caused by: |(?:[a-z_]\w*\.)+[A-Z][\w$]*: |\[STREAM_FAILED\] Query \[[^\]]*\] "
    r"terminated with exception: )|\s*SQLSTATE: \w{5}\s*$"
)
_KAFKA = "org.apache.kafka.common.errors."
_DAMAGE = re.compile(
    r"Checksum error: \S+ at |\[CANNOT_LOAD_STATE_STORE|\[STREAMING_CHECKPOINT_MISSING|"
    r"\[CHECKPOINT_FILE_CHECKSUM|batch \d+ doesn't exist|Incomplete log file|"
    r"Malformed log file|Failed to parse .* from .*metadata"
)
"""Messages of Spark about its own damaged files."""
_CHECKSUM = re.compile(r"Checksum error: (?:file:)?(\S+) at ")
_GONE = re.compile(
    r"Error while sending or receiving|Answer from Java side is empty|"
    r"Error while obtaining a new communication channel|trying to connect to the Java server"
)
"""Messages of py4j when the Java process is gone."""
_START_AGAIN = "remove the cause and start again: the checkpoint is intact"
_WORKER = "Error from python worker:"
"""Spark's introduction to what a Python process printed before it ended."""
_SHADOWED = re.compile(r"from partially initialized module '(\w+)' .*\((\S+)\)$", re.MULTILINE)
"""Python's message about a user's file with the name of a library module."""
_NAMED = re.compile(r"\[([A-Z][A-Z_0-9.]+)\] ")
"""Spark's name of an error; a message for users follows it."""


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of Spark; our own errors pass through."""
    try:
        yield
    except PenstockError:
        raise
    except (PySparkException, Py4JError) as error:
        raise essential(str(error)) from None
    except ConnectionError:
        raise _gone() from None


def essential(text: str) -> PenstockError:
    """The essential error in a report of Spark."""
    ours = _OURS.search(text)
    if ours:
        return SparkError(ours[2], code=ours[1], remedy=ours[3] or "")
    if (unfit := unfit_workers(text)) is not None:
        return unfit
    said = _said(text)
    if _DAMAGE.search(text):
        return _damaged(text, said)
    if _GONE.search(text):
        return _gone()
    shadowed = _SHADOWED.search(text) if _WORKER in text else None
    remedy = _START_AGAIN if shadowed is None else _renamed(shadowed[1], shadowed[2])
    remedy += log_remedy()
    return SparkError(f"the job failed: {said}", code="PS-SPARK-002", remedy=remedy)


def _renamed(module: str, file: str) -> str:
    return f"{file} hides Python's module {module}: rename the file, or start in another directory"


def ours(error: BaseException) -> PenstockError:
    """An error of a batch, such as a full disk, as one of ours."""
    if isinstance(error, PenstockError):
        return error
    said = f"the job failed: {type(error).__name__}: {error}"
    made = SparkError(said, code="PS-SPARK-002", remedy=_START_AGAIN)
    made.__cause__ = error
    return made


def _gone() -> SparkError:
    return SparkError(
        "Spark has ended: its Java process is gone",
        code="PS-SPARK-002",
        remedy=f"start again in a new process: the checkpoint is intact{log_remedy()}",
    )


def _damaged(text: str, said: str) -> SparkError:
    """The error for a damaged file of Spark; Hadoop names the file if its checksum is wrong."""
    file = _CHECKSUM.search(text)
    if file:
        message = f"the checkpoint file {file[1]} is damaged: its checksum is wrong"
    else:
        message = f"the checkpoint is damaged: {said}"
    remedy = "restore the checkpoint directory from a backup, or start from an empty one"
    return SparkError(message, code="PS-STATE-003", remedy=remedy + log_remedy())


def passes(error: BaseException) -> bool:
    """Whether a retry may help: a busy machine was too slow to start a Python process.

    Spark waits ten seconds for it; this cannot be changed.
    """
    return "failed to connect back" in str(error)


def cause(error: PenstockError) -> str:
    """The cause that `essential` found, for an error with its own introduction."""
    return error.message.removeprefix("the job failed: ")


def _said(text: str) -> str:
    """The most useful line: Python's error, a line with Spark's error name, or the last cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    matched = [m for line in lines if (m := _PYTHON.match(line))]
    python = [m for m in matched if not m[1].startswith(("org.apache.", "java."))]
    if python and (python[-1] is matched[-1] or _WORKER in text):
        return f"{python[-1][1]}: {python[-1][2]}"
    plain = [_plain(line) for line in lines if not line.startswith(("at ", "An error occurred"))]
    named = [line for line in plain if _NAMED.match(line)]
    causes = [_plain(line) for line in lines if line.startswith("Caused by: ")]
    return next((found[-1] for found in (named, causes) if found), plain[0] if plain else "unknown")


def _plain(line: str) -> str:
    """A line without Java class names; a line of Kafka begins with `Kafka:` instead."""
    of_kafka = _KAFKA in line
    while (shorter := _AROUND.sub("", line)) != line:
        line = shorter
    return f"Kafka: {line}" if of_kafka and not _NAMED.match(line) else line
