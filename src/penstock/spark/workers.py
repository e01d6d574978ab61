"""The Python that Spark's workers run: it must be of this version and have our packages.

A user's Spark session brings its own Python. On a local master it is checked before anything
runs; elsewhere the error of the first task is translated.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.errors import PenstockError

_NEEDED = ("penstock", "pyarrow", "pandas", "numba", "google.protobuf")
_ASK = (
    "import sys\n"
    "print(*sys.version_info[:2], sep='.')\n"
    "from importlib.util import find_spec\n"
    f"for name in {_NEEDED}:\n"
    "  try: found = find_spec(name)\n"
    "  except ImportError: found = None\n"
    "  if found is None: print(name)\n"
)
_PATIENCE_S = 30
OURS = str(Path(__file__).with_name("worker-python"))
"""The command for this process's Python, for a Spark that we start."""
_SAID = (
    re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]*?)\.?(?:\s+Please check.*)?$", re.MULTILINE),
    re.compile(r"Cannot run program \"([^\"]*)\"[^\n]*"),
    re.compile(rf"ModuleNotFoundError: No module named '(?:{'|'.join(_NEEDED)})[^\n]*"),
)


class WorkerPythonError(PenstockError):
    """Spark's workers run a Python that cannot run the job."""

    default_code = "PS-SPARK-005"


def check_workers(spark: SparkSession) -> SparkSession:
    """Check the session; refuse local workers that cannot run the job."""
    context = spark.sparkContext
    local = (context.master or "").startswith("local")
    if local and context.pythonExec not in (sys.executable, OURS):
        _check_python(context.pythonExec)
    return spark


def _check_python(python: str) -> None:
    try:
        asked = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _unfit(f"Spark's workers cannot start {python}: {error}") from None
    version, *missing = asked.stdout.split()
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version != here:
        raise _unfit(f"Spark's workers run Python {version} ({python}), this process runs {here}")
    if missing:
        raise _unfit(f"the Python of Spark's workers ({python}) has no package {missing[0]}")


def unfit_workers(text: str) -> PenstockError | None:
    """The error if a job failed because of its workers' Python; None for other reasons."""
    for said in _SAID:
        if found := said.search(text):
            return _unfit(f"Spark's workers run another Python: {found[0].strip()}")
    return None


def _unfit(message: str) -> WorkerPythonError:
    return WorkerPythonError(
        message,
        remedy=f"set PYSPARK_PYTHON to {sys.executable} before creating the Spark session, or let "
        "connect() create it; on a cluster, install penstock for that Python on every machine",
    )
