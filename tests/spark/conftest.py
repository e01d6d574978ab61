"""One Spark session for all tests here: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from penstock.spark.config import build_session
from spark.kafka_broker import JARS, connector

os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
"""No test runs for long enough to earn what Java's second compiler costs, here or in a process."""
LONG = ("test_kill.py", "test_cluster.py")
"""They start Sparks of their own, and would else be what all others wait for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first."""
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    options = {"spark.local.dir": str(folder)}  # arenas of checkpoints stay there too
    if JARS is not None:
        options["spark.jars"] = connector(JARS)
    session = build_session("local[2,4]", options=options, log=folder / "spark.log")
    yield session
    session.stop()
