"""What Spark says when something fails, as our errors: the essential, never a Java stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.spark.config import SparkError

_OURS = re.compile(r"penstock\.errors\.\w+: \[(PS-[A-Z]+-\d+)\] (.*)")
_PYTHON = re.compile(r"^\s*((?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)): (.*)$")


@contextmanager
def translated() -> Iterator[None]:
    """Errors of Spark become ours; ours pass."""
    try:
        yield
    except PenstockError:
        raise
    except (PySparkException, Py4JError) as error:
        raise essential(str(error)) from None


def essential(text: str) -> PenstockError:
    """The error that matters in what Spark reports."""
    ours = _OURS.search(text)
    if ours:
        return SparkError(ours[2], code=ours[1])
    python = [m for line in text.splitlines() if (m := _PYTHON.match(line))]
    if python and "org.apache.spark" not in python[-1][1]:
        return SparkError(f"the job failed: {python[-1][1]}: {python[-1][2]}", code="PS-SPARK-002")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((x for x in lines if not x.startswith(("at ", "An error occurred"))), "unknown")
    return SparkError(f"the job failed: {first}", code="PS-SPARK-002")
