"""The Spark session: our own with sane settings, or the user's.

Spark writes to the terminal from three places (the launcher, log4j, and Python workers through
the JVM's stderr). The output of a JVM that we start goes to a file instead, which errors name.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark import java
from penstock.spark.workers import OURS, check_workers

SETTINGS = threading.RLock()
"""Held by code that needs the session's settings unchanged."""
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Renames files in this process; the default starts ten processes per file of a checkpoint."""
_PLAIN_TRACEBACKS = ("spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled", "false")
"""Some kinds of tasks support only these; tasks with other settings need a second Python daemon."""
_STATIC = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.maxResultSize": "0",
    "spark.driver.memory": "2g",
    "spark.python.daemon.module": "penstock.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "WARN",
}


KAFKA_REMEDY = (
    "start Spark with its connector: connect(spark_options={"
    f'"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"}})'
)
_UNRESOLVED = re.compile(r"\[unresolved dependency: ([^\s:]+)")
LOCAL_DIR = "spark.local.dir"
_OWN_FOLDER = "penstock-local-"
_log: Path | None = None
"""The output of the Spark that we started; removed at exit unless an error named it."""


class SparkError(PenstockError):
    """Spark cannot be started, or a job on it failed."""

    default_code = "PS-SPARK-001"


def build_session(
    master: str | None = None,
    spark: SparkSession | None = None,
    options: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """The user's session, checked, or a new one."""
    if spark is not None:
        return check_workers(_check(spark))
    if is_running():
        return check_workers(_check(SparkSession.builder.getOrCreate()))
    _check_java()
    master = _retrying(master)
    os.environ["PENSTOCK_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = _worker_python(master)
    conf = SparkConf(loadDefaults=False).setAppName("penstock").setMaster(master)
    for key, value in java.start_options({**_STATIC, **(options or {})}).items():
        conf.set(key, value)
    if not conf.contains(LOCAL_DIR):
        conf.set(LOCAL_DIR, _private_folder())
    kept, log = log, log or _private_log()
    global _log
    _log = log
    try:
        if SparkContext._gateway is None:  # otherwise a Java process of an earlier session exists
            with log.open("ab") as file:
                gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        with _own_interrupts():
            made = SparkSession.builder.config(conf=conf).getOrCreate()
        if kept is None:
            atexit.register(log.unlink, missing_ok=True)
        threading.Thread(target=_call_daemon, args=(made,), daemon=True).start()
        return made
    except Exception as error:
        raise _not_started(error, log) from None


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Let Ctrl-C end only the call that waits; Spark's handler would cancel the batch."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def is_running() -> bool:
    """Whether this process already has a Spark session."""
    return SparkContext._active_spark_context is not None


def _private_folder() -> str:
    """A private directory in which Spark spills rows; its default is readable by all users."""
    folder = tempfile.mkdtemp(prefix=_OWN_FOLDER)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def lasting_folder(spark: SparkSession) -> Path:
    """A directory for caches that outlive a process: the session's own local directory."""
    chosen = Path((spark.conf.get(LOCAL_DIR, None) or tempfile.gettempdir()).split(",")[0])
    return Path(tempfile.gettempdir()) if chosen.name.startswith(_OWN_FOLDER) else chosen


def _private_log() -> Path:
    """A file for Spark's output, which may contain data: readable only by its owner."""
    file, name = tempfile.mkstemp(prefix=f"penstock-spark-{os.getpid()}-", suffix=".log")
    os.close(file)
    return Path(name)


def _call_daemon(spark: SparkSession) -> None:
    """Start Spark's Python daemon in the background, before the first batch needs it."""
    with suppress(Exception):  # the job reports any problem later
        session = spark.newSession()
        session.conf.set(*_PLAIN_TRACEBACKS)
        session.range(1, numPartitions=1).mapInArrow(lambda rows: rows, "id LONG").collect()


def _not_started(error: Exception, log: Path) -> SparkError:
    """The error of a failed start; only the log says that a package cannot be fetched."""
    missing = _UNRESOLVED.search(log.read_text(errors="replace")) if log.exists() else None
    if missing is None:
        said, remedy = _first_line(error), f"see {log}; Spark needs Java 17 or 21"
    else:
        package = re.sub("[#;]", ":", missing[1])
        said = f"the package {package} cannot be fetched"
        remedy = f"correct spark.jars.packages, or name files in spark.jars; see {log}"
    return SparkError(f"Spark cannot be started: {said}", remedy=remedy)


def log_remedy() -> str:
    """The name of the log file, for the end of a remedy; the file then outlives the process."""
    if _log is None or not _log.exists():
        return ""
    atexit.unregister(_log.unlink)
    return f"; Spark's own output is in {_log}"


def _retrying(master: str | None) -> str:
    """A local master that repeats failed tasks, as other masters do."""
    if master is None or master == "local":
        return "local[*,4]" if master is None else "local[1,4]"
    return re.sub(r"^local\[(\*|\d+)\]$", r"local[\1,4]", master)


def _worker_python(master: str) -> str:
    """The Python of workers; on this machine, with the installed pyspark."""
    script = Path(OURS)
    installed = Path(_find_spark_home()) == Path(pyspark.__file__).parent
    usable = master.startswith("local[") and installed and os.access(script, os.X_OK)
    return str(script) if usable else sys.executable


def _check(spark: Any) -> SparkSession:
    """Refuse a session that cannot run the job."""
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        raise SparkError(
            "this is not a classic Spark session",
            code="PS-SPARK-003",
            remedy="Spark Connect is not supported: pass a session that runs in this process",
        )
    return spark


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if java.find_java() is None:
        raise SparkError(
            f"there is no Java in JAVA_HOME ({home})" if home else "Spark needs Java",
            remedy=f"{'correct or unset JAVA_HOME' if home else 'install Java 17 or 21'}, or run "
            'without Spark: connect(runner="inprocess"), penstock run --runner inprocess',
        )


def query_settings(shards: int, by_name: bool = False) -> dict[str, str]:
    """Settings that the streaming query must have; it takes a copy when it starts.

    With format 2 of the state store every attempt of a task writes separate files, and the driver
    records which ones count: simultaneous attempts (speculation) may save different states.
    Spark's checksum files are off: local files have checksums already, and each costs two files.
    """
    return {
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": str(by_name).lower(),
        "spark.sql.shuffle.partitions": str(shards),
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        **dict([_PLAIN_TRACEBACKS]),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 20),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
    }


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Apply settings temporarily; sources are opened only under this lock (`SETTINGS`)."""
    SETTINGS.acquire()
    before = {key: spark.conf.get(key, None) for key in values}
    try:
        for key, value in values.items():
            _set(spark, key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
        SETTINGS.release()


def _set(spark: SparkSession, key: str, value: str) -> None:
    try:
        spark.conf.set(key, value)
    except PySparkException as error:
        raise SparkError(
            f"the Spark session cannot be used: {_first_line(error)}",
            code="PS-SPARK-003",
            remedy=f"pass a session in which {key} can be {value}",
        ) from None


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
