"""The essential of what Spark reports."""

from __future__ import annotations

import pytest

from penstock.spark.failure import essential

PYTHON = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to
stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 2, in main
    process()
AttributeError: 'Lower' object has no attribute 'x'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(P.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_the_python_error_is_the_one_that_matters() -> None:
    error = essential(PYTHON)
    assert error.code == "PS-SPARK-002"
    assert error.message == "the job failed: AttributeError: 'Lower' object has no attribute 'x'"


def test_our_errors_keep_their_code() -> None:
    ours = "penstock.errors.StateError: [PS-STATE-006] the log file x is damaged"
    error = essential(PYTHON.replace("AttributeError: 'Lower'", ours))
    assert error.code == "PS-STATE-006"
    assert error.message.startswith("the log file x is damaged")


def test_our_errors_keep_their_remedy() -> None:
    text = (
        "penstock.spark.config.SparkError: [PS-SRC-005] 1.parquet is torn\n  remedy: mend it\n  at"
    )
    error = essential(PYTHON.replace("AttributeError: 'Lower' object has no attribute 'x'", text))
    assert (error.code, error.message, error.remedy) == (
        "PS-SRC-005",
        "1.parquet is torn",
        "mend it",
    )


CALL = "An error occurred while calling o1.start.\n"
WAIT = f"{CALL}: org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat a.B\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{CALL}: java.io.IOException: No space left\n\tat x", "No space left"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
            "Connection refused SQLSTATE: XXKST\n=== Streaming Query ===",
            "Connection refused",
        ),
        (
            f"{CALL}: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed "
            "to find x. SQLSTATE: 42K02\n\tat org.apache.spark.sql.Errors$.x(Errors.scala:1)",
            "[DATA_SOURCE_NOT_FOUND] Failed to find x.",
        ),
        (
            f"{WAIT}Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.MISMATCH] "
            "Column k is BINARY. SQLSTATE: KD001\n\tat a.B\nCaused by: a.b.NotSupported: no",
            "[FAILED_READ_FILE.MISMATCH] Column k is BINARY.",
        ),
        (
            f"{WAIT}Caused by: java.net.ConnectException: Connection refused\n\tat a.B",
            "Connection refused",
        ),
        (
            f"{WAIT}Caused by: org.apache.kafka.common.errors.TimeoutException: Too late\n\tat a",
            "Kafka: Too late",
        ),
        ("", "unknown"),
    ],
)
def test_what_is_only_java_is_cut_to_what_happened(text: str, said: str) -> None:
    error = essential(text)
    assert error.message == f"the job failed: {said}"
    assert error.remedy


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Checksum error: file:/c/spark/offsets/3 at 512 exp: -1 got: -2", "/c/spark/offsets/3"),
        (
            "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error "
            "occurred during loading state. SQLSTATE: 58030\nCaused by: org.apache.hadoop.fs."
            "ChecksumException: Checksum error: file:/c/spark/state/0/0/4_a.changelog at 0 exp: 1",
            "/c/spark/state/0/0/4_a.changelog",
        ),
        ("java.lang.IllegalStateException: batch 2 doesn't exist", "batch 2 doesn't exist"),
    ],
)
def test_damage_of_the_checkpoint_is_no_fault_of_the_job(text: str, named: str) -> None:
    error = essential(text)
    assert error.code == "PS-STATE-003"
    assert named in error.message
    assert "backup" in error.remedy
    assert "the checkpoint is intact" not in str(error)


@pytest.mark.parametrize(
    "text", ["Error while sending or receiving", "Answer from Java side is empty"]
)
def test_a_java_process_that_is_gone(text: str) -> None:
    error = essential(text)
    assert error.code == "PS-SPARK-002"
    assert "its Java process is gone" in error.message
    assert "the checkpoint is intact" in error.remedy


def test_a_file_that_hides_a_module_of_python_is_named() -> None:
    error = essential(
        "An error occurred while calling o65.load.\n: org.apache.spark.SparkException: \n"
        "Error from python worker:\n  Could not import runpy module\n"
        '  Traceback (most recent call last):\n    File "/app/types.py", line 1, in <module>\n'
        "  ImportError: cannot import name 'Proxy' from partially initialized module 'types' "
        "(most likely due to a circular import) (/app/types.py)\nPYTHONPATH was:\n  /x\n"
        "org.apache.spark.SparkException: EOFException occurred while reading the port number\n"
        "\tat org.apache.spark.Errors(Errors.scala:1)"
    )
    assert error.message.startswith("the job failed: ImportError: cannot import name 'Proxy'")
    assert error.remedy.startswith("/app/types.py hides Python's module types: rename the file")
