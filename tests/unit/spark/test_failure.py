"""The essential of what Spark reports."""

from __future__ import annotations

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


def test_what_is_only_java_is_cut_to_a_line() -> None:
    text = "An error occurred while calling o1.start.\n: java.io.IOException: No space left\n\tat x"
    error = essential(text)
    assert "No space left" in error.message
    assert "\n" not in error.message
